/* Random operators: the numbers of Philox at their positions, for any dtype, layout and number of
 * threads; errors; and the distributions. */
#include <math.h>

#include "check.h"
#include "tensors.h"

#include "operators.h"

static tenon_tensor_t *make(const char *name, const char *attrs_text,
                            tenon_tensor_t *x) { /* Calls an operator after the seed was set. */
  const tenon_op_t *op = op_of(name);
  tenon_attrs_t *attrs = attrs_of(op, attrs_text);
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_op_call(op, attr_values(attrs), &x, &out, 0), TENON_OK);
  tenon_attrs_release(attrs);
  return out;
}

static void check_made(const char *name, const char *attrs,
                       /* Compares with the numbers of seed 42, from the beginning. */
                       const char *expected) {
  tenon_random_seed(42);
  tenon_tensor_t *out = make(name, attrs, NULL);
  CHECK_TENSOR(out, expected);
  tenon_tensor_release(out);
}

/* numbers */

TEST("random numbers are those of PyTorch's Philox 4x32-10") {
  /* at::Philox4_32(seed, 0, position / 4) of PyTorch 2.13 */
  static const struct {
    uint64_t seed;
    uint64_t position;
    int count;
    uint32_t numbers[8];
  } known[] = {{0,
                0,
                8,
                {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8, 0xf8e4cca4, 0x5cb200db, 0xb1a574eb,
                 0x097eff67}},
               {42,
                0,
                8,
                {0x9ceaf053, 0x77f5493b, 0x12bf50ad, 0x5742b3d7, 0xfcdb2127, 0x53ba6cfd, 0x838f5a6e,
                 0x744e06fb}},
               {0x123456789abcdef0,
                20,
                8,
                {0x6e774984, 0xbd12799e, 0xe50d5f10, 0x28d3e2a7, 0xe1b34061, 0x12fea290, 0x3bfbf2e4,
                 0x975dc73f}},
               {0x3d30f19cd101,
                0x400000000,
                8,
                {0xe7e294c8, 0xac42eff4, 0xd6ee7529, 0xab413681, 0xcd44b1a5, 0x4e0c04ce, 0xbf452ae7,
                 0x88225782}},
               {0xffffffffffffffff,
                0xfffffffffffffffc,
                4,
                {0x95a880dd, 0x95be01c8, 0xff3b8f4b, 0x3915061c}}};
  for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
    for (int i = 0; i < known[k].count; i++)
      CHECK(tenon_random(known[k].seed, known[k].position + (uint64_t)i) == known[k].numbers[i]);
    for (int skip = 0; skip < 4 && known[k].count == 8;
         /* The numbers that operators draw, also from inside a block. */
         skip++) {
      tenon_generator_t *generator = NULL;
      tenon_generator_t *before;
      CHECK_STATUS(tenon_generator_create(known[k].seed, &generator), TENON_OK);
      tenon_generator_offset_set(generator, known[k].position + (uint64_t)skip);
      before = tenon_generator_use(generator);
      tenon_tensor_t *out =
          make("core::randint", "low=0; high=4294967296; dtype=i64; shape=[2]", NULL);
      for (int i = 0; i < 2; i++) /* the upper half of two numbers */
        CHECK(out && tensor_int(out, i) == (int64_t)known[k].numbers[skip + 2 * i]);
      tenon_tensor_release(out);
      tenon_generator_use(before);
      tenon_generator_release(generator);
    }
  }
}

TEST("each random operator makes of these numbers what NumPy computes") {
  check_made("core::randn", "shape=[8]",
             "f32[8] -0.9701898 0.19401896 -1.2356207 1.9239267 -0.07318151 0.13913749 -1.106665 "
             "0.32668296");
  check_made(
      "core::randn", "shape=[2, 2]; dtype=f64",
      "f64[2, 2] 0.886497505901441 0.4393560694379266 -0.15660962291201724 -0.013718678830210418");
  check_made("core::randint", "low=-5; high=100; shape=[4]", "i64[4] 59 2 98 48");
  check_made("core::randint", "low=-5; high=100; shape=[2, 1, 2]; dtype=i8",
             "i8[2, 1, 2] 59 2 98 48");
  check_made(
      "core::randint", "low=-9223372036854775808; high=9223372036854775807; shape=[4]",
      "i64[4] 2083742018897791290 -7872484918196784170 8996821133394865404 256523134227580666");
  check_made("core::randn", "shape=[]", "f32[] -0.9701898");
  check_made("core::randn", "shape=[3, 0]", "f32[3, 0]");
  tenon_tensor_t *half = tensor_of("f32[2, 4] 0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5");
  tenon_tensor_t *shape = tensor_of("i64[2] 2 4");
  tenon_tensor_t *out;
  tenon_random_seed(42);
  out = make("core::bernoulli", "dtype=i32", half);
  CHECK_TENSOR(out, "i32[2, 4] 0 1 1 1 0 1 0 1");
  tenon_tensor_release(out);
  tenon_random_seed(42);
  out = make("core::uniform", NULL, shape);
  CHECK_TENSOR(out, "f32[2, 4] 0.61295986 0.4685865 0.0732317 0.3408615 0.98771864 0.32706332 "
                    "0.5139061 0.45431554");
  tenon_tensor_release(out);
  tenon_tensor_release(half);
  tenon_tensor_release(shape);
}

