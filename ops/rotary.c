/* rotary_embedding rotates pairs of elements of each head by angles that depend on the position.
 * The same exists composed of other operators, which have gradients. The host calls infer and the
 * kernel, whose tasks are rows of one position.
 * Invariant: elements beyond the rotated part are copied. */
#include "axes.h"
#include "composite.h"
#include "dense.h"
#include <tenon/check.h>

enum {
  X,
  COS,
  SIN,
  POSITIONS,
};
enum {
  INTERLEAVED,
  ROTATED,
  HEADS,
};

typedef struct rotary_t {
  const tenon_tensor_t *x;
  const tenon_tensor_t *cos;
  const tenon_tensor_t *sin;
  const tenon_tensor_t *positions; /* all tensors except x are dense */
  tenon_tensor_t *out;
  int64_t heads;
  int64_t length;
  int64_t size;
  /* `size` is that of a head; `half` is the number of rotated pairs. */
  int64_t half;
  int64_t x_strides[4];
  int64_t out_strides[4]; /* batch, head, position, element */
  int interleaved;
} rotary_t;

#define ROTATE(T)                                                                                  \
  static void rotate_##T(const rotary_t *r, const T *x, T *y, const T *cos, const T *sin) {        \
    int64_t xs = r->x_strides[3];                                                                  \
    int64_t ys = r->out_strides[3];                                                                \
    int64_t next = r->interleaved ? 1 : r->half;                                                   \
    for (int64_t i = 0; i < r->half; i++) {                                                        \
      int64_t at = r->interleaved ? 2 * i : i;                                                     \
      T a = x[at * xs];                                                                            \
      T b = x[(at + next) * xs];                                                                   \
      y[at * ys] = cos[i] * a - sin[i] * b;                                                        \
      y[(at + next) * ys] = sin[i] * a + cos[i] * b;                                               \
    }                                                                                              \
    for (int64_t i = 2 * r->half; i < r->size; i++)                                                \
      y[i * ys] = x[i * xs];                                                                       \
  }
ROTATE(float)
ROTATE(double)

/* A row is (batch, position). */
static tenon_status_t rows_run(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const rotary_t *r = (const rotary_t *)argument;
  for (int64_t row = begin; row < end; row++) {
    int64_t b = row / r->length;
    int64_t s = row % r->length;
    int64_t angle = row;
    if (r->positions) {
      angle = ((const int64_t *)r->positions->data)[row];
      if (angle < 0 || angle >= r->cos->shape[0])
        return tenon_fail(call, TENON_RANGE,
                          "position_ids[%" PRId64 ", %" PRId64 "] is %" PRId64
                          ", outside the %" PRId64 " rows of cos_cache",
                          b, s, angle, r->cos->shape[0]);
    }
    for (int64_t h = 0; h < r->heads; h++) {
      int64_t from = b * r->x_strides[0] + h * r->x_strides[1] + s * r->x_strides[2];
      int64_t to = b * r->out_strides[0] + h * r->out_strides[1] + s * r->out_strides[2];
      if (core_is(r->x, TENON_F64))
        rotate_double(r, (const double *)r->x->data + from, (double *)r->out->data + to,
                      (const double *)r->cos->data + angle * r->half,
                      (const double *)r->sin->data + angle * r->half);
      else
        rotate_float(r, (const float *)r->x->data + from, (float *)r->out->data + to,
                     (const float *)r->cos->data + angle * r->half,
                     (const float *)r->sin->data + angle * r->half);
    }
  }
  return TENON_OK;
}

/* Strides of batch, head, position and element for [batch, head, position, element] or [batch,
 * position, head * element]. */
static void strides_set(const tenon_tensor_t *x, int64_t size, int64_t *out) {
  int four = x->ndim == 4;
  out[0] = x->strides[0];
  out[1] = four ? x->strides[1] : size * x->strides[2];
  out[2] = x->strides[four ? 2 : 1];
  out[3] = x->strides[x->ndim - 1];
}

static tenon_status_t rotary_run(tenon_call_t *call) {
  enum { WORK = 1 << 14 };
  const tenon_tensor_t *given = call->inputs[X];
  tenon_dtype_t dtype = tenon_dtype(core_is(given, TENON_F64) ? TENON_F64 : TENON_F32);
  rotary_t r = {.x = core_as(call, call->inputs[X], dtype),
                .cos = core_dense(call, call->inputs[COS], dtype),
                .sin = core_dense(call, call->inputs[SIN], dtype),
                .out = core_place(call, call->outputs[0], dtype),
                .interleaved = call->attrs[INTERLEAVED].as.i != 0};
  if (call->inputs[POSITIONS])
    r.positions = core_dense(call, call->inputs[POSITIONS], tenon_dtype(TENON_I64));
  if (!r.x || !r.cos || !r.sin || !r.out || (call->inputs[POSITIONS] && !r.positions))
    return TENON_MEMORY;
  int four = r.x->ndim == 4;
  r.heads = four ? r.x->shape[1] : call->attrs[HEADS].as.i;
  r.length = r.x->shape[four ? 2 : 1];
  r.size = four ? r.x->shape[3] : r.x->shape[2] / r.heads;
  r.half = (call->attrs[ROTATED].as.i ? call->attrs[ROTATED].as.i : r.size) / 2;
  strides_set(r.x, r.size, r.x_strides);
  strides_set(r.out, r.size, r.out_strides);
  if (tenon_count(r.out) == 0) return TENON_OK;
  TENON_TRY(call->host->parallel(call, r.x->shape[0] * r.length, 1 + WORK / (r.heads * r.size),
                                 rows_run, &r));
  return core_settle(call, call->outputs[0], r.out);
}

