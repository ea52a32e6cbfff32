/* Inference: from metas of inputs to metas of outputs; see infer.h.  Calls, the graph compiler
 * and run plans use it.  Invariant: operators see metas with room for any rank, and no meta
 * outlives the caller's scratch mark. */
#include "dispatch/infer.h"

#include <inttypes.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/reason.h"
#include "base/scratch.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/sparse.h"
#include "dispatch/mixed.h"
#include "dispatch/services.h"

/* metas */

tenon_status_t tn_meta_room(tenon_meta_t *out_meta) {
  tenon_dim_t *room = tn_scratch(3 * TENON_RANK_MAX * sizeof *room);
  if (!room) return tn_no_memory("inference", 3 * TENON_RANK_MAX * sizeof *room);
  *out_meta = (tenon_meta_t){.size = sizeof *out_meta,
                             .ndim = -1,
                             .device = {1, 0},
                             .dims = room,
                             .strides = room + TENON_RANK_MAX,
                             .values = room + 2 * (size_t)TENON_RANK_MAX};
  return TENON_OK;
}

static tenon_status_t values_of(const tenon_tensor_t *tensor, tenon_meta_t *meta) {
  bool wide = tn_dtype_is(tensor->dtype, TENON_I64);
  if (tensor->ndim > 1 || !(wide || tn_dtype_is(tensor->dtype, TENON_I32)) || !tensor->data)
    return TENON_OK;
  int64_t count = tenon_count(tensor);
  if (count > TENON_RANK_MAX) return TENON_OK;
  tenon_dim_t *values = tn_scratch((size_t)(count + 1) * sizeof *values);
  if (!values) return tn_no_memory("inference", (size_t)count * sizeof *values);
  int64_t stride = tensor->ndim ? tensor->strides[0] : 1;
  for (int64_t i = 0; i < count; i++) {
    int64_t v = wide ? ((const int64_t *)tensor->data)[i * stride]
                     : ((const int32_t *)tensor->data)[i * stride];
    /* A number below TENON_DIM_LEAST would be a symbol; no extent is so small. */
    values[i].value = v < TENON_DIM_LEAST ? TENON_DIM_LEAST : v;
  }
  meta->values = values;
  meta->value_count = (uint32_t)count;
  return TENON_OK;
}

static tenon_status_t items_of(tenon_tensor_t *list, bool wants_values, tenon_meta_t *out_meta);

static inline __attribute__((always_inline)) tenon_status_t
meta_of(tenon_tensor_t *tensor, bool wants_values, tenon_meta_t *out_meta) {
  /* Values on a device are not read. */
  bool is_here = !(tensor->keys & TN_KEY_DEVICES);
  *out_meta = (tenon_meta_t){.size = sizeof *out_meta,
                             .dtype = tensor->dtype,
                             .ndim = tensor->ndim,
                             .device = tensor->device,
                             .dims = (tenon_dim_t *)(void *)tensor->shape,
                             .value = is_here && tensor->data ? tensor : NULL};
  if (__builtin_expect((tensor->keys & (TN_KEY_STRIDED | TN_KEY_DETAIL)) != 0, 0)) {
    if (tensor->keys & TN_KEY_STRIDED) out_meta->strides = (tenon_dim_t *)(void *)tensor->strides;
    out_meta->layout = tn_layout(tensor);
    if (!out_meta->layout) out_meta->detail = tensor->detail;
  }
  if (tn_dtype_is(tensor->dtype, TENON_LIST)) return items_of(tensor, wants_values, out_meta);
  return wants_values && is_here ? values_of(tensor, out_meta) : TENON_OK;
}

tenon_status_t tn_meta_of_tensor(tenon_tensor_t *tensor, bool wants_values,
                                 tenon_meta_t *out_meta) {
  return meta_of(tensor, wants_values, out_meta);
}