TEST("operators in place put the same numbers at the same positions, also through strides, and "
     "touch no gaps") {
  const char *const flat =
      "f32[2, 3] -0.9701898 0.19401896 -1.2356207 1.9239267 -0.07318151 0.13913749";
  for (int strided = 0; strided < 2; strided++) {
    tenon_tensor_t *x =
        strided ? tensor_strided("f32[2, 3] 9 9 9 9 9 9") : tensor_of("f32[2, 3] 9 9 9 9 9 9");
    tenon_tensor_t *out;
    tenon_random_seed(42);
    out = make("core::normal_", NULL, x);
    CHECK_TENSOR(out, flat);
    CHECK(out && out->data == x->data); /* x itself */
    CHECK_TENSOR(x, flat);
    tenon_tensor_release(out);
    tenon_tensor_release(x);
  }
  float memory[8] = {7, 7, 7, 7, 7, 7, 7, 7};
  int64_t extents[2] = {2, 2};
  int64_t strides[2] = {1, 4};
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *out;
  CHECK_STATUS(
      tenon_tensor_borrow(memory, tenon_dtype(TENON_F32), 2, extents, strides, NULL, NULL, &x),
      TENON_OK);
  tenon_random_seed(42);
  out = make("core::uniform_", "low=-1.0; high=3.0", x);
  CHECK_TENSOR(x, "f32[2, 2] 1.4518394 0.874346 -0.7070732 0.363446");
  CHECK(memory[2] == 7 && memory[3] == 7 && memory[6] == 7 && memory[7] == 7);
  tenon_tensor_release(out);
  tenon_tensor_release(x);
  x = tensor_of("f64[4] 0 0 0 0");
  tenon_random_seed(42);
  out = make("core::uniform_", "low=-1.0; high=3.0", x);
  CHECK_TENSOR(
      x, "f64[4] 1.4518395247576632 -0.7070730502336646 2.950874603658042 1.0556245878844663");
  tenon_tensor_release(out);
  tenon_tensor_release(x);
}

TEST("neither the number of threads nor the division of a tensor into calls changes the numbers") {
  static const char *const names[] = {"core::randn", "core::randint"};
  static const char *const attrs[] = {"shape=[100003]", "high=1000000007; shape=[100003]"};
  for (int k = 0; k < 2; k++) {
    tenon_tensor_t *first = NULL;
    for (int threads = 1; threads <= 4; threads++) {
      tenon_threads_set(threads);
      tenon_random_seed(3);
      tenon_tensor_t *out = make(names[k], attrs[k], NULL);
      if (!first)
        first = out;
      else
        CHECK(memcmp(first->data, out->data, (size_t)100003 * (k ? 8 : 4)) == 0),
            tenon_tensor_release(out);
    }
    tenon_tensor_release(first);
  }
  tenon_threads_set(0);
  float whole[6000];
  float *at = whole;
  tenon_generator_t *generator = NULL;
  CHECK_STATUS(tenon_generator_create(5, &generator), TENON_OK);
  tenon_generator_use(generator);
  tenon_tensor_t *out = make("core::randn", "shape=[6000]", NULL);
  memcpy(whole, out->data, sizeof whole);
  tenon_tensor_release(out);
  for (int part = 0; part < 6; part++) {
    tenon_generator_offset_set(generator, (uint64_t)part * 1000);
    out = make("core::randn", "shape=[1000]", NULL);
    CHECK(memcmp(at + part * 1000, out->data, 1000 * sizeof *at) == 0);
    tenon_tensor_release(out);
  }
  tenon_generator_use(NULL);
  tenon_generator_release(generator);
}

