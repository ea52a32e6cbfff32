/* attention: ONNX's scaled dot-product attention with key/value cache, masks, softcap and grouped
 * heads. The host calls infer and the kernel. A task is a block of query rows. Scores are kept in a
 * few slots of scratch memory, so memory does not grow with the square of the length.
 * attention_block_kernel.h computes blocks of several rows whose scores nobody asks for; the others
 * are computed by products, with complete rows of scores. */
#include "../attention.h"
#include "../axes.h"
#include "../dense.h"
#include "../gemm.h"
#include "isa.h"
#include "madd.h"
#include "math.h"
#include <string.h>

enum {
  LANES = 32,             /* maxima and sums that are computed side by side */
  SLOTS = 32,             /* most parts */
  ROWS_MAX = 64,          /* of a block whose scores are complete rows */
  SCORES_MAX = 1 << 18,   /* numbers in its slot */
  STACK_MOST = 192 << 10, /* bytes of other blocks */
  GROUPS = 4,             /* of queries */
  CHUNK = 48,             /* keys */
  KEYS = 6,               /* rows of a tile of scores */
  ROWS = 4,               /* rows of a tile of weighted values */
};

typedef struct heads_t { /* a tensor viewed as [batch, head, position, element] */
  void *data;
  int64_t shape[4];
  int64_t strides[4];
} heads_t;

typedef struct attention_t {
  tenon_dtype_t dtype; /* f32 or f64 */
  heads_t q;
  heads_t k;
  heads_t v;
  heads_t out;
  heads_t mask;
  heads_t qk;
  int64_t mask_width; /* columns of the mask; columns beyond it are masked out */
  int mask_is_bool;
  int causal;
  int nan_is_zero; /* rows of weights that are NaN count as zeros */
  const int64_t *nonpad;
  int64_t past;
  int64_t mode;
  int64_t rows;
  int64_t blocks;
  int64_t parts;
  double scale;
  double softcap;
  char *scratch;
} attention_t;

static void *row_address(const attention_t *at, const heads_t *x, int64_t b, int64_t h, int64_t i) {
  int64_t offset = b * x->strides[0] + h * x->strides[1] + i * x->strides[2];
  return (char *)x->data + offset * (at->dtype.bits / 8);
}

/* rows of scores */

#define T float
#define NAME(x) x##_f32
#include "../attention_softmax_kernel.h"

#define T double
#define NAME(x) x##_f64
#include "../attention_softmax_kernel.h"

#define T float
#define NAME(x) x##_f32
#include "../attention_row_kernel.h"

#define T double
#define NAME(x) x##_f64
#include "../attention_row_kernel.h"

/* blocks of query rows */

#define T float
#define NAME(x) x##_f32
#define MADD MADD_F32
#include "../attention_block_kernel.h"

#define T double
#define NAME(x) x##_f64
#define MADD MADD_F64
#include "../attention_block_kernel.h"

/* tasks */

/* A task is (batch, head, block of query rows). */
static void task_run(const attention_t *at, int64_t task, void *scores) {
  int64_t block = task % at->blocks;
  int64_t h = task / at->blocks % at->q.shape[1];
  int64_t b = task / at->blocks / at->q.shape[1];
  int64_t first = block * at->rows;
  int64_t count = at->k.shape[2];
  int64_t kv = h / (at->q.shape[1] / at->k.shape[1]);
  int64_t rows = at->q.shape[2] - first < at->rows ? at->q.shape[2] - first : at->rows;
  product_t qk = {rows,
                  count,
                  at->q.shape[3],
                  {.data = row_address(at, &at->q, b, h, first),
                   .vector = at->q.strides[2],
                   .element = at->q.strides[3]},
                  {.data = row_address(at, &at->k, b, kv, 0),
                   .vector = at->k.strides[2],
                   .element = at->k.strides[3]},
                  scores,
                  count,
                  1,
                  0,
                  0};
  product_t pv = {rows,
                  at->v.shape[3],
                  count,
                  {.data = scores, .vector = count, .element = 1},
                  {.data = row_address(at, &at->v, b, kv, 0),
                   .vector = at->v.strides[3],
                   .element = at->v.strides[2]},
                  row_address(at, &at->out, b, h, first),
                  at->out.strides[2],
                  at->out.strides[3],
                  0,
                  0};
  core_gemm_fast(at->dtype, &qk);
  for (int64_t r = 0; r < rows; r++) {
    if (at->dtype.bits == 64)
      row_f64(at, (double *)scores + r * count, b, h, first + r);
    else
      row_f32(at, (float *)scores + r * count, b, h, first + r);
  }
  core_gemm_fast(at->dtype, &pv);
}

