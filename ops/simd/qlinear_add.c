/* qlinear_add: the sum of two tensors of 8-bit numbers as 8-bit numbers again, in one pass. The
 * graph compiler makes it of the nodes that quantisers write (src/graph/passes/quantise.c).
 * Invariant: the results are the bits of dequantize_linear, add and quantize_linear in f32, so
 * sums are divided by the scale, not multiplied by its reciprocal. */
#include "../axes.h"
#include "isa.h"
#include <tenon/check.h>

enum { WORK = 1 << 14 };

/* Where the three tensors are in the inputs, with their scales and zero points behind them. */
enum { INPUT_A = 0, INPUT_B = 3, INPUT_Y = 6 };

typedef struct side_t {
  const uint8_t *numbers;
  uint8_t flip; /* makes u8 of i8, by adding 128 */
  float zero;   /* flipped */
  float scale;
} side_t;

typedef struct sum_job_t {
  side_t a;
  side_t b;
  float scale;
  int32_t zero;
  int is_signed;
  uint8_t *out;
} sum_job_t;

static int32_t read_zero(const tenon_tensor_t *t) {
  return tenon_dtype_id(t->dtype) == TENON_I8 ? *(const int8_t *)t->data
                                              : *(const uint8_t *)t->data;
}

static side_t read_side(tenon_tensor_t *const *in) {
  const int is_signed = tenon_dtype_id(in[0]->dtype) == TENON_I8;
  return (side_t){.numbers = (const uint8_t *)in[0]->data,
                  .flip = is_signed ? 0x80 : 0,
                  .zero = (float)(read_zero(in[2]) + (is_signed ? 128 : 0)),
                  .scale = *(const float *)in[1]->data};
}

/* After clamping, which makes NaN the least value, adding 1.5 * 2^23 leaves no bits for a
 * fraction, and the last bits of the sum are those of the integer. */
static void add_numbers(side_t a, side_t b, float scale, int32_t zero, int is_signed, int64_t count,
                        uint8_t *restrict out) {
  const float least = (float)((is_signed ? -128 : 0) - zero);
  const float most = least + 255;
  for (int64_t i = 0; i < count; i++) {
    float x = ((float)(a.numbers[i] ^ a.flip) - a.zero) * a.scale;
    float y = ((float)(b.numbers[i] ^ b.flip) - b.zero) * b.scale;
    float value = (x + y) / scale;
    value = value > least ? value : least;
    value = value < most ? value : most;
    union {
      float value;
      int32_t bits;
    } whole = {.value = value + 0x1.8p23f};
    out[i] = (uint8_t)(whole.bits + zero);
  }
}

static tenon_status_t add_bytes_part(tenon_call_t *call, void *argument, int64_t begin,
                                     int64_t end) {
  const sum_job_t *job = (const sum_job_t *)argument;
  side_t a = job->a;
  side_t b = job->b;
  (void)call;
  a.numbers += begin;
  b.numbers += begin;
  add_numbers(a, b, job->scale, job->zero, job->is_signed, end - begin, job->out + begin);
  return TENON_OK;
}

static tenon_status_t qlinear_add_run(tenon_call_t *call) {
  tenon_tensor_t *const *in = call->inputs;
  tenon_tensor_t *out = call->outputs[0];
  sum_job_t job = {.a = read_side(in + INPUT_A),
                   .b = read_side(in + INPUT_B),
                   .scale = *(const float *)in[INPUT_Y]->data,
                   .zero = read_zero(in[INPUT_Y + 1]),
                   .is_signed = tenon_dtype_id(out->dtype) == TENON_I8,
                   .out = (uint8_t *)out->data};
  const int64_t count = tenon_count(out);
  return count ? call->host->parallel(call, count, WORK, add_bytes_part, &job) : TENON_OK;
}

#ifndef TENON_SIMD
static tenon_status_t qlinear_add_infer(tenon_infer_t *infer) {
  static const char *const names[] = {"a_scale",      "a_zero_point", "b_scale",
                                      "b_zero_point", "y_scale",      "y_zero_point"};
  static const uint32_t at[] = {1, 2, 4, 5, 6, 7};
  const tenon_meta_t *a = infer->inputs[INPUT_A];
  const tenon_meta_t *b = infer->inputs[INPUT_B];
  int differs = a->ndim != b->ndim;
  for (int32_t i = 0; !differs && i < a->ndim; i++)
    differs = dim_differ(a->dims[i], b->dims[i]);
  if (differs)
    return tenon_fail(infer, TENON_INVALID, "b has shape %s; expected that of a, %s",
                      dims_text(b->dims, b->ndim).text, dims_text(a->dims, a->ndim).text);
  for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
    const tenon_meta_t *t = infer->inputs[at[i]];
    if (t->ndim > 1 || (t->ndim == 1 && dim_differ(t->dims[0], tenon_extent(1))))
      return tenon_fail(infer, TENON_INVALID, "%s has shape %s; expected one number", names[i],
                        dims_text(t->dims, t->ndim).text);
  }
  tenon_dtype_t dtype = infer->inputs[INPUT_Y + 1]->dtype;
  TENON_TRY(out_like(infer->outputs[0], a));
  infer->outputs[0]->dtype = dtype;
  return TENON_OK;
}
#endif

/* clang-format off */
FAMILY(core_qlinear_add,
  OPERATOR(qlinear_add,
    "(Tensor a, Tensor a_scale, Tensor a_zero_point, Tensor b, Tensor b_scale, "
    "Tensor b_zero_point, Tensor y_scale, Tensor y_zero_point) -> Tensor",
    (TENON_DOC("The sum of two tensors of 8-bit numbers with the same shape, quantised again."),
     TENON_SAMPLES("a: [n, m], b: [n, m], a_scale: [] [0.5], b_scale: [] [0.25], "
                   "y_scale: [] [0.5], a_zero_point: [], b_zero_point: [], y_zero_point: []"),
     TENON_TYPES("a: i8|u8; a_scale: f32; a_zero_point = a; b: i8|u8; b_scale: f32; "
                 "b_zero_point = b; y_scale: f32; y_zero_point: i8|u8; out = y_zero_point"),
     TENON_TRAITS(TENON_PURE),
     TENON_INFER(qlinear_add_infer)),
    KERNEL("", qlinear_add_run)))
/* clang-format on */
