/* The drivers of loops and row kernels: conversions between all float dtypes, random broadcasts and
 * strides against a naive evaluator, inputs that share memory with results, and equal results for
 * any number of threads. */
#include "check.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

#include "casts.h"

TENON_C const tenon_descriptor_t *tenon_library_contract(void);

static void start(void) {
  static int started;
  if (!started++)
    CHECK_STATUS(tenon_library_add(tenon_library_contract(), NULL, NULL, NULL), TENON_OK);
}

/* conversions */

static tenon_tensor_t *patterns(uint32_t id, const uint64_t *bits,
                                int64_t repeat) { /* Each number is repeated `repeat` times. */
  int64_t shape[1] = {CAST_COUNT * repeat};
  tenon_tensor_t *t = NULL;
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(id), 1, shape, &t), TENON_OK);
  for (int64_t i = 0; i < shape[0]; i++)
    memcpy(tensor_at(t, i), &bits[i % CAST_COUNT], t->dtype.bits / 8);
  return t;
}

static bool same_pattern(const tenon_tensor_t *t, int64_t i, uint64_t expected) {
  double number = tensor_float(t, i);
  uint64_t found = 0;
  memcpy(&found, tensor_at(t, i), t->dtype.bits / 8);
  if (!isnan(number)) return found == expected;
  memcpy(tensor_at(t, i), &expected, t->dtype.bits / 8);
  return isnan(tensor_float(t, i));
}

TEST("a loop converts from every float dtype to every float dtype, rounding once") {
  start();
  const tenon_op_t *op = op_of("contract::same");
  for (int from = 0; from < CAST_KINDS; from++)
    for (int to = 0; to < CAST_KINDS; to++)
      for (int64_t repeat = 1; repeat <= 301; repeat += 300) {
        tenon_attrs_t *attrs = NULL;
        tenon_tensor_t *x = patterns(cast_ids[from], cast_table[from][0], repeat);
        tenon_tensor_t *out = NULL;
        const char *name = tn_dtype_name(tenon_dtype(cast_ids[to]));
        CHECK_STATUS(tenon_attrs_create(op, &attrs), TENON_OK);
        CHECK_STATUS(tenon_attrs_parse(attrs, "to", name), TENON_OK);
        CHECK_STATUS(tenon_op_call(op, attr_values(attrs), &x, &out, 0), TENON_OK);
        for (int64_t i = 0; out && i < CAST_COUNT * repeat; i++) {
          if (same_pattern(out, i, cast_table[from][1 + to][i % CAST_COUNT])) continue;
          CHECK_NEVER("a conversion");
          fprintf(stderr, "  %s to %s, element %d: %g became %g\n",
                  tn_dtype_name(tenon_dtype(cast_ids[from])), name, (int)i, tensor_float(x, i),
                  tensor_float(out, i));
          break;
        }
        tenon_attrs_release(attrs);
        tenon_tensor_release(x);
        tenon_tensor_release(out);
      }
}

/* random shapes */

static uint64_t seed = 20240229;
static int64_t pick(int64_t count) { /* 0 to count - 1 */
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((seed >> 33) % (uint64_t)count);
}

/* Makes a tensor of that shape with small random integers; its axes are in random order, with gaps,
 * some of them backwards. */
static tenon_tensor_t *random_tensor(uint32_t id, int32_t ndim, const int64_t *shape, bool dense) {
  int64_t strides[TENON_RANK_MAX];
  int64_t room = 1;
  int64_t first = 0;
  int32_t order[TENON_RANK_MAX];
  tenon_tensor_t *t = NULL;
  for (int32_t i = 0; i < ndim; i++)
    order[i] = i;
  for (int32_t i = ndim - 1; i > 0 && !dense; i--) {
    int32_t j = (int32_t)pick(i + 1);
    int32_t swap = order[i];
    order[i] = order[j];
    order[j] = swap;
  }
  for (int32_t k = ndim - 1; k >= 0; k--) {
    int32_t axis = order[k];
    int64_t gap = !dense && pick(4) == 0 ? 1 + pick(3) : 1;
    strides[axis] = room * gap;
    room *= gap * (shape[axis] > 0 ? shape[axis] : 1);
    if (dense || pick(5) || shape[axis] == 0) continue;
    first += (shape[axis] - 1) * strides[axis];
    strides[axis] = -strides[axis];
  }
  size_t size = tenon_dtype(id).bits / 8;
  char *data = calloc((size_t)room + 1, size);
  CHECK_STATUS(tenon_tensor_borrow(data + (size_t)first * size, tenon_dtype(id), ndim, shape,
                                   strides, free, data, &t),
               TENON_OK);
  for (int64_t i = 0, n = tenon_count(t); i < n; i++) {
    int32_t value = (int32_t)pick(200) - 100;
    float f = (float)value;
    if (id == TENON_I32)
      memcpy(tensor_at(t, i), &value, sizeof value);
    else if (id == TENON_F32)
      memcpy(tensor_at(t, i), &f, sizeof f);
    else
      *(uint16_t *)(void *)tensor_at(t, i) =
          (uint16_t)((value < 0 ? 0xbc00 : 0x3c00) + (value & 3) * 0x400);
  }
  return t;
}