static tenon_status_t items_of(tenon_tensor_t *list, bool wants_values, tenon_meta_t *out_meta) {
  size_t count = (size_t)list->shape[0];
  tenon_meta_t *items = tn_scratch(count * (sizeof *items + sizeof items) + 64);
  tenon_meta_t **pointers = (tenon_meta_t **)(items + count);
  if (!items) return tn_no_memory("inference", count * sizeof *items);
  for (size_t i = 0; i < count; i++) {
    TN_TRY(tn_meta_of_tensor(tenon_item(list, (int64_t)i), wants_values, &items[i]));
    pointers[i] = &items[i];
  }
  out_meta->items = pointers;
  out_meta->count = (uint32_t)count;
  out_meta->value = NULL;
  out_meta->strides = NULL;
  return TENON_OK;
}

tenon_status_t tn_meta_known(const tenon_tensor_t *tensor, tenon_meta_t *meta) {
  uint64_t size;
  if (!meta->value || !(tensor->keys & TN_KEY_STRIDED) ||
      tn_dtype_is(tensor->dtype, TENON_STRING) ||
      !tn_dtype_bytes(tensor->dtype, tenon_count(tensor), &size))
    return TENON_OK;
  int64_t *strides = tn_scratch((size_t)tensor->ndim * sizeof *strides + 64);
  tenon_tensor_t *dense = tn_scratch(sizeof *dense);
  void *data = tn_scratch((size_t)size + 64);
  if (!strides || !dense || !data) return tn_no_memory("inference", (size_t)size);
  TN_TRY(tenon_tensor_view(dense, data, tensor->dtype, tensor->ndim, tensor->shape, NULL, strides));
  TN_TRY(tn_tensor_copy_into(tensor, dense));
  meta->value = dense;
  return TENON_OK;
}

tenon_status_t tn_metas_of_inputs(const tenon_op_t *op, tenon_tensor_t *const *inputs,
                                  tenon_meta_t ***out_metas) {
  size_t n = op->input_count;
  tenon_meta_t *metas = tn_scratch(n * (sizeof *metas + sizeof metas) + 64);
  tenon_meta_t **pointers = (tenon_meta_t **)(metas + n);
  if (!metas) return tn_no_memory("inference", n * sizeof *metas);
  for (size_t i = 0; i < n; i++) {
    pointers[i] = NULL;
    if (!inputs[i]) continue;
    if (inputs[i]->keys & TN_KEY_DEVICES & ~TN_KEY(TN_BIT_META) && op->schema.inputs[i].is_host)
      return tn_mixed_absent(op, inputs);
    TN_TRY(meta_of(inputs[i], op->infer != NULL, &metas[i]));
    if (op->where && op->where[i] & TN_INPUT_KNOWN) TN_TRY(tn_meta_known(inputs[i], &metas[i]));
    pointers[i] = &metas[i];
  }
  *out_metas = pointers;
  return TENON_OK;
}

static tenon_status_t make_items(tenon_meta_t *list, uint32_t count) {
  if (count > 1u << 20) return tn_fail(TENON_INVALID, "a result of %u tensors", count);
  tenon_meta_t *items = tn_scratch(count * (sizeof *items + sizeof items) + 64);
  tenon_meta_t **pointers = (tenon_meta_t **)(items + count);
  if (!items) return tn_no_memory("inference", count * sizeof *items);
  for (uint32_t i = 0; i < count; i++) {
    TN_TRY(tn_meta_room(&items[i]));
    /* tn_types_apply stores the dtype of the items as the dtype of the list. */
    items[i].dtype = list->dtype;
    pointers[i] = &items[i];
  }
  list->items = pointers;
  list->count = count;
  return TENON_OK;
}