/* by other operators */

enum {
  USE_CAST,
  USE_GATHER,
  USE_UNSQUEEZE,
  USE_SLICE,
  USE_MUL,
  USE_SUB,
  USE_ADD,
  USE_CONCAT,
  USE_RESHAPE,
};
#define ROTARY_USES                                                                                \
  DENSE_USES                                                                                       \
  ", core::gather, core::unsqueeze, core::slice, core::mul, core::sub, core::add, core::concat, "  \
  "core::reshape"

/* Elements begin, begin + step, ... of each head. */
static tenon_status_t elements_of_heads(tenon_call_t *call, tenon_tensor_t *x, int64_t begin,
                                        int64_t end, int64_t step, tenon_tensor_t **out) {
  int64_t last = 3;
  tenon_tensor_t *from = core_ints(call, 1, &begin);
  tenon_tensor_t *to = core_ints(call, 1, &end);
  tenon_tensor_t *axis = core_ints(call, 1, &last);
  tenon_tensor_t *by = core_ints(call, 1, &step);
  return from && to && axis && by ? INVOKE(call, USE_SLICE, NULL, out, x, from, to, axis, by)
                                  : TENON_MEMORY;
}

static tenon_status_t rotary_parts(tenon_call_t *call) {
  tenon_tensor_t *x = call->inputs[X];
  tenon_tensor_t *angles[2], *a, *b, *parts[2], *t, *pair[2];
  int four = x->ndim == 4;
  int interleaved = call->attrs[INTERLEAVED].as.i != 0;
  if (!four) {
    int64_t heads = call->attrs[HEADS].as.i;
    int64_t shape[4] = {x->shape[0], x->shape[1], heads, x->shape[2] / heads};
    TENON_TRY(core_reshape(call, USE_RESHAPE, x, 4, shape, &x));
  }
  int64_t size = x->shape[3];
  int64_t rotated = call->attrs[ROTATED].as.i ? call->attrs[ROTATED].as.i : size;
  int64_t half = rotated / 2;
  tenon_value_t rows = value_int(0);
  for (int i = 0; i < 2; i++) {
    angles[i] = call->inputs[COS + i];
    if (call->inputs[POSITIONS])
      TENON_TRY(INVOKE(call, USE_GATHER, &rows, &angles[i], angles[i], call->inputs[POSITIONS]));
    TENON_TRY(core_along(call, USE_UNSQUEEZE, angles[i], four ? 1 : 2, &angles[i]));
  }
  TENON_TRY(elements_of_heads(call, x, 0, interleaved ? rotated : half, 1 + interleaved, &a));
  TENON_TRY(elements_of_heads(call, x, interleaved ? 1 : half, rotated, 1 + interleaved, &b));
  TENON_TRY(INVOKE(call, USE_MUL, NULL, &parts[0], a, angles[0]));
  TENON_TRY(INVOKE(call, USE_MUL, NULL, &t, b, angles[1]));
  TENON_TRY(INVOKE(call, USE_SUB, NULL, &pair[0], parts[0], t));
  TENON_TRY(INVOKE(call, USE_MUL, NULL, &parts[0], a, angles[1]));
  TENON_TRY(INVOKE(call, USE_MUL, NULL, &t, b, angles[0]));
  TENON_TRY(INVOKE(call, USE_ADD, NULL, &pair[1], parts[0], t));
  for (int i = 0; i < 2 && interleaved; i++)
    TENON_TRY(core_along(call, USE_UNSQUEEZE, pair[i], 4, &pair[i]));
  TENON_TRY(core_concat(call, USE_CONCAT, interleaved ? 4 : 3, 2, pair, &parts[0]));
  int64_t shape[4] = {x->shape[0], x->shape[1], x->shape[2], rotated};
  TENON_TRY(core_reshape(call, USE_RESHAPE, parts[0], 4, shape, &t));
  if (rotated < size) {
    parts[0] = t;
    TENON_TRY(elements_of_heads(call, x, rotated, size, 1, &parts[1]));
    TENON_TRY(core_concat(call, USE_CONCAT, 3, 2, parts, &t));
  }
  if (!four) TENON_TRY(core_reshape(call, USE_RESHAPE, t, 3, call->inputs[X]->shape, &t));
  return call->host->assign(call, 0, t);
}