/* Chooses the shape of an operand that broadcasts to the result: it has fewer axes, and some
 * extents are 1. */
static int32_t part_of(int32_t ndim, const int64_t *shape, bool full, int64_t *out) {
  int32_t rank = full || pick(3) ? ndim : (int32_t)pick(ndim + 1);
  for (int32_t i = 0; i < rank; i++)
    out[i] = full || pick(3) ? shape[ndim - rank + i] : 1;
  return rank;
}

static int64_t element_of(const tenon_tensor_t *result, const tenon_tensor_t *part,
                          int64_t index) { /* a row-major index into `part` */
  int64_t at = 0;
  int64_t stride = 1;
  for (int32_t d = result->ndim - 1, e = part->ndim - 1; e >= 0; d--, e--) {
    at += part->shape[e] == 1 ? 0 : index % result->shape[d] * stride;
    index /= result->shape[d];
    stride *= part->shape[e];
  }
  return at;
}

static int32_t random_shape(int64_t *shape) {
  int32_t ndim = (int32_t)pick(6);
  int64_t total = 1;
  for (int32_t i = 0; i < ndim; i++) {
    shape[i] = pick(12) == 0 ? pick(2) : 1 + pick(7);
    if (pick(6) == 0) shape[i] = 60 + pick(40);
    if (pick(20) == 0) shape[i] = 1000 + pick(4000);
    if (total * shape[i] > 150000) shape[i] = 1;
    total *= shape[i] ? shape[i] : 1;
  }
  return ndim;
}

TEST("loops over random broadcasts and strides give what a naive evaluator gives") {
  start();
  const tenon_op_t *op = op_of("contract::four");
  for (int round = 0; round < 1500; round++) {
    int64_t shape[8], part[8];
    int32_t ndim = random_shape(shape);
    tenon_tensor_t *in[4];
    tenon_tensor_t *out = NULL;
    tenon_tensor_t *made = NULL;
    tenon_threads_set(1 + (int32_t)pick(4));
    int full = (int)pick(4);
    for (int i = 0; i < 4; i++) {
      int32_t rank = part_of(ndim, shape, i == full, part);
      in[i] = random_tensor(TENON_I32, rank, part, pick(2) == 0);
    }
    out = random_tensor(TENON_I32, ndim, shape, pick(2) == 0);
    CHECK_STATUS(tenon_op_call_into(op, NULL, in, &out), TENON_OK);
    CHECK_STATUS(tenon_op_call(op, NULL, in, &made, 0), TENON_OK);
    for (int64_t n = 0, count = tenon_count(out); n < count && made; n++) {
      int64_t v[4];
      for (int i = 0; i < 4; i++)
        v[i] = tensor_int(in[i], element_of(out, in[i], n));
      int64_t expected = v[0] - 3 * v[1] + 5 * v[2] - 7 * v[3];
      if (tensor_int(out, n) == expected && tensor_int(made, n) == expected) continue;
      CHECK_NEVER("an element");
      fprintf(stderr, "  round %d, element %lld of rank %d\n", round, (long long)n, (int)ndim);
      round = 1 << 20;
      break;
    }
    for (int i = 0; i < 4; i++)
      tenon_tensor_release(in[i]);
    tenon_tensor_release(out);
    tenon_tensor_release(made);
  }
  tenon_threads_set(0);
}