tenon_status_t tn_metas_of_results(const tenon_op_t *op, const tenon_value_t *attrs,
                                   uint64_t wanted, tenon_meta_t ***out_metas) {
  size_t n = op->output_count;
  tenon_meta_t *metas = tn_scratch(n * (sizeof *metas + sizeof metas) + 64);
  tenon_meta_t **pointers = (tenon_meta_t **)(metas + n);
  if (!metas) return tn_no_memory("inference", n * sizeof *metas);
  for (size_t i = 0; i < n; i++) {
    const tn_argument_t *result = &op->schema.outputs[i];
    pointers[i] = wanted && result->is_optional && !(wanted >> i & 1) ? NULL : &metas[i];
    if (!pointers[i]) continue;
    TN_TRY(tn_meta_room(&metas[i]));
    if (result->kind != TENON_KIND_TENSORS) continue;
    int64_t count = result->count_attr >= 0 ? attrs[result->count_attr].as.i : result->count;
    if (count >= 0)
      TN_TRY(make_items(&metas[i], (uint32_t)(count < INT32_MAX ? count : INT32_MAX)));
  }
  *out_metas = pointers;
  return TENON_OK;
}

tenon_status_t tn_list(tenon_infer_t *infer, uint32_t output, uint32_t count) {
  if (output >= infer->op->output_count ||
      infer->op->schema.outputs[output].kind != TENON_KIND_TENSORS)
    return tenon_fail(infer, TENON_INVALID, "list: result %u is no list", output);
  tenon_meta_t *list = infer->outputs[output];
  tenon_dtype_t dtype = {0, 0, 0};
  if (!list) return TENON_OK;
  TN_TRY(make_items(list, count));
  bool is_stated = tn_types_output(&infer->op->types, &infer->op->schema, infer->attrs,
                                   infer->inputs, output, &dtype);
  for (uint32_t i = 0; i < count; i++)
    list->items[i]->dtype = is_stated ? dtype : (tenon_dtype_t){0, 0, 0};
  return TENON_OK;
}

/* extents */

static const char *const signs[] = {
    "+", "-", "*", "/", "ceil-/", "%", "min", "max", "broadcast with", "bounded by", "="};

static tenon_dim_t impossible(tn_inference_t *f, uint32_t operation, int64_t a, int64_t b,
                              const char *why) {
  if (f->status == TENON_OK)
    f->status =
        tenon_fail(&f->infer, TENON_INVALID, "extents %" PRId64 " %s %" PRId64 ": %s", a,
                   operation < sizeof signs / sizeof *signs ? signs[operation] : "?", b, why);
  return tenon_extent(0);
}

int64_t tn_extent_bound(const tn_inference_t *inference, tenon_dim_t dim) {
  if (tenon_is_known(dim)) return dim.value;
  int64_t index = dim.value - INT64_MIN;
  return index >= 0 && index < inference->bound_count ? inference->upper[index] : -1;
}

static tenon_dim_t bounded(tn_inference_t *f, int64_t upper) {
  if (f->bound_count == TN_BOUNDS)
    return impossible(f, TENON_DIM_BOUND, upper, 0, "more than 64 data-dependent extents");
  f->upper[f->bound_count] = upper;
  return tenon_extent(INT64_MIN + f->bound_count++);
}

/* A new extent, at most `a` (-1: no limit) and at least `b`. */
static tenon_dim_t limit_extent(tn_inference_t *f, tenon_dim_t a, tenon_dim_t b) {
  const bool is_known = tenon_is_known(a);
  if (is_known && a.value < -1)
    return impossible(f, TENON_DIM_BOUND, a.value, b.value, "the limit is negative");
  if (is_known && a.value >= 0 && tenon_is_known(b) && b.value > a.value)
    return impossible(f, TENON_DIM_BOUND, a.value, b.value, "no value is possible");
  return bounded(f, tn_extent_bound(f, a));
}

/* Computes with extents of which some are found only by a run: returns an extent with an upper
 * bound of the result, if there is one. */