/* dropout */

static void drop(const char *attrs_text, const char *x_text, const char *out_text,
                 const char *mask_text, const char *grad_text, uint64_t drawn) {
  const tenon_op_t *op = op_of("core::dropout");
  tenon_attrs_t *attrs = attrs_of(op, attrs_text);
  tenon_generator_t *generator = NULL;
  tenon_tensor_t *x = tensor_of(x_text);
  tenon_tensor_t *out[2] = {NULL, NULL};
  tenon_tensor_t *ones = tensor_of(x_text);
  for (int64_t i = 0; i < tenon_count(ones); i++)
    ((float *)ones->data)[i] = 1;
  CHECK_STATUS(tenon_generator_create(42, &generator), TENON_OK);
  tenon_generator_use(generator);
  CHECK_STATUS(tenon_tensor_require_grad(x, 1), TENON_OK);
  CHECK_STATUS(tenon_op_call(op, attr_values(attrs), &x, out, 0), TENON_OK);
  CHECK(tenon_generator_offset_get(generator) == drawn);
  CHECK_TENSOR(out[0], out_text);
  CHECK_TENSOR(out[1], mask_text);
  CHECK_STATUS(tenon_backward(out, &ones, 1, 0), TENON_OK);
  CHECK_TENSOR(tenon_tensor_grad(x), grad_text);
  tenon_generator_use(NULL);
  tenon_generator_release(generator);
  tenon_attrs_release(attrs);
  tenon_tensor_release(x);
  tenon_tensor_release(ones);
  tenon_tensor_release(out[0]);
  tenon_tensor_release(out[1]);
}

TEST("dropout is mask times x / (1 - ratio), also for ratios 0 and 1 and without training, and so "
     "is its gradient") {
  const char *const x = "f32[8] 1 2 3 4 5 6 7 inf";
  const char *const ones = "f32[8] 1 1 1 1 1 1 1 1";
  drop("ratio=0.5", x, "f32[8] 2 0 0 0 10 0 14 0", "bool[8] 1 0 0 0 1 0 1 0",
       "f32[8] 2 0 0 0 2 0 2 0", 8);
  drop("ratio=0.0", x, x, "bool[8] 1 1 1 1 1 1 1 1", ones, 8);
  drop("ratio=1.0", x, "f32[8] 0 0 0 0 0 0 0 0", "bool[8] 0 0 0 0 0 0 0 0",
       "f32[8] 0 0 0 0 0 0 0 0", 8);
  drop("ratio=0.5; training=False", x, x, "bool[8] 1 1 1 1 1 1 1 1", ones, 0);
  drop("ratio=1.0; training=False", x, x, "bool[8] 1 1 1 1 1 1 1 1", ones, 0);
  drop("ratio=0.5", "f32[0]", "f32[0]", "bool[0]", "f32[0]", 0);
}

/* distribution */

enum { MANY = 1 << 20 };

static void moments(const tenon_tensor_t *t, double *out_mean, double *out_variance) {
  double sum = 0;
  double squares = 0;
  int64_t count = tenon_count(t);
  for (int64_t i = 0; i < count; i++)
    sum += tensor_float(t, i);
  *out_mean = sum / (double)count;
  for (int64_t i = 0; i < count; i++)
    squares += pow(tensor_float(t, i) - *out_mean, 2);
  *out_variance = squares / (double)count;
}

/* Chi-square over equally likely bins: with k degrees of freedom its mean is k and its variance 2k;
 * six standard deviations are allowed. */
static void check_even(const int64_t *counts, int bins, int64_t total) {
  double chi = 0;
  double expected = (double)total / bins;
  double k = bins - 1;
  for (int b = 0; b < bins; b++)
    chi += pow((double)counts[b] - expected, 2) / expected;
  if (!CHECK(fabs(chi - k) < 6 * sqrt(2 * k)))
    fprintf(stderr, "  chi-square %g of %g degrees\n", chi, k);
}