/* A part is a slot of scratch memory and every k-th task. */
static tenon_status_t parts_run(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const attention_t *at = (const attention_t *)argument;
  int64_t tasks = at->blocks * at->q.shape[0] * at->q.shape[1];
  int64_t slot = at->rows * at->k.shape[2] * (at->dtype.bits / 8);
  (void)call;
  for (int64_t part = begin; part < end; part++)
    for (int64_t task = part; task < tasks; task += at->parts)
      task_run(at, task, at->scratch + part * slot);
  return TENON_OK;
}

/* A part is a block of query rows in memory of the stack. */
static tenon_status_t attend_parts(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const attention_t *at = (const attention_t *)argument;
  (void)call;
  for (int64_t task = begin; task < end; task++) {
    int64_t first = task % at->blocks * at->rows;
    int64_t h = task / at->blocks % at->q.shape[1];
    int64_t b = task / at->blocks / at->q.shape[1];
    int64_t rows = at->q.shape[2] - first < at->rows ? at->q.shape[2] - first : at->rows;
    if (at->dtype.bits == 64)
      attend_f64(at, b, h, first, rows);
    else
      attend_f32(at, b, h, first, rows);
  }
  return TENON_OK;
}

/* inputs */

/* Views [batch, heads, position, element] as it is, and [batch, position, heads * element] with
 * four axes. */
static heads_t heads_of(const tenon_tensor_t *x, int64_t heads) {
  heads_t out = {.data = x->data};
  if (x->ndim == 4) {
    for (int i = 0; i < 4; i++) {
      out.shape[i] = x->shape[i];
      out.strides[i] = x->strides[i];
    }
    return out;
  }
  int64_t size = heads ? x->shape[2] / heads : 0;
  int64_t shape[4] = {x->shape[0], heads, x->shape[1], size};
  int64_t strides[4] = {x->strides[0], size * x->strides[2], x->strides[1], x->strides[2]};
  for (int i = 0; i < 4; i++) {
    out.shape[i] = shape[i];
    out.strides[i] = strides[i];
  }
  return out;
}

/* Appends `now` to the past, in the output `present` if it is requested. */
static tenon_status_t append_to_past(tenon_call_t *call, tenon_tensor_t *past, tenon_tensor_t *now,
                                     int64_t heads, tenon_tensor_t *present, tenon_tensor_t **out) {
  heads_t new = heads_of(now, heads);
  tenon_tensor_t *view = call->host->view(call, now, 0, 4, new.shape, new.strides);
  if (!view) return TENON_MEMORY;
  *out = view;
  if (!past && !present) return TENON_OK;
  int64_t length = past ? past->shape[2] : 0;
  int64_t shape[4];
  memcpy(shape, new.shape, sizeof shape);
  shape[2] += length;
  *out = present ? present : call->host->temporary(call, now->dtype, 4, shape);
  if (!*out) return TENON_MEMORY;
  if (past) {
    tenon_tensor_t *head = call->host->view(call, *out, 0, 4, past->shape, (*out)->strides);
    if (!head) return TENON_MEMORY;
    TENON_TRY(core_settle(call, head, past));
  }
  tenon_tensor_t *tail =
      call->host->view(call, *out, length * (*out)->strides[2], 4, new.shape, (*out)->strides);
  return tail ? core_settle(call, tail, view) : TENON_MEMORY;
}

static void mask_set(attention_t *at, const tenon_tensor_t *mask) {
  at->mask.data = mask->data;
  at->mask_width = mask->ndim ? mask->shape[mask->ndim - 1] : at->k.shape[2];
  for (int32_t i = 0; i < mask->ndim; i++)
    at->mask.strides[4 - mask->ndim + i] = mask->shape[i] == 1 ? 0 : mask->strides[i];
}

/* Divides the rows of q into blocks, and computes them. */
static tenon_status_t blocks_run(tenon_call_t *call, attention_t *at) {
  int is_wide = at->dtype.bits == 64;
  int64_t total = at->k.shape[2] ? at->k.shape[2] : 1;
  int64_t heads = at->q.shape[0] * at->q.shape[1];
  int is_block = !at->qk.data && (is_wide ? fits_block_f64(at) : fits_block_f32(at));
  at->rows = SCORES_MAX / total < ROWS_MAX ? SCORES_MAX / total : ROWS_MAX;
  if (at->rows < 1) at->rows = 1;
  if (is_block) at->rows = GROUPS * (is_wide ? (int64_t)QUERIES_f64 : (int64_t)QUERIES_f32);
  if (at->rows > at->q.shape[2]) at->rows = at->q.shape[2];
  at->blocks = (at->q.shape[2] - 1) / at->rows + 1;
  at->parts = at->blocks * heads;
  if (is_block) return call->host->parallel(call, at->parts, 1, attend_parts, at);
  if (at->parts > SLOTS) at->parts = SLOTS;
  at->scratch = (char *)CORE_SCRATCH(call, at->dtype.bits / 8u, at->parts, at->rows, total);
  if (!at->scratch) return TENON_MEMORY;
  return call->host->parallel(call, at->parts, 1, parts_run, at);
}