static tenon_dim_t estimate(tn_inference_t *f, uint32_t operation, tenon_dim_t a, tenon_dim_t b) {
  int64_t x = tn_extent_bound(f, a);
  int64_t y = tn_extent_bound(f, b);
  int64_t r = -1;
  bool both = x >= 0 && y >= 0;
  if (a.value == b.value && (operation == TENON_DIM_EQUAL || operation == TENON_DIM_BROADCAST))
    return a;
  switch (operation) {
  case TENON_DIM_ADD:
    r = both && tn_add(x, y, &r) ? r : -1;
    break;
  case TENON_DIM_MUL:
    r = both && tn_mul(x, y, &r) ? r : -1;
    break;
  case TENON_DIM_SUB:
    r = x;
    break;
  case TENON_DIM_MAX:
  case TENON_DIM_BROADCAST:
    if (both) r = x > y ? x : y;
    break;
  case TENON_DIM_MIN:
    r = x >= 0 && (y < 0 || x < y) ? x : y;
    break;
  case TENON_DIM_DIV:
  case TENON_DIM_CEIL_DIV:
  case TENON_DIM_MOD:
    r = x;
    break;
  case TENON_DIM_EQUAL:
    return tenon_is_known(a) ? a : b;
  default:
    break;
  }
  return bounded(f, r);
}

/* Divides and rounds down. `b` is not 0, and not -1 if `a` is INT64_MIN. */
static int64_t divide(int64_t a, int64_t b, int64_t *rest) {
  int64_t q = a / b;
  int64_t r = a % b;
  if (r != 0 && (r < 0) != (b < 0)) {
    q--;
    r += b;
  }
  *rest = r;
  return q;
}

/* Returns `r` as an extent, or an overflow if it does not fit: numbers below TENON_DIM_LEAST would
 * be symbols. */
static tenon_dim_t whole(tn_inference_t *f, uint32_t operation, int64_t a, int64_t b, bool fits,
                         int64_t r) {
  return fits && r >= TENON_DIM_LEAST ? tenon_extent(r)
                                      : impossible(f, operation, a, b, "overflow");
}

tenon_dim_t tn_dim(tenon_infer_t *infer, uint32_t operation, tenon_dim_t da, tenon_dim_t db) {
  tn_inference_t *f = (tn_inference_t *)infer;
  int64_t a = da.value;
  int64_t b = db.value;
  int64_t r = 0;
  int64_t rest;
  bool fits;
  if (f->status != TENON_OK) return tenon_extent(0);
  if (f->extents) {
    tenon_dim_t out = tenon_extent(0);
    f->is_bounded |= operation == TENON_DIM_BOUND;
    tenon_status_t status = tn_extents_operate(f->extents, operation, da, db, &out);
    if (status != TENON_OK) f->status = tn_prefix(status, "%s: ", infer->op->name);
    return out;
  }
  if (operation == TENON_DIM_BOUND) return limit_extent(f, da, db);
  if (!tenon_is_known(da) || !tenon_is_known(db)) return estimate(f, operation, da, db);
  switch (operation) {
  case TENON_DIM_ADD:
    fits = tn_add(a, b, &r);
    return whole(f, operation, a, b, fits, r);
  case TENON_DIM_SUB:
    fits = !__builtin_sub_overflow(a, b, &r);
    return whole(f, operation, a, b, fits, r);
  case TENON_DIM_MUL:
    fits = tn_mul(a, b, &r);
    return whole(f, operation, a, b, fits, r);
  case TENON_DIM_DIV:
  case TENON_DIM_CEIL_DIV:
  case TENON_DIM_MOD:
    if (b == 0) return impossible(f, operation, a, b, "division by zero");
    r = divide(a, b, &rest);
    if (operation == TENON_DIM_MOD) return tenon_extent(rest);
    if (operation == TENON_DIM_CEIL_DIV) r += rest != 0;
    return tenon_extent(r);
  case TENON_DIM_MIN:
    return tenon_extent(a < b ? a : b);
  case TENON_DIM_MAX:
    return tenon_extent(a > b ? a : b);
  case TENON_DIM_BROADCAST:
    if (a == b || b == 1) return da;
    return a == 1 ? db : impossible(f, operation, a, b, "expected equal extents, or one of them 1");
  case TENON_DIM_EQUAL:
    return a == b ? da : impossible(f, operation, a, b, "expected equal extents");
  case TENON_DIM_TEST_EQUAL:
    return tenon_extent(a == b);
  case TENON_DIM_TEST_LESS:
    return tenon_extent(a < b);
  default:
    return impossible(f, operation, a, b, "no such operation in contract 1");
  }
}