TEST("a million numbers of a fixed seed have the expected mean, variance and spread") {
  enum { BINS = 100 };
  double mean, variance;
  int64_t counts[BINS] = {0};
  tenon_random_seed(2024);
  tenon_tensor_t *t = make("core::randn", "shape=[1024, 1024]", NULL);
  moments(t, &mean,
          /* Standard deviations: 1 / sqrt(n) for the mean, sqrt(2 / n) for the variance, and
           * 0.00045 for the share within 1. */
          &variance);
  CHECK(fabs(mean) < 5 / sqrt(MANY) && fabs(variance - 1) < 5 * sqrt(2.0 / MANY));
  int64_t within = 0;
  for (int64_t i = 0; i < MANY; i++)
    within += fabs(tensor_float(t, i)) < 1;
  CHECK(fabs((double)within / MANY - 0.6826894921) < 5 * 0.00045);
  /* The normal distribution's share below a number is uniform. */
  for (int64_t i = 0; i < MANY; i++) {
    int bin = (int)(BINS * 0.5 * erfc(-tensor_float(t, i) / sqrt(2)));
    counts[bin < BINS ? bin : BINS - 1]++;
  }
  check_even(counts, BINS, MANY);
  double together = 0; /* Neighbours are independent, also those of one Box-Muller pair. */
  for (int64_t i = 0; i + 1 < MANY; i++)
    together += tensor_float(t, i) * tensor_float(t, i + 1);
  CHECK(fabs(together / MANY) < 5 / sqrt(MANY));
  tenon_tensor_t *out = make("core::normal_", "mean=3.0; std=0.5", t);
  moments(t, &mean, &variance);
  CHECK(fabs(mean - 3) < 5 * 0.5 / sqrt(MANY) &&
        fabs(variance - 0.25) < 5 * 0.25 * sqrt(2.0 / MANY));
  tenon_tensor_release(out);
  out = make("core::uniform_", "low=2.0; high=4.0", t);
  moments(t, &mean, &variance);
  CHECK(fabs(mean - 3) < 5 * sqrt(1.0 / 3 / MANY) && fabs(variance - 1.0 / 3) < 0.002);
  memset(counts, 0, sizeof counts);
  for (int64_t i = 0; i < MANY; i++) {
    double x = tensor_float(t, i);
    if (CHECK(x >= 2 && x < 4))
      counts[(int)((x - 2) / 2 * BINS)]++;
    else
      break;
  }
  check_even(counts, BINS, MANY);
  tenon_tensor_release(out);
  tenon_tensor_release(t);
  t = make("core::randint", "low=-3; high=97; shape=[1048576]; dtype=i16", NULL);
  memset(counts, 0, sizeof counts);
  for (int64_t i = 0; i < MANY; i++) {
    int64_t x = tensor_int(t, i);
    if (CHECK(x >= -3 && x < 97))
      counts[x + 3]++;
    else
      break;
  }
  check_even(counts, BINS, MANY);
  tenon_tensor_release(t);
}

/* errors */

static void refused(const char *name, const char *attrs_text, const char *part) {
  const tenon_op_t *op = op_of(name);
  tenon_attrs_t *attrs = attrs_of(op, attrs_text);
  const tenon_value_t *values = NULL;
  tenon_tensor_t *out = NULL;
  tenon_status_t status = tenon_attrs_values(attrs, &values);
  if (status == TENON_OK) status = tenon_op_call(op, values, NULL, &out, 0);
  CHECK(status == TENON_INVALID && out == NULL);
  CHECK_TEXT(tenon_error(), part);
  tenon_attrs_release(attrs);
}

TEST("bounds, dtypes and shapes that make no sense are refused with the value found") {
  refused("core::randint", "low=5; high=5; shape=[2]", "core::randint: low is 5 and high is 5");
  refused("core::randint", "high=300; shape=[2]; dtype=u8",
          "integers from 0 to below 300 do not fit the dtype, whose range is 0 to 255");
  refused("core::randint", "low=-1; high=3; shape=[2]; dtype=u64", "do not fit the dtype");
  refused("core::randint", "low=-129; high=3; shape=[2]; dtype=i8", "whose range is -128 to 127");
  refused("core::randint", "high=3; shape=[2]; dtype=f32", "dtype must be an integer");
  refused("core::randint", "high=3; shape=[2]; dtype=bool", "dtype must be an integer");
  refused("core::randint", "shape=[2]", "high");
  refused("core::randn", "shape=[2]; dtype=i32", "dtype must be f16, bf16, f32 or f64");
  refused("core::randn", "shape=[2, -1]", "extent 1 of the shape is -1");
  refused("core::dropout", "ratio=1.5", "ratio is 1.5");
}

TEST("nothing is left behind") { tenon_shutdown(); }