TEST("converting loops with two results of any layout give what a naive evaluator gives") {
  start();
  const tenon_op_t *op = op_of("contract::both");
  for (int round = 0; round < 600; round++) {
    int64_t shape[8], part[8];
    int32_t ndim = random_shape(shape);
    uint32_t id = pick(2) ? TENON_F16 : TENON_F32;
    tenon_threads_set(1 + (int32_t)pick(4));
    int32_t rank = part_of(ndim, shape, false, part);
    tenon_tensor_t *in[2] = {random_tensor(id, ndim, shape, pick(2) == 0),
                             random_tensor(id, rank, part, pick(2) == 0)};
    tenon_tensor_t *out[2] = {random_tensor(id, ndim, shape, pick(2) == 0),
                              random_tensor(id, ndim, shape, pick(2) == 0)};
    CHECK_STATUS(tenon_op_call_into(op, NULL, in, out), TENON_OK);
    for (int64_t n = 0, count = tenon_count(out[0]); n < count; n++) {
      double a = tensor_float(in[0], n);
      double b = tensor_float(in[1], element_of(out[0], in[1], n));
      if (tensor_float(out[0], n) == a + b && tensor_float(out[1], n) == a - b) continue;
      CHECK_NEVER("an element");
      fprintf(stderr, "  round %d, element %lld\n", round, (long long)n);
      round = 1 << 20;
      break;
    }
    for (int i = 0; i < 2; i++) {
      tenon_tensor_release(in[i]);
      tenon_tensor_release(out[i]);
    }
  }
  tenon_threads_set(0);
}

TEST("a loop that is declared \"strided\" is correct for any strides") {
  start();
  const tenon_op_t *op = op_of("contract::product");
  for (int round = 0; round < 300; round++) {
    int64_t shape[8], part[8];
    int32_t ndim = random_shape(shape);
    int32_t rank = part_of(ndim, shape, false, part);
    uint32_t id = pick(2) ? TENON_F16 : TENON_F32;
    tenon_tensor_t *in[2] = {random_tensor(id, ndim, shape, pick(2) == 0),
                             random_tensor(id, rank, part, pick(2) == 0)};
    tenon_tensor_t *out = random_tensor(id, ndim, shape, pick(2) == 0);
    CHECK_STATUS(tenon_op_call_into(op, NULL, in, &out), TENON_OK);
    for (int64_t n = 0, count = tenon_count(out); n < count; n++) {
      double a = tensor_float(in[0], n);
      double b = tensor_float(in[1], element_of(out, in[1], n));
      if (tensor_float(out, n) == a * b) continue;
      CHECK_NEVER("an element");
      round = 1 << 20;
      break;
    }
    for (int i = 0; i < 2; i++)
      tenon_tensor_release(in[i]);
    tenon_tensor_release(out);
  }
}

static tenon_status_t negate_rows(const tenon_loop_t *loop) {
  for (int64_t r = 0; r < loop->rows; r++) {
    const float *x =
        (const float *)(const void *)((const char *)loop->data[0] + r * loop->stride[0]);
    float *out = (float *)(void *)((char *)loop->data[1] + r * loop->stride[1]);
    for (int64_t i = 0; i < loop->count; i++)
      out[i] = -x[i];
  }
  return TENON_OK;
}

/* clang-format off */
static const tenon_item_t strided_items[] = {
  TENON_OP("negate(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("x: [..., k]; out: [..., k]"),
    TENON_ROW("f32 -> f32; strided", negate_rows)),
  {TENON_TAG_END, 0, 0, 0, 0}};
/* clang-format on */
static const tenon_descriptor_t strided_library = {
    sizeof(tenon_descriptor_t), TENON_ABI, TENON_LAYOUT, 0, "rowstride", "1.0.0", strided_items};

TEST("a row kernel that is declared \"strided\" gets dense rows all the same") {
  start();
  CHECK_STATUS(tenon_library_add(&strided_library, NULL, NULL, NULL), TENON_OK);
  tenon_tensor_t *x = tensor_of("f32[2, 3] 1 2 3 4 5 6");
  int64_t shape[2] = {3, 2};
  int64_t strides[2] = {1, 3};
  tenon_tensor_t turned;
  CHECK_STATUS(tenon_tensor_view(&turned, x->data, x->dtype, 2, shape, strides, NULL), TENON_OK);
  tenon_tensor_t *in = &turned;
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_op_call(op_of("rowstride::negate"), NULL, &in, &out, 0), TENON_OK);
  check_tensor(out, "f32[3, 2] -1 -4 -2 -5 -3 -6", 0, __FILE__, __LINE__);
  tenon_tensor_release(out);
  tenon_tensor_release(x);
}