/* pointwise operators */

static void broadcast_shape(tn_inference_t *f, tenon_meta_t *const *inputs, uint32_t count,
                            tenon_meta_t *out) {
  int32_t ndim = 0;
  for (uint32_t i = 0; i < count; i++)
    if (inputs[i] && inputs[i]->ndim > ndim) ndim = inputs[i]->ndim;
  out->ndim = ndim;
  for (int32_t d = 0; d < ndim; d++) {
    tenon_dim_t extent = tenon_extent(1);
    for (uint32_t i = 0; i < count; i++) {
      int32_t at = inputs[i] ? d - ndim + inputs[i]->ndim : -1;
      if (at < 0) continue;
      tenon_dim_t other = inputs[i]->dims[at];
      if (other.value == extent.value || other.value == 1) continue;
      extent = extent.value == 1 ? other : tn_dim(&f->infer, TENON_DIM_BROADCAST, extent, other);
    }
    out->dims[d] = extent;
  }
}

/* Returns the stride of the first axis of a channels-last tensor without gaps, and sets the others.
 */
static int64_t set_channels_last(int32_t ndim, const tenon_dim_t *dims, tenon_dim_t *out_strides) {
  int64_t stride = dims[1].value;
  out_strides[1] = tenon_extent(1);
  for (int32_t i = ndim - 1; i >= 2; i--) {
    out_strides[i] = tenon_extent(stride);
    stride *= dims[i].value;
  }
  return stride;
}

/* Whether the channels (axis 1) are adjacent and the other axes in row-major order, with gaps or
 * without, as in a part of a channels-last tensor. */
static bool lies_channels_last(const tenon_meta_t *t) {
  if (t->ndim < 3 || t->dims[1].value <= 1 || t->strides[1].value != 1) return false;
  int64_t least = t->dims[1].value;
  for (int32_t k = t->ndim - 1; k >= 1; k--) {
    const int32_t axis = k == 1 ? 0 : k;
    if (t->dims[axis].value == 1) continue;
    if (t->strides[axis].value < least) return false;
    if (!tn_mul(t->strides[axis].value, t->dims[axis].value, &least)) return false;
  }
  return true;
}

/* A result keeps a layout that is not row-major (channels-last, for example) if every input of the
 * result's full shape has that layout. Parts of channels-last tensors are channels-last as well. */
static void keep_layout(tenon_meta_t *const *inputs, uint32_t count, tenon_meta_t *out) {
  const tenon_meta_t *like = NULL;
  bool is_same = true;
  bool is_last = true;
  for (uint32_t i = 0; i < count; i++) {
    const tenon_meta_t *in = inputs[i];
    if (!in || in->ndim != out->ndim ||
        memcmp(in->dims, out->dims, (size_t)in->ndim * sizeof *in->dims) != 0)
      continue;
    if (!in->strides) return;
    if (like && memcmp(like->strides, in->strides, (size_t)in->ndim * sizeof *in->dims) != 0)
      is_same = false;
    is_last = is_last && lies_channels_last(in);
    if (!is_same && !is_last) return;
    like = in;
  }
  if (!like) return;
  tenon_tensor_t shape = {.ndim = like->ndim,
                          .shape = (int64_t *)(void *)like->dims,
                          .strides = (int64_t *)(void *)like->strides};
  if (is_same && tn_is_packed(&shape))
    memcpy(out->strides, like->strides, (size_t)out->ndim * sizeof *out->strides);
  else if (is_last)
    out->strides[0] = tenon_extent(set_channels_last(out->ndim, out->dims, out->strides));
  else
    return;
  out->strided = 1;
}