static tenon_status_t attention_run(tenon_call_t *call) {
  const tenon_value_t *attrs = call->attrs;
  tenon_tensor_t *const *inputs = call->inputs;
  tenon_tensor_t *const *outputs = call->outputs;
  attention_t at = {.causal = attrs[ATTENTION_CAUSAL].as.i != 0,
                    .nan_is_zero = attrs[ATTENTION_NAN_IS_ZERO].as.i != 0,
                    .softcap = attrs[ATTENTION_SOFTCAP].as.f,
                    .mode = attrs[ATTENTION_QK_MODE].as.i};
  tenon_tensor_t *key = 0;
  tenon_tensor_t *value = 0;
  tenon_tensor_t *mask = inputs[ATTENTION_MASK];
  tenon_tensor_t *nonpad = inputs[ATTENTION_NONPAD];
  tenon_tensor_t *qk = outputs[3];
  at.dtype = tenon_dtype(core_is(outputs[0], TENON_F64) ? TENON_F64 : TENON_F32);
  TENON_TRY(append_to_past(call, inputs[ATTENTION_PAST_KEY], inputs[1],
                           attrs[ATTENTION_KV_HEADS].as.i, outputs[1], &key));
  TENON_TRY(append_to_past(call, inputs[ATTENTION_PAST_VALUE], inputs[2],
                           attrs[ATTENTION_KV_HEADS].as.i, outputs[2], &value));
  tenon_tensor_t *q = core_as(call, inputs[0], at.dtype);
  tenon_tensor_t *out = core_place(call, outputs[0], at.dtype);
  key = core_as(call, key, at.dtype);
  value = core_as(call, value, at.dtype);
  if (mask) mask = core_as(call, mask, at.dtype);
  if (nonpad) nonpad = core_dense(call, nonpad, nonpad->dtype);
  if (qk) qk = core_place_dense(call, qk, at.dtype);
  if (!q || !key || !value || !out || (inputs[ATTENTION_MASK] && !mask) ||
      (inputs[ATTENTION_NONPAD] && !nonpad) || (outputs[3] && !qk))
    return TENON_MEMORY;
  at.q = heads_of(q, attrs[ATTENTION_Q_HEADS].as.i);
  at.out = heads_of(out, attrs[ATTENTION_Q_HEADS].as.i);
  at.k = heads_of(key, 0);
  at.v = heads_of(value, 0);
  if (mask) {
    mask_set(&at, mask);
    at.mask_is_bool = core_is(inputs[ATTENTION_MASK], TENON_BOOL);
  }
  if (qk) at.qk = heads_of(qk, 0);
  at.nonpad = nonpad ? (const int64_t *)nonpad->data : 0;
  at.past = inputs[ATTENTION_PAST_KEY] ? inputs[ATTENTION_PAST_KEY]->shape[2] : 0;
  at.scale = attrs[ATTENTION_SCALE].kind == TENON_KIND_NONE ? 1 / sqrt((double)at.q.shape[3])
                                                            : attrs[ATTENTION_SCALE].as.f;
  if (tenon_count(out) == 0) return TENON_OK;
  TENON_TRY(blocks_run(call, &at));
  if (qk) TENON_TRY(core_settle(call, outputs[3], qk));
  return core_settle(call, outputs[0], out);
}

#ifndef TENON_SIMD
/* shapes */