TEST("row kernels over random strides, with rows that are shared, give what a naive evaluator "
     "gives") {
  start();
  const tenon_op_t *op = op_of("contract::scale");
  for (int round = 0; round < 400; round++) {
    int64_t shape[8], gains[8];
    int32_t ndim = random_shape(shape);
    if (ndim == 0) continue;
    uint32_t id = pick(2) ? TENON_F16 : TENON_F32;
    int32_t rank = pick(2) ? ndim : 1 + (int32_t)pick(ndim);
    bool shared = rank != ndim || pick(2);
    for (int32_t i = 0; i < rank; i++)
      gains[i] = i == rank - 1 ? shape[ndim - 1] : shared ? 1 : shape[i];
    tenon_threads_set(1 + (int32_t)pick(4));
    tenon_tensor_t *in[2] = {random_tensor(id, ndim, shape, pick(2) == 0),
                             random_tensor(id, rank, gains, pick(2) == 0)};
    tenon_tensor_t *out = random_tensor(id, ndim, shape, pick(2) == 0);
    CHECK_STATUS(tenon_op_call_into(op, NULL, in, &out), TENON_OK);
    for (int64_t n = 0, count = tenon_count(out); n < count; n++) {
      double a = tensor_float(in[0], n);
      double b = tensor_float(in[1], element_of(out, in[1], n));
      if (tensor_float(out, n) == a * b) continue;
      CHECK_NEVER("an element");
      fprintf(stderr, "  round %d, element %lld\n", round, (long long)n);
      round = 1 << 20;
      break;
    }
    for (int i = 0; i < 2; i++)
      tenon_tensor_release(in[i]);
    tenon_tensor_release(out);
  }
  tenon_threads_set(0);
}

/* shared memory */

enum { LARGE = 200000 };

static tenon_tensor_t *view_of(int32_t *data, int32_t ndim, const int64_t *shape,
                               const int64_t *strides) {
  tenon_tensor_t *t = NULL;
  CHECK_STATUS(
      tenon_tensor_borrow(data, tenon_dtype(TENON_I32), ndim, shape, strides, NULL, NULL, &t),
      TENON_OK);
  return t;
}

/* Computes a - 3 b + 5 c - 7 d into `out`, with all tensors in one buffer, and compares it with the
 * same on inputs that were copied before. */
static void check_shared(tenon_tensor_t *a, tenon_tensor_t *b, tenon_tensor_t *out,
                         const char *what) {
  const tenon_op_t *op = op_of("contract::four");
  tenon_tensor_t *zero = tensor_of("i32[] 0");
  tenon_tensor_t *copies[4] = {NULL, NULL, zero, zero};
  tenon_tensor_t *expected = NULL;
  CHECK_STATUS(tenon_tensor_copy(a, &copies[0]), TENON_OK);
  CHECK_STATUS(tenon_tensor_copy(b, &copies[1]), TENON_OK);
  CHECK_STATUS(tenon_op_call(op, NULL, copies, &expected, 0), TENON_OK);
  tenon_tensor_t *inputs[4] = {a, b, zero, zero};
  CHECK_STATUS(tenon_op_run(op, NULL, inputs, &out), TENON_OK);
  if (!CHECK(tensor_equal(out, expected, 0))) fprintf(stderr, "  %s\n", what);
  tenon_tensor_release(copies[0]);
  tenon_tensor_release(copies[1]);
  tenon_tensor_release(expected);
  tenon_tensor_release(zero);
  tenon_tensor_release(a);
  tenon_tensor_release(b);
  tenon_tensor_release(out);
}

TEST("a result may be written over an input, wherever in that memory the other inputs lie") {
  start();
  int32_t *data = malloc((LARGE + 100) * sizeof *data);
  static const int64_t sizes[] = {10, 3000, LARGE};
  for (int threads = 1; threads <= 4; threads += 3)
    for (int s = 0; s < 3; s++) {
      int64_t n = sizes[s];
      int64_t line[1] = {n};
      int64_t dense[1] = {1};
      int64_t back[1] = {-1};
      int64_t one[1] = {1};
      for (int64_t i = 0; i < n + 100; i++)
        data[i] = (int32_t)(i % 1009);
      tenon_threads_set(threads);
#define LINE(offset) view_of(data + (offset), 1, line, dense)
      check_shared(LINE(0), LINE(0), LINE(0), "all in one place");
      check_shared(LINE(0), LINE(1), LINE(0), "an input one element later");
      check_shared(LINE(1), LINE(50), LINE(0), "the result before the inputs");
      check_shared(LINE(0), LINE(0), LINE(1), "the result one element later");
      check_shared(LINE(0), view_of(data, 1, one, dense), LINE(0),
                   "a shared element that is overwritten first");
      check_shared(LINE(0), view_of(data + n - 1, 1, line, back), LINE(0), "an input backwards");
#undef LINE
      int64_t rows = n / 10;
      int64_t square[2] = {rows, 10};
      int64_t row[2] = {10, 1};
      int64_t first[2] = {1, 10};
      int64_t turned[2] = {1, rows};
      check_shared(view_of(data, 2, square, row), view_of(data, 2, first, row),
                   view_of(data, 2, square, row), "a shared row that is overwritten first");
      check_shared(view_of(data, 2, square, row), view_of(data, 2, square, turned),
                   view_of(data, 2, square, row), "an input transposed");
    }
  tenon_threads_set(0);
  free(data);
}