static void infer_pointwise(tn_inference_t *f, const tenon_op_t *op, tenon_meta_t *const *inputs,
                            tenon_meta_t *const *outputs) {
  const tenon_meta_t *first = NULL;
  for (uint32_t o = 0; o < op->output_count; o++) {
    tenon_meta_t *out = outputs[o];
    if (!out) continue;
    if (first) {
      out->ndim = first->ndim;
      memcpy(out->dims, first->dims, (size_t)first->ndim * sizeof *first->dims);
    } else {
      broadcast_shape(f, inputs, op->input_count, out);
      first = out;
    }
    if (!f->extents) keep_layout(inputs, op->input_count, out);
  }
}

/* inference of a call */

static __attribute__((noinline, cold)) tenon_status_t check_sparse(const tenon_op_t *op, uint32_t o,
                                                                   const tenon_meta_t *out) {
  const char *name = op->schema.outputs[o].name;
  tenon_status_t status = tn_layout_check(out->layout, out->ndim);
  if (status != TENON_OK)
    return tn_prefix(status, "%s: infer made result %s sparse: ", op->name, name);
  if (!out->items && !out->alias && !out->strided && !op->schema.outputs[o].is_host)
    return TENON_OK;
  return tn_fail(TENON_INTERNAL,
                 "%s: infer made result %s sparse, and a list, a view, strided or of the host",
                 op->name, name);
}

/* Checks what infer says about the memory and the elements of a result or of an item of one. */
static tenon_status_t check_elements(const tn_inference_t *f, const tenon_op_t *op, uint32_t o,
                                     const tenon_meta_t *out) {
  const char *name = op->schema.outputs[o].name;
  if (out->ndim == -1) return TENON_OK;
  if (out->ndim < -1 || out->ndim > TENON_RANK_MAX)
    return tn_fail(TENON_INTERNAL, "%s: infer gave result %s %d dimensions", op->name, name,
                   (int)out->ndim);
  for (int32_t d = 0; d < out->ndim; d++)
    if (out->dims[d].value < 0 && tenon_is_known(out->dims[d]))
      return tn_fail(TENON_INVALID, "%s: extent %d of result %s would be %" PRId64, op->name,
                     (int)d, name, out->dims[d].value);
  const tenon_meta_t *of =
      out->alias && out->alias <= op->input_count ? f->infer.inputs[out->alias - 1] : NULL;
  if (out->alias && (!of || of->items))
    return tn_fail(TENON_INTERNAL, "%s: infer made result %s a view of input %u%s", op->name, name,
                   out->alias - 1, of ? ", a list: expected a tensor" : "");
  if (out->value_count > TENON_RANK_MAX || (out->value_count > 1 && out->ndim == 0))
    return tn_fail(TENON_INTERNAL,
                   "%s: infer gave result %s of %d dimensions %u known elements: expected 1 for a "
                   "scalar, and at most %d",
                   op->name, name, (int)out->ndim, out->value_count, TENON_RANK_MAX);
  return TENON_OK;
}

static tenon_status_t check_items(const tn_inference_t *f, const tenon_op_t *op, uint32_t o,
                                  const tenon_meta_t *list) {
  for (uint32_t k = 0; k < list->count; k++) {
    if (list->items[k]->layout)
      return tn_fail(TENON_UNIMPLEMENTED,
                     "%s: infer made an item of result %s sparse, which lists have not", op->name,
                     op->schema.outputs[o].name);
    TN_TRY(check_elements(f, op, o, list->items[k]));
  }
  return TENON_OK;
}