/* The extents of an input as [batch, heads, position, element]. */
static tenon_status_t heads_infer(tenon_infer_t *infer, uint32_t input, const char *name,
                                  int64_t heads, tenon_dim_t out[4]) {
  const tenon_meta_t *x = infer->inputs[input];
  if (x->ndim == 4) {
    for (int i = 0; i < 4; i++)
      out[i] = x->dims[i];
    return TENON_OK;
  }
  if (x->ndim != 3)
    return tenon_fail(infer, TENON_INVALID,
                      "%s has %d axes; expected [batch, heads, length, size] or "
                      "[batch, length, heads * size]",
                      name, x->ndim);
  if (heads < 1)
    return tenon_fail(infer, TENON_INVALID,
                      "%s has 3 axes, so q_num_heads and kv_num_heads must be set", name);
  if (tenon_is_known(x->dims[2]) && x->dims[2].value % heads)
    return tenon_fail(infer, TENON_INVALID,
                      "the last extent of %s, %" PRId64 ", is not a multiple of its %" PRId64
                      " heads",
                      name, x->dims[2].value, heads);
  out[0] = x->dims[0];
  out[1] = tenon_extent(heads);
  out[2] = x->dims[1];
  out[3] = tenon_dim(infer, TENON_DIM_DIV, x->dims[2], tenon_extent(heads));
  return TENON_OK;
}

static tenon_status_t check_extents_agree(tenon_infer_t *infer, const char *what,
                                          const char *a_name, tenon_dim_t a, const char *b_name,
                                          tenon_dim_t b) {
  if (dim_differ(a, b))
    return tenon_fail(infer, TENON_INVALID, "%s differ: %" PRId64 " for %s but %" PRId64 " for %s",
                      what, a.value, a_name, b.value, b_name);
  tenon_dim(infer, TENON_DIM_EQUAL, a, b);
  return TENON_OK;
}

static void dims_set(tenon_meta_t *out, tenon_dim_t a, tenon_dim_t b, tenon_dim_t c,
                     tenon_dim_t d) {
  if (!out) return;
  out->ndim = 4;
  out->dims[0] = a;
  out->dims[1] = b;
  out->dims[2] = c;
  out->dims[3] = d;
}

/* Checks that attn_mask broadcasts to [batch, heads, length of q, length of the keys]. */
static tenon_status_t check_mask(tenon_infer_t *infer, const tenon_meta_t *mask,
                                 const tenon_dim_t want[4]) {
  int wrong = mask->ndim < 1 || mask->ndim > 4;
  for (int32_t i = 0; !wrong && i < mask->ndim - 1; i++)
    wrong = !dim_is(mask->dims[i], 1) && dim_differ(mask->dims[i], want[4 - mask->ndim + i]);
  if (!wrong && tenon_is_known(want[3])) wrong = mask->dims[mask->ndim - 1].value > want[3].value;
  if (!wrong) return TENON_OK;
  return tenon_fail(infer, TENON_INVALID, "attn_mask of shape %s does not broadcast to %s",
                    dims_text(mask->dims, mask->ndim).text, dims_text(want, 4).text);
}

static tenon_status_t check_nonpad(tenon_infer_t *infer, const tenon_meta_t *lengths,
                                   tenon_dim_t batch) {
  if (lengths->ndim != 1)
    return tenon_fail(
        infer, TENON_INVALID,
        "nonpad_kv_seqlen has %d axes; expected one axis with a length for each batch entry",
        lengths->ndim);
  return check_extents_agree(infer, "batch sizes", "q", batch, "nonpad_kv_seqlen",
                             lengths->dims[0]);
}