/* shapes */

static tenon_status_t rotary_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[X];
  const tenon_meta_t *positions = infer->inputs[POSITIONS];
  int64_t heads = infer->attrs[HEADS].as.i;
  int64_t rotated = infer->attrs[ROTATED].as.i;
  if (x->ndim != 3 && x->ndim != 4)
    return tenon_fail(infer, TENON_INVALID,
                      "x has %d axes; expected [batch, heads, length, size] or "
                      "[batch, length, heads * size]",
                      x->ndim);
  if (x->ndim == 3 && heads < 1)
    return tenon_fail(infer, TENON_INVALID, "x has 3 axes, so num_heads must be at least 1");
  tenon_dim_t size = x->dims[x->ndim - 1];
  if (x->ndim == 3) {
    if (tenon_is_known(size) && size.value % heads)
      return tenon_fail(infer, TENON_INVALID,
                        "the last extent of x, %" PRId64 ", is not a multiple of %" PRId64 " heads",
                        size.value, heads);
    size = tenon_dim(infer, TENON_DIM_DIV, size, tenon_extent(heads));
  }
  if (tenon_is_known(size) &&
      (rotated < 0 || rotated > size.value || (rotated ? rotated : size.value) % 2))
    return tenon_fail(
        infer, TENON_INVALID,
        "%" PRId64 " elements of a head of size %" PRId64
        " cannot be rotated in pairs; expected an even number, at most the size of the head",
        rotated ? rotated : size.value, size.value);
  tenon_dim_t half =
      tenon_dim(infer, TENON_DIM_DIV, rotated ? tenon_extent(rotated) : size, tenon_extent(2));
  for (uint32_t i = COS; i <= SIN; i++) {
    const tenon_meta_t *cache = infer->inputs[i];
    const char *name = i == COS ? "cos_cache" : "sin_cache";
    if (cache->ndim != (positions ? 2 : 3))
      return tenon_fail(infer, TENON_INVALID, "%s has %d axes; expected %s", name, cache->ndim,
                        positions ? "2, rows that position_ids selects"
                                  : "3, batch and position first, because position_ids is absent");
    if (dim_differ(cache->dims[cache->ndim - 1], half))
      return tenon_fail(infer, TENON_INVALID,
                        "%s has rows of %" PRId64 " angles; expected %" PRId64
                        ", half of what is rotated",
                        name, cache->dims[cache->ndim - 1].value, half.value);
    if (!positions && (dim_differ(cache->dims[0], x->dims[0]) ||
                       dim_differ(cache->dims[1], x->dims[x->ndim == 4 ? 2 : 1])))
      return tenon_fail(infer, TENON_INVALID, "%s has shape %s, which does not fit x of shape %s",
                        name, dims_text(cache->dims, cache->ndim).text,
                        dims_text(x->dims, x->ndim).text);
  }
  if (positions && dim_differ(infer->inputs[COS]->dims[0], infer->inputs[SIN]->dims[0]))
    return tenon_fail(infer, TENON_INVALID,
                      "cos_cache has %" PRId64 " rows and sin_cache %" PRId64
                      "; they must be equal",
                      infer->inputs[COS]->dims[0].value, infer->inputs[SIN]->dims[0].value);
  if (positions && (positions->ndim != 2 || dim_differ(positions->dims[0], x->dims[0]) ||
                    dim_differ(positions->dims[1], x->dims[x->ndim == 4 ? 2 : 1])))
    return tenon_fail(
        infer, TENON_INVALID,
        "position_ids has shape %s; expected one number for each batch entry and position of x",
        dims_text(positions->dims, positions->ndim).text);
  return out_like(infer->outputs[0], x);
}

/* clang-format off */
TENON_ITEMS(core_rotary,
  TENON_OP("rotary_embedding(Tensor x, Tensor cos_cache, Tensor sin_cache, "
           "Tensor? position_ids=None, *, bool interleaved=False, int rotary_embedding_dim=0, "
           "int num_heads=0) -> Tensor",
    TENON_DOC("Rotates the first rotary_embedding_dim (0: all) elements of each head in pairs by "
              "the angles of its position.\n"
              "A pair is two neighbours if interleaved, otherwise an element of the first half and "
              "one of the second half."),
    TENON_SAMPLES("x: [n, 2, t, 6], cos_cache: [n, t, 3], sin_cache: [n, t, 3]"),
    TENON_TYPES("x: float; cos_cache = x; sin_cache = x; position_ids: i64; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(ROTARY_USES),
    TENON_INFER(rotary_infer),
    TENON_KERNEL("cpu strided", rotary_run),
    TENON_COMPOSITE(rotary_parts)))
/* clang-format on */