static tenon_status_t check_result(const tn_inference_t *f, const tenon_op_t *op, uint32_t o,
                                   const tenon_meta_t *out) {
  const char *name = op->schema.outputs[o].name;
  if (op->schema.outputs[o].kind == TENON_KIND_TENSORS && !out->items)
    return tn_fail(TENON_INTERNAL, "%s: infer did not say how many tensors result %s has", op->name,
                   name);
  if (__builtin_expect(out->layout != 0, 0)) TN_TRY(check_sparse(op, o, out));
  return out->items ? check_items(f, op, o, out) : check_elements(f, op, o, out);
}

tenon_status_t tn_infer(tn_inference_t *f, const tenon_op_t *op, const tenon_value_t *attrs,
                        void *state, tenon_meta_t *const *inputs, tenon_meta_t *const *outputs) {
  f->infer =
      (tenon_infer_t){sizeof f->infer, TENON_PHASE_INFER, &tn_host, op,  attrs, op->context, state,
                      inputs,          outputs,           {0},      {-1} /* draws: not stated */};
  f->status = TENON_OK;
  f->bound_count = 0;
  for (uint32_t i = 0; i < op->input_count; i++)
    if (!inputs[i] && !op->schema.inputs[i].is_optional)
      return tn_fail(TENON_INVALID, "%s: input %s is missing", op->name, op->schema.inputs[i].name);
  TN_TRY(tn_types_apply(&op->types, &op->schema, attrs, inputs, outputs));
  for (uint32_t o = 0; o < op->output_count; o++)
    for (uint32_t k = 0, n = outputs[o] && outputs[o]->items ? outputs[o]->count : 0; k < n; k++)
      if (outputs[o]->items[k]->dtype.bits == 0) outputs[o]->items[k]->dtype = outputs[o]->dtype;
  if (op->traits & TENON_POINTWISE)
    infer_pointwise(f, op, inputs, outputs);
  else if (op->shapes.text)
    TN_TRY(tn_patterns_apply(&op->shapes, &op->schema, &f->infer));
  if (f->status == TENON_OK && op->infer) {
    const uint64_t errors = tn_error_count();
    tenon_status_t status = op->infer(&f->infer);
    if (status != TENON_OK && f->status != TENON_OK) return f->status;
    if (status != TENON_OK) return tn_reason_complete(status, errors, op->name, "infer");
  }
  if (f->status != TENON_OK) return f->status;
  if (op->draws >= 0) f->infer.draws = tenon_extent(op->draws);
  for (uint32_t o = 0; o < op->output_count; o++)
    if (outputs[o]) TN_TRY(check_result(f, op, o, outputs[o]));
  if (!f->extents) {
    int64_t workspace = tn_extent_bound(f, f->infer.workspace);
    if (workspace < 0)
      return tn_fail(TENON_INVALID, "%s: infer asked for a workspace of no known size", op->name);
    f->infer.workspace.value = workspace;
  }
  return TENON_OK;
}

/* bodies that are graphs */

tenon_status_t (*tn_graph_infer)(const tenon_graph_t *, const tn_inference_t *, uint32_t,
                                 tenon_meta_t *const *, uint32_t, tenon_meta_t *const *);

tenon_status_t tn_infer_through_body(tenon_infer_t *infer) {
  const tenon_op_t *op = infer->op;
  const tenon_graph_t *graph = infer->attrs[op->body].as.graph;
  const tenon_meta_t *in = infer->inputs[0];
  const tenon_meta_t *out = infer->outputs[0];
  if (!tn_graph_infer || !graph)
    return tn_fail(TENON_INVALID, "%s: its attribute %s is no graph", op->name,
                   op->schema.attrs[op->body].name);
  if (out)
    TN_TRY(tn_graph_infer(graph, (const tn_inference_t *)infer, in->count, in->items, out->count,
                          out->items));
  return op->body_infer ? op->body_infer(infer) : TENON_OK;
}