static tenon_status_t attention_infer(tenon_infer_t *infer) {
  const tenon_value_t *attrs = infer->attrs;
  tenon_meta_t *const *in = infer->inputs;
  tenon_meta_t *const *out = infer->outputs;
  const char *names[2] = {"k", "v"};
  tenon_dim_t q[4], kv[2][4];
  tenon_dim_t total = {0};
  TENON_TRY(heads_infer(infer, 0, "q", attrs[ATTENTION_Q_HEADS].as.i, q));
  if (!in[ATTENTION_PAST_KEY] != !in[ATTENTION_PAST_VALUE])
    return tenon_fail(infer, TENON_INVALID,
                      "past_key and past_value must be given together, but only one is given");
  for (uint32_t i = 0; i < 2; i++) {
    const tenon_meta_t *past = in[ATTENTION_PAST_KEY + i];
    TENON_TRY(heads_infer(infer, 1 + i, names[i], attrs[ATTENTION_KV_HEADS].as.i, kv[i]));
    TENON_TRY(check_extents_agree(infer, "batch sizes", "q", q[0], names[i], kv[i][0]));
    total = kv[i][2];
    if (!past) continue;
    if (past->ndim != 4)
      return tenon_fail(infer, TENON_INVALID,
                        "past_%s has %d axes; expected [batch, heads, length, size]",
                        i ? "value" : "key", past->ndim);
    for (int axis = 0; axis < 4; axis++)
      if (axis != 2)
        TENON_TRY(check_extents_agree(infer, "extents", "the past", past->dims[axis], names[i],
                                      kv[i][axis]));
    total = dim_add(infer, total, past->dims[2]);
  }
  TENON_TRY(check_extents_agree(infer, "lengths", "k", kv[0][2], "v", kv[1][2]));
  if (in[ATTENTION_PAST_KEY])
    TENON_TRY(check_extents_agree(infer, "lengths", "past_key", in[ATTENTION_PAST_KEY]->dims[2],
                                  "past_value", in[ATTENTION_PAST_VALUE]->dims[2]));
  TENON_TRY(check_extents_agree(infer, "heads", "k", kv[0][1], "v", kv[1][1]));
  TENON_TRY(check_extents_agree(infer, "head sizes", "q", q[3], "k", kv[0][3]));
  if (tenon_is_known(q[1]) && tenon_is_known(kv[0][1]) &&
      (!kv[0][1].value || q[1].value % kv[0][1].value))
    return tenon_fail(infer, TENON_INVALID,
                      "q has %" PRId64 " heads, which is not a multiple of the %" PRId64
                      " heads of k and v",
                      q[1].value, kv[0][1].value);
  const tenon_dim_t want[4] = {q[0], q[1], q[2], total};
  if (in[ATTENTION_MASK]) TENON_TRY(check_mask(infer, in[ATTENTION_MASK], want));
  if (in[ATTENTION_NONPAD]) TENON_TRY(check_nonpad(infer, in[ATTENTION_NONPAD], q[0]));
  dims_set(out[0], q[0], q[1], q[2], kv[1][3]);
  if (in[0]->ndim == 3) {
    out[0]->ndim = 3;
    out[0]->dims[1] = q[2];
    out[0]->dims[2] = dim_mul(infer, q[1], kv[1][3]);
  }
  dims_set(out[1], kv[0][0], kv[0][1], total, kv[0][3]);
  dims_set(out[2], kv[1][0], kv[1][1], total, kv[1][3]);
  dims_set(out[3], q[0], q[1], q[2], total);
  return TENON_OK;
}

static tenon_status_t attention_validate(tenon_node_t *node) {
  int64_t mode = node->attrs[ATTENTION_QK_MODE].as.i;
  if (mode < ATTENTION_QK_RAW || mode > ATTENTION_QK_SOFTMAX)
    return tenon_fail(node, TENON_INVALID, "qk_matmul_output_mode is %" PRId64 "; expected 0 to 3",
                      mode);
  return TENON_OK;
}
#endif

/* clang-format off */
FAMILY(core_attention,
  OPERATOR(attention,
    "(Tensor q, Tensor k, Tensor v, Tensor? attn_mask=None, Tensor? past_key=None, "
    "Tensor? past_value=None, Tensor? nonpad_kv_seqlen=None, *, float? scale=None, "
    "bool is_causal=False, float softcap=0.0, int q_num_heads=0, int kv_num_heads=0, "
    "int qk_matmul_output_mode=0, bool nan_is_zero=False) -> (Tensor out, "
    "Tensor? present_key, Tensor? present_value, Tensor? qk_matmul_output)",
    (TENON_DOC("softmax(scale q k^T + mask) v for each head; "
               "scale is 1 / sqrt(head size) by default.\n"
               "q, k, v are [batch, heads, length, size] or [batch, length, heads * size]; "
               "query heads share the heads of k and v evenly.\n"
               "A mask of bools is true for elements that take part; "
               "any other mask is added. With is_causal, no query sees later keys.\n"
               "qk_matmul_output is the product (0), the product after softcap (1), "
               "with the mask (2), or after the softmax (3).\n"
               "With nan_is_zero, a softmax of nothing but NaN, as of a row that is masked "
               "throughout, is 0."),
     TENON_TYPES("q: float; k = q; v: float; attn_mask: bool|number; past_key = q; past_value = v; "
                 "nonpad_kv_seqlen: i64; out = q; present_key = q; present_value = v; "
                 "qk_matmul_output = q"),
     TENON_TRAITS(TENON_PURE),
     TENON_SHARDING("q, k, v, attn_mask, past_key, past_value, out, present_key, present_value, "
                    "qk_matmul_output: [..., _, _]; if q_num_heads = 0, nonpad_kv_seqlen = None | "
                    "q, k, v, out: [n, _, _]; present_key, present_value, qk_matmul_output: "
                    "[n, _, _, _]; if attn_mask = None, past_key = None, past_value = None, "
                    "nonpad_kv_seqlen = None"),
     TENON_USES(ATTENTION_USES),
     TENON_VALIDATE(attention_validate),
     TENON_INFER(attention_infer),
     TENON_COMPOSITE(core_attention_parts)),
    KERNEL("strided", attention_run)))
/* clang-format on */