TEST("a result may overlap inputs of its own shape if each of them is dense") {
  start();
  const tenon_op_t *op = op_of("contract::four");
  int32_t data[400], before[400];
  for (int round = 0; round < 3000; round++) {
    int64_t n = 1 + pick(40);
    int64_t shape[2] = {1 + pick(3), n};
    int64_t count = shape[0] * n;
    int64_t at[5];
    tenon_tensor_t *t[5];
    for (int i = 0; i < 400; i++)
      data[i] = before[i] = (int32_t)pick(1000) - 500;
    for (int i = 0; i < 5; i++) {
      at[i] = i == 0 || pick(4) ? pick(280) : at[i - 1];
      t[i] = view_of(data + at[i], 2, shape, NULL);
    }
    CHECK_STATUS(tenon_op_run(op, NULL, t, &t[4]), TENON_OK);
    for (int64_t i = 0; i < count; i++) {
      const int32_t *x = before + i;
      if (data[at[4] + i] == x[at[0]] - 3 * x[at[1]] + 5 * x[at[2]] - 7 * x[at[3]]) continue;
      CHECK_NEVER("an element");
      round = 1 << 20;
      break;
    }
    for (int i = 0; i < 400; i++)
      CHECK((i >= at[4] && i < at[4] + count) || data[i] == before[i]);
    for (int i = 0; i < 5; i++)
      tenon_tensor_release(t[i]);
  }
}

TEST("a result of another dtype may be written over an input") {
  start();
  const tenon_op_t *op = op_of("contract::same");
  float *data = malloc(LARGE * sizeof *data);
  int64_t shape[1] = {LARGE};
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *out = NULL;
  for (int64_t i = 0; i < LARGE; i++)
    ((uint16_t *)(void *)data)[i] = (uint16_t)(i % 0x7c00);
  CHECK_STATUS(tenon_tensor_borrow(data, tenon_dtype(TENON_F16), 1, shape, NULL, NULL, NULL, &x),
               TENON_OK);
  CHECK_STATUS(tenon_tensor_borrow(data, tenon_dtype(TENON_F32), 1, shape, NULL, NULL, NULL, &out),
               TENON_OK);
  CHECK_STATUS(tenon_op_run(op, NULL, &x, &out), TENON_OK);
  const float_kind_t *kind = float_kind(tenon_dtype(TENON_F16));
  int mistakes = 0;
  for (int64_t i = 0; i < LARGE; i++)
    mistakes += (double)data[i] != float_decode(kind, (uint32_t)(i % 0x7c00));
  CHECK(mistakes == 0);
  tenon_tensor_release(x);
  tenon_tensor_release(out);
  free(data);
}

TEST("a loop is told the position of its elements") {
  start();
  int64_t shape[2] = {3, 50000};
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 2, shape, &x), TENON_OK);
  memset(x->data, 0, 600000);
  for (int threads = 1; threads <= 4; threads++) {
    int mistakes = 0;
    tenon_threads_set(threads);
    CHECK_STATUS(tenon_op_call(op_of("contract::position"), NULL, &x, &out, 0), TENON_OK);
    for (int64_t i = 0; i < 150000; i++)
      mistakes += ((int64_t *)out->data)[i] != i;
    CHECK(mistakes == 0);
    tenon_tensor_release(out);
    out = NULL;
  }
  tenon_threads_set(0);
  tenon_tensor_release(x);
}

TEST("an input with a wrong number of rows is refused by name") {
  start();
  tenon_tensor_t *in[2] = {tensor_of("f32[2,2] 1 2 3 4"), tensor_of("f32[3,2] 1 2 3 4 5 6")};
  tenon_tensor_t *out[1] = {NULL};
  CHECK_STATUS(tenon_op_call(op_of("contract::scale"), NULL, in, out, 0), TENON_INVALID);
  out[0] = tensor_of("f32[2,2] 0 0 0 0");
  CHECK_STATUS(tenon_op_run(op_of("contract::scale"), NULL, in, out), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "contract::scale: gain has 3 rows, expected 2 or 1");
  tenon_tensor_release(in[0]);
  tenon_tensor_release(in[1]);
  tenon_tensor_release(out[0]);
}

TEST("nothing is left behind") { tenon_shutdown(); }
