/* Random numbers: dropout, bernoulli, uniform, normal, integers. infer states how many 32-bit
 * numbers a call draws. Number i is tenon_random(seed, offset + i); which element uses which number
 * is stated below.
 * Invariant: a result depends only on seed, offset and its position, not on how the work was split
 * or fused. */
#include "axes.h"
#include "dtype_scalar.h"
#include <math.h>

/* draws */

enum {
  LANES = 16,
  BATCH = 4 * LANES,
  CHUNK = 256,
};

/* Computes LANES counters of Philox side by side, so that the rounds become vector instructions. */
static void philox_batch(uint64_t seed, uint64_t counter, uint32_t out[BATCH]) {
  uint32_t c[4][LANES];
  uint32_t k0 = (uint32_t)seed;
  uint32_t k1 = (uint32_t)(seed >> 32);
  for (uint32_t i = 0; i < LANES; i++) {
    c[0][i] = (uint32_t)(counter + i);
    c[1][i] = (uint32_t)((counter + i) >> 32);
    c[2][i] = c[3][i] = 0;
  }
  for (int r = 0; r < 10; r++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
    for (int i = 0; i < LANES; i++) {
      uint64_t p = (uint64_t)0xD2511F53u * c[0][i];
      uint64_t q = (uint64_t)0xCD9E8D57u * c[2][i];
      c[0][i] = (uint32_t)(q >> 32) ^ c[1][i] ^ k0;
      c[1][i] = (uint32_t)q;
      c[2][i] = (uint32_t)(p >> 32) ^ c[3][i] ^ k1;
      c[3][i] = (uint32_t)p;
    }
  for (int i = 0; i < BATCH; i++)
    out[i] = c[i % 4][i / 4];
}

/* out[i] = tenon_random(seed, index + i). */
static void draw_numbers(uint64_t seed, uint64_t index, int64_t count, uint32_t *out) {
  uint32_t batch[BATCH];
  uint64_t counter = index >> 2;
  for (int64_t skip = (int64_t)(index & 3); count > 0; skip = 0, counter += LANES) {
    int64_t n = count < BATCH - skip ? count : BATCH - skip;
    philox_batch(seed, counter, batch);
    memcpy(out, batch + skip, (size_t)n * sizeof *out);
    out += n;
    count -= n;
  }
}

/* Gives seed and offset of a call. */
static void stream_of_call(const tenon_call_t *call, uint64_t *out_seed, uint64_t *out_offset) {
  const tenon_random_t *random = call->random;
  *out_seed = random->device ? random->device[0] : random->seed;
  *out_offset = random->offset + (random->device ? random->device[1] : 0);
}

/* dropout and bernoulli: element i uses number i */

/* Draws the numbers of a run's elements from `at` on, CHUNK at most. Returns how many. */
static int64_t draw_part(const tenon_loop_t *loop, int64_t at, uint32_t *numbers) {
  int64_t count = loop->count - at < CHUNK ? loop->count - at : CHUNK;
  if (count > 0)
    draw_numbers(loop->seed, loop->offset + loop->first + (uint64_t)at, count, numbers);
  return count;
}

/* Loops over the elements of a run; NUMBER is the number of element i. */
#define EACH_DRAW(loop)                                                                            \
  uint32_t numbers[CHUNK];                                                                         \
  for (int64_t at = 0, part; (part = draw_part(loop, at, numbers)) > 0; at += part)                \
    for (int64_t i = at; i < at + part; i++)
#define NUMBER numbers[i - at]

static tenon_status_t draws_one_each(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  infer->draws = dims_product(infer, x->dims, 0, x->ndim);
  return TENON_OK;
}

/* Nothing is drawn unless `training` is set. */
static tenon_status_t dropout_infer(tenon_infer_t *infer) {
  if (infer->attrs[1].as.i) return draws_one_each(infer);
  infer->draws = tenon_extent(0);
  return TENON_OK;
}

static tenon_status_t ratio_validate(tenon_node_t *node) {
  double ratio = node->attrs[0].as.f;
  if (ratio >= 0 && ratio <= 1) return TENON_OK;
  return tenon_fail(node, TENON_INVALID,
                    "ratio is %g; expected the share of elements to set to 0, from 0 to 1", ratio);
}

/* The share of elements to set to 0: those whose number is below `threshold`. */
static double dropped_share(const tenon_loop_t *loop) {
  return loop->attrs[1].as.i ? loop->attrs[0].as.f : 0;
}
static uint64_t drop_threshold(const tenon_loop_t *loop) {
  return (uint64_t)(dropped_share(loop) * 0x1p32);
}

#define T float
#define NAME(x) x##_f32
#include "dropout_kernel.h"

#define T double
#define NAME(x) x##_f64
#include "dropout_kernel.h"

/* bernoulli is a kernel and not a loop, because the host selects a loop by the dtypes of inputs,
 * and here the result may have any dtype. */
typedef struct trial_t {
  const tenon_tensor_t *x;
  tenon_tensor_t *out;
  uint64_t seed, offset;
  int64_t count;
} trial_t;

static tenon_status_t bernoulli_part(tenon_call_t *call, void *argument, int64_t begin,
                                     int64_t end) {
  const trial_t *trial = (const trial_t *)argument;
  uint32_t numbers[CHUNK];
  (void)call;
  for (int64_t at = begin * CHUNK; at < trial->count && at < end * CHUNK; at += CHUNK) {
    int64_t n = trial->count - at < CHUNK ? trial->count - at : CHUNK;
    draw_numbers(trial->seed, trial->offset + (uint64_t)at, n, numbers);
    for (int64_t i = 0; i < n; i++)
      number_set(trial->out->dtype, trial->out->data, at + i,
                 numbers[i] * 0x1p-32 < number_get(trial->x->dtype, trial->x->data, at + i));
  }
  return TENON_OK;
}

static tenon_status_t bernoulli_run(tenon_call_t *call) {
  trial_t trial = {
      .x = call->inputs[0], .out = call->outputs[0], .count = tenon_count(call->inputs[0])};
  stream_of_call(call, &trial.seed, &trial.offset);
  return call->host->parallel(call, (trial.count + CHUNK - 1) / CHUNK, 16, bernoulli_part, &trial);
}

static tenon_status_t bernoulli_infer(tenon_infer_t *infer) {
  tenon_dtype_t to = infer->outputs[0]->dtype;
  if (to.bits < 8 || to.lanes != 1 || (to.code > 2 && to.code != 4 && to.code != 6))
    return tenon_fail(infer, TENON_INVALID,
                      "dtype must be a plain number or bool, which can represent 0 and 1");
  return draws_one_each(infer);
}

/* filling: elements are numbered in row-major order */

/* An f64 uses two numbers, 2i and 2i + 1; an integer also uses two; any other dtype uses number
 * i. */
typedef struct fill_t {
  tenon_tensor_t *out;
  uint64_t seed;
  uint64_t offset;
  int64_t count;
  int64_t wide; /* numbers per element: 1 or 2 */
  int digits;   /* digits of the mantissa; a fraction with more could round up to 1 */
  int is_dense;
  double low;
  double span;
  int64_t least;  /* least integer */
  uint64_t range; /* count of integers */
} fill_t;

/* Gives the bits of the fractions for elements from `begin` on, most significant first. */
static void draw_fractions(const fill_t *fill, int64_t begin, int64_t count, uint64_t *bits) {
  uint32_t numbers[2 * CHUNK];
  draw_numbers(fill->seed, fill->offset + (uint64_t)(begin * fill->wide), count * fill->wide,
               numbers);
  for (int64_t i = 0; i < count; i++)
    bits[i] = fill->wide == 2 ? (uint64_t)numbers[2 * i] << 32 | numbers[2 * i + 1]
                              : (uint64_t)numbers[i] << 32;
}

/* Offset of element i in memory. */
static int64_t element_offset(const fill_t *fill, int64_t i) {
  int64_t at = 0;
  if (fill->is_dense) return i;
  for (int32_t d = fill->out->ndim - 1; d >= 0; i /= fill->out->shape[d--])
    at += i % fill->out->shape[d] * fill->out->strides[d];
  return at;
}

static void store_number(const fill_t *fill, int64_t i, double value) {
  if (i < fill->count)
    number_set(fill->out->dtype, fill->out->data, element_offset(fill, i), value);
}

/* Draws the fractions of the chunk at `at`, an even number of them. Returns 0 at the end. */
static int64_t draw_chunk(const fill_t *fill, int64_t at, int64_t end, uint64_t *bits) {
  if (at >= fill->count || at >= end * CHUNK) return 0;
  int64_t left = fill->count - at;
  int64_t n = left < CHUNK ? (left + 1) / 2 * 2 : CHUNK;
  draw_fractions(fill, at, n, bits);
  return n;
}

/* Loops over chunks of n elements from `at` on; `bits` holds their random bits. */
#define EACH_CHUNK(fill)                                                                           \
  uint64_t bits[CHUNK];                                                                            \
  for (int64_t at = begin * CHUNK, n; (n = draw_chunk(fill, at, end, bits)) > 0; at += CHUNK)

static tenon_status_t uniform_part(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const fill_t *fill = (const fill_t *)argument;
  (void)call;
  EACH_CHUNK(fill)
  for (int64_t i = 0; i < n; i++)
    store_number(fill, at + i,
                 fill->low +
                     ldexp((double)(bits[i] >> (64 - fill->digits)), -fill->digits) * fill->span);
  return TENON_OK;
}

/* Box and Muller, "A note on the generation of random normal deviates" (1958): two fractions give
 * two deviates. */
static tenon_status_t normal_part(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const fill_t *fill = (const fill_t *)argument;
  (void)call;
  EACH_CHUNK(fill)
  for (int64_t i = 0; i < n; i += 2) {
    double radius = sqrt(-2 * log(((double)(bits[i] >> 11) + 0.5) * 0x1p-53));
    double angle = (double)(bits[i + 1] >> 11) * (0x1p-53 * 6.283185307179586);
    store_number(fill, at + i, fill->low + fill->span * (radius * cos(angle)));
    store_number(fill, at + i + 1, fill->low + fill->span * (radius * sin(angle)));
  }
  return TENON_OK;
}

/* Maps 64 random bits to one of `range` numbers by the upper half of a product. No number is
 * likelier than another by more than range / 2^64 (Lemire, "Fast random integer generation in an
 * interval", 2019, without the rejection step). */
static uint64_t scaled_integer(uint64_t bits, uint64_t range) {
  uint64_t low = (bits & 0xffffffff) * (range & 0xffffffff);
  uint64_t middle = (bits >> 32) * (range & 0xffffffff) + (low >> 32);
  uint64_t other = (bits & 0xffffffff) * (range >> 32) + (middle & 0xffffffff);
  return (bits >> 32) * (range >> 32) + (middle >> 32) + (other >> 32);
}

static tenon_status_t integer_part(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const fill_t *fill = (const fill_t *)argument;
  const int size = fill->out->dtype.bits / 8;
  (void)call;
  EACH_CHUNK(fill)
  for (int64_t i = 0; i < n && at + i < fill->count; i++) {
    uint64_t value = (uint64_t)fill->least + scaled_integer(bits[i], fill->range);
    char *to = (char *)fill->out->data + element_offset(fill, at + i) * size;
    if (size == 1)
      *(uint8_t *)to = (uint8_t)value;
    else if (size == 2)
      *(uint16_t *)(void *)to = (uint16_t)value;
    else if (size == 4)
      *(uint32_t *)(void *)to = (uint32_t)value;
    else
      *(uint64_t *)(void *)to = value;
  }
  return TENON_OK;
}

/* Digits of the mantissa of a dtype. */
static int digits_of(uint32_t dtype) {
  switch (dtype) {
  case TENON_F64:
    return 53;
  case TENON_F32:
    return 24;
  case TENON_F16:
    return 11;
  default:
    return 8;
  }
}

static tenon_status_t fill_run(tenon_call_t *call, tenon_tensor_t *out, tenon_part_fn part,
                               fill_t fill) {
  uint32_t dtype = tenon_dtype_id(out->dtype);
  int64_t dense = 1;
  fill.out = out;
  fill.count = tenon_count(out);
  fill.is_dense = 1;
  for (int32_t d = out->ndim - 1; d >= 0; dense *= out->shape[d--])
    if (out->shape[d] != 1 && out->strides[d] != dense) fill.is_dense = 0;
  fill.wide = dtype == TENON_F64 || fill.range ? 2 : 1;
  fill.digits = digits_of(dtype);
  stream_of_call(call, &fill.seed, &fill.offset);
  return call->host->parallel(call, (fill.count + CHUNK - 1) / CHUNK, 16, part, &fill);
}

/* uniform, normal, randn, randint: new tensors */

static int is_float(tenon_dtype_t dtype) {
  uint32_t id = tenon_dtype_id(dtype);
  return id == TENON_F16 || id == TENON_BF16 || id == TENON_F32 || id == TENON_F64;
}

static void draws_to_fill(tenon_infer_t *infer, const tenon_meta_t *out) {
  infer->draws = dim_add(infer, dims_product(infer, out->dims, 0, out->ndim),
                         tenon_extent(1)); /* a pair at the end */
  if (out->dtype.bits == 64 || !is_float(out->dtype))
    infer->draws = dim_mul(infer, infer->draws, tenon_extent(2));
}

static tenon_status_t set_shape(tenon_infer_t *infer, int32_t count, const tenon_dim_t *extents) {
  tenon_meta_t *out = infer->outputs[0];
  if (count > TENON_RANK_MAX)
    return tenon_fail(infer, TENON_INVALID, "the shape has %d extents; a tensor has at most %d",
                      count, TENON_RANK_MAX);
  out->ndim = count;
  for (int32_t i = 0; i < count; i++) {
    out->dims[i] = extents[i];
    if (tenon_is_known(extents[i]) && extents[i].value < 0)
      return tenon_fail(infer, TENON_INVALID,
                        "extent %d of the shape is %" PRId64 "; expected 0 or more", i,
                        extents[i].value);
  }
  draws_to_fill(infer, out);
  return TENON_OK;
}

static tenon_status_t check_float(tenon_infer_t *infer) {
  if (is_float(infer->outputs[0]->dtype)) return TENON_OK;
  return tenon_fail(infer, TENON_INVALID, "dtype must be f16, bf16, f32 or f64");
}

static tenon_status_t fill_infer(tenon_infer_t *infer) { /* the shape is an input */
  ints_t shape;
  TENON_TRY(check_float(infer));
  TENON_TRY(ints_read(infer, 0, &shape));
  return shape.known ? set_shape(infer, shape.count, shape.at)
                     : out_unknown(infer, infer->outputs[0], shape.count);
}

static tenon_status_t randn_infer(tenon_infer_t *infer) { /* the shape is an attribute */
  TENON_TRY(check_float(infer));
  return set_shape(infer, (int32_t)infer->attrs[0].count, infer->attrs[0].as.dims);
}

static tenon_status_t uniform_run(tenon_call_t *call) {
  double low = call->attrs[0].as.f;
  return fill_run(call, call->outputs[0], uniform_part,
                  (fill_t){.low = low, .span = call->attrs[1].as.f - low});
}
static tenon_status_t normal_run(tenon_call_t *call) {
  return fill_run(call, call->outputs[0], normal_part,
                  (fill_t){.low = call->attrs[0].as.f, .span = call->attrs[1].as.f});
}
static tenon_status_t randn_run(tenon_call_t *call) {
  return fill_run(call, call->outputs[0], normal_part, (fill_t){.span = 1});
}

/* Checks that integers from low (included) to high (excluded) exist and fit the dtype. */
static tenon_status_t randint_validate(tenon_node_t *node) {
  int64_t low = node->attrs[0].as.i;
  int64_t high = node->attrs[1].as.i;
  tenon_dtype_t dtype = node->attrs[3].as.dtype;
  int is_signed = dtype.code == 0;
  int bits = dtype.bits;
  if ((dtype.code > 1) || bits < 8)
    return tenon_fail(node, TENON_INVALID, "dtype must be an integer of 8 to 64 bits");
  if (low >= high)
    return tenon_fail(node, TENON_INVALID,
                      "low is %" PRId64 " and high is %" PRId64
                      ": no integer is from low to below high",
                      low, high);
  int64_t least = bits == 64 ? INT64_MIN : -((int64_t)1 << (bits - 1));
  if (!is_signed) least = 0;
  int64_t most = bits == 64 ? INT64_MAX : (int64_t)(((uint64_t)1 << (bits - is_signed)) - 1);
  if (low < least || high - 1 > most)
    return tenon_fail(node, TENON_INVALID,
                      "integers from %" PRId64 " to below %" PRId64
                      " do not fit the dtype, whose range is %" PRId64 " to %" PRId64,
                      low, high, least, most);
  return TENON_OK;
}

static tenon_status_t randint_infer(tenon_infer_t *infer) {
  return set_shape(infer, (int32_t)infer->attrs[2].count, infer->attrs[2].as.dims);
}

static tenon_status_t randint_run(tenon_call_t *call) {
  int64_t low = call->attrs[0].as.i;
  return fill_run(call, call->outputs[0], integer_part,
                  (fill_t){.least = low, .range = (uint64_t)call->attrs[1].as.i - (uint64_t)low});
}

/* uniform_, normal_: in place */

static tenon_status_t in_place_infer(tenon_infer_t *infer) {
  draws_to_fill(infer, infer->inputs[0]);
  return out_like(infer->outputs[0], infer->inputs[0]);
}

static tenon_status_t uniform_in_place(tenon_call_t *call) {
  double low = call->attrs[0].as.f;
  return fill_run(call, call->inputs[0], uniform_part,
                  (fill_t){.low = low, .span = call->attrs[1].as.f - low});
}
static tenon_status_t normal_in_place(tenon_call_t *call) {
  return fill_run(call, call->inputs[0], normal_part,
                  (fill_t){.low = call->attrs[0].as.f, .span = call->attrs[1].as.f});
}

/* tables */

#define FILL                                                                                       \
  TENON_TYPES("shape: i64|i32; out = dtype"), TENON_WHERE("shape: known"), TENON_INFER(fill_infer)
#define IN_PLACE                                                                                   \
  TENON_TYPES("x: float; out = x"), TENON_INFER(in_place_infer), TENON_GRADIENT("x: none"),        \
      TENON_TRAITS(TENON_PURE | TENON_RANDOM)

/* clang-format off */
TENON_ITEMS(core_random,
  TENON_OP("dropout(Tensor x, *, float ratio=0.5, bool training=True) -> (Tensor out, "
           "Tensor? mask)",
    TENON_DOC("Sets a random share `ratio` of the elements to 0 and multiplies the others, "
              "where mask is true, by 1 / (1 - ratio).\n"
              "Without training, out is x, mask is true and no number is drawn."),
    TENON_TYPES("x: float|f8e4m3fn|f8e4m3fnuz|f8e5m2|f8e5m2fnuz; out = x; mask = bool"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE | TENON_RANDOM),
    TENON_VALIDATE(ratio_validate),
    TENON_INFER(dropout_infer),
    TENON_GRADIENT("x: core::dropout_backward(grad, mask, ratio=ratio, training=training)"),
    TENON_LOOP("f32 -> f32, bool", dropout_f32),
    TENON_LOOP("f64 -> f64, bool", dropout_f64)),
  TENON_OP("dropout_backward(Tensor dy, Tensor mask, *, float ratio=0.5, "
           "bool training=True) -> Tensor",
    TENON_DOC("dy / (1 - ratio) where mask is true, otherwise 0; "
              "without training, dy where mask is true."),
    TENON_TYPES("dy: float|f8e4m3fn|f8e4m3fnuz|f8e5m2|f8e5m2fnuz; mask: bool; out = dy"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_GRADIENT("dy: core::dropout_backward(grad, mask, ratio=ratio, training=training)"),
    TENON_LOOP("f32, bool -> f32", dropout_backward_f32),
    TENON_LOOP("f64, bool -> f64", dropout_backward_f64)),
  TENON_OP("bernoulli(Tensor x, *, dtype dtype=f32) -> Tensor",
    TENON_DOC("1 with probability x, otherwise 0."),
    TENON_TYPES("x: float; out = dtype"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE | TENON_RANDOM),
    TENON_INFER(bernoulli_infer),
    TENON_GRADIENT("x: none"),
    TENON_KERNEL("cpu", bernoulli_run)),
  TENON_OP("uniform(Tensor @host shape, *, float low=0.0, float high=1.0, dtype dtype=f32, "
           "device? device=None) -> Tensor",
    TENON_DOC("Uniformly distributed numbers from low to high; "
              "high itself occurs only by rounding."),
    FILL,
    TENON_TRAITS(TENON_PURE | TENON_RANDOM),
    TENON_KERNEL("cpu", uniform_run)),
  TENON_OP("normal(Tensor @host shape, *, float mean=0.0, float scale=1.0, dtype dtype=f32, "
           "device? device=None) -> Tensor",
    TENON_DOC("Normally distributed numbers with this mean and standard deviation."),
    FILL,
    TENON_TRAITS(TENON_PURE | TENON_RANDOM),
    TENON_KERNEL("cpu", normal_run)),
  TENON_OP("randn(*, dim[] shape, dtype dtype=f32, device? device=None) -> Tensor",
    TENON_DOC("Numbers of the standard normal distribution, "
              "on `device` or else the thread's default device."),
    TENON_TYPES("out = dtype"),
    TENON_INFER(randn_infer),
    TENON_TRAITS(TENON_PURE | TENON_RANDOM),
    TENON_KERNEL("cpu", randn_run)),
  TENON_OP("randint(*, int low=0, int high, dim[] shape, dtype dtype=i64, "
           "device? device=None) -> Tensor",
    TENON_DOC("Uniformly distributed integers from low to below high."),
    TENON_TYPES("out = dtype"),
    TENON_VALIDATE(randint_validate),
    TENON_INFER(randint_infer),
    TENON_TRAITS(TENON_PURE | TENON_RANDOM),
    TENON_KERNEL("cpu", randint_run)),
  TENON_OP("uniform_(Tensor(a!) x, *, float low=0.0, float high=1.0) -> Tensor(a!)",
    TENON_DOC("Fills x with uniformly distributed numbers from low to high."),
    IN_PLACE,
    TENON_KERNEL("cpu strided", uniform_in_place)),
  TENON_OP("normal_(Tensor(a!) x, *, float mean=0.0, float std=1.0) -> Tensor(a!)",
    TENON_DOC("Fills x with normally distributed numbers of this mean and standard deviation."),
    IN_PLACE,
    TENON_KERNEL("cpu strided", normal_in_place)))
/* clang-format on */
