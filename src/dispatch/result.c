/* The outputs of a call: creates those that infer states, and checks those that the caller gave.
 * The entry points of a call use it before dispatch, or when the call has passed the layers. */
#include "dispatch/result.h"

#include <inttypes.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/scratch.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/sparse.h"
#include "dispatch/overlap.h"
#include "dispatch/prologue.h"
#include "operator/kernel.h"
#include "operator/library.h"
#include "operator/table.h"
#include "storage/device_memory.h"

tenon_status_t (*tn_result_create_shared)(const tn_library_t *, tenon_dtype_t, int32_t,
                                          const int64_t *, tenon_tensor_t **);
uint64_t (*tn_result_view_limit)(const tn_library_t *);

/* Bytes of elements of a view that repeats elements; those of a tensor may not exceed it either. */
#define VIEW_BYTES ((uint64_t)1 << 62)

static tenon_status_t create_list(const tn_inference_t *inference, const tenon_meta_t *meta,
                                  tenon_tensor_t *const *inputs, tenon_tensor_t **out_tensor) {
  tenon_tensor_t **items = tn_scratch(meta->count * sizeof *items + 64);
  if (!items) return tn_no_memory("a list of results", meta->count * sizeof *items);
  tenon_status_t status = TENON_OK;
  uint32_t made = 0;
  while (made < meta->count && status == TENON_OK) {
    status = tn_result_create(inference, meta->items[made], inputs, &items[made]);
    if (status == TENON_OK) made++;
  }
  if (status == TENON_OK) status = tenon_tensor_list(items, (int32_t)made, out_tensor);
  for (uint32_t i = 0; i < made; i++)
    tenon_tensor_release(items[i]);
  return status;
}

static bool names_meta(const tenon_meta_t *meta, const tenon_meta_t *wanted) {
  bool found = meta == wanted;
  for (uint32_t i = 0; meta && meta->items && i < meta->count && !found; i++)
    found = meta->items[i] == wanted;
  return found;
}

/* The name of the result that a meta describes, for messages. */
static const char *name_of_result(const tn_inference_t *inference, const tenon_meta_t *meta) {
  const tenon_op_t *op = inference->infer.op;
  for (uint32_t o = 0; o < op->output_count; o++)
    if (names_meta(inference->infer.outputs[o], meta)) return op->schema.outputs[o].name;
  return "?";
}

/* The elements that strides address, in bits from the first element. */
typedef struct reach_t {
  int64_t low;
  int64_t high; /* the end of the last element; `low` if there are no elements */
  bool fits;    /* false: the numbers exceed 64 bits */
} reach_t;

static reach_t reach_of(tenon_dtype_t dtype, int32_t ndim, const int64_t *shape,
                        const int64_t *strides) {
  const int64_t bits = (int64_t)dtype.bits * dtype.lanes;
  reach_t r = {0, 0, true};
  int64_t low = 0;
  int64_t high = 0;
  for (int32_t i = 0; i < ndim; i++) {
    int64_t far;
    if (shape[i] == 0) return (reach_t){0, 0, true};
    r.fits &= tn_mul(shape[i] - 1, strides[i], &far);
    if (!r.fits) return r;
    r.fits = far < 0 ? tn_add(low, far, &low) : tn_add(high, far, &high);
  }
  r.fits =
      r.fits && tn_mul(low, bits, &r.low) && tn_add(high, 1, &high) && tn_mul(high, bits, &r.high);
  return r;
}

static __attribute__((noinline, cold)) tenon_status_t refuse_view(const tn_inference_t *inference,
                                                                  const tenon_meta_t *meta,
                                                                  const int64_t *shape,
                                                                  reach_t view, reach_t own) {
  const tenon_op_t *op = inference->infer.op;
  const char *result = name_of_result(inference, meta);
  const char *input = op->schema.inputs[meta->alias - 1].name;
  char text[160];
  tn_shape_print(meta->ndim, shape, text, sizeof text);
  if (!view.fits)
    return tn_fail(TENON_INTERNAL,
                   "%s: infer made result %s of shape %s a view of input %s from element %" PRId64
                   " on that reaches further than 64 bits can count: expected a view of bytes 0 "
                   "to %" PRId64,
                   op->name, result, text, input, meta->offset.value, own.high / 8);
  return tn_fail(
      TENON_INTERNAL,
      "%s: infer made result %s of shape %s a view of bytes %" PRId64 " to %" PRId64
      " of input %s, which has bytes %" PRId64 " to %" PRId64 ": expected a view within it",
      op->name, result, text, view.low / 8, view.high / 8, input, own.low / 8, own.high / 8);
}

/* A view may repeat elements of its input, with strides of 0. Whoever copies the view copies each
 * of them, so their bytes must be countable, and no more than the library's limit. The view lies in
 * `bits` of the input's memory. */
static tenon_status_t check_repeated(const tn_inference_t *inference, const tenon_meta_t *meta,
                                     const int64_t *shape, int64_t bits) {
  const tenon_op_t *op = inference->infer.op;
  const int64_t count = tn_shape_count(meta->ndim, shape);
  uint64_t size = 0;
  uint64_t limit = VIEW_BYTES;
  const bool is_countable = count >= 0 && tn_dtype_bytes(meta->dtype, count, &size);
  const bool is_repeated = !is_countable || size > ((uint64_t)bits + 7) / 8;
  if (__builtin_expect(!is_repeated, 1)) return TENON_OK;
  if (op->library->places) limit = tn_result_view_limit(op->library);
  if (is_countable && size <= limit) return TENON_OK;
  char text[160];
  tn_shape_print(meta->ndim, shape, text, sizeof text);
  const char *result = name_of_result(inference, meta);
  const char *input = op->schema.inputs[meta->alias - 1].name;
  if (!op->library->places) /* the shape is the caller's, as that of an expansion */
    return tn_fail(TENON_INVALID,
                   "%s: result %s of shape %s repeats elements of input %s: expected at most "
                   "%" PRIu64 " bytes of elements",
                   op->name, result, text, input, limit);
  return tn_fail(TENON_INTERNAL,
                 "%s: infer made result %s of shape %s a view that repeats elements of input %s: "
                 "expected at most %" PRIu64
                 " bytes of elements, the memory of its isolated process",
                 op->name, result, text, input, limit);
}

/* Elements that are or hold addresses may only be seen as what they are. */
static bool has_addresses(tenon_dtype_t dtype) {
  return tn_dtype_is(dtype, TENON_STRING) || tn_dtype_is(dtype, TENON_LIST);
}

tenon_status_t tn_view_place(const tn_inference_t *inference, const tenon_meta_t *meta,
                             const int64_t *shape, const int64_t *strides, const tenon_tensor_t *of,
                             int64_t *out_bytes) {
  const int64_t bits = (int64_t)meta->dtype.bits * meta->dtype.lanes;
  reach_t view = reach_of(meta->dtype, meta->ndim, shape, strides);
  reach_t own = reach_of(of->dtype, of->ndim, of->shape, of->strides);
  int64_t offset;
  if (__builtin_expect(!tn_dtype_same(meta->dtype, of->dtype), 0) &&
      (has_addresses(meta->dtype) || has_addresses(of->dtype)))
    return tn_fail(
        TENON_INTERNAL, "%s: infer made result %s of %s a view of input %s of %s",
        inference->infer.op->name, name_of_result(inference, meta), tn_dtype_name(meta->dtype),
        inference->infer.op->schema.inputs[meta->alias - 1].name, tn_dtype_name(of->dtype));
  *out_bytes = 0;
  const int64_t place = view.fits ? view.high - view.low : 0;
  if (view.fits && !place) return check_repeated(inference, meta, shape, 0);
  view.fits = view.fits && own.fits && tn_mul(meta->offset.value, bits, &offset) &&
              tn_add(view.low, offset, &view.low) && tn_add(view.high, offset, &view.high);
  own.high = (own.high + 7) / 8 * 8; /* the last byte is the input's own, also if it is not full */
  if (!view.fits || view.low < own.low || view.high > own.high)
    return refuse_view(inference, meta, shape, view, own);
  if (offset % 8)
    return tn_fail(TENON_UNIMPLEMENTED, "a view of %s that begins inside a byte",
                   tn_dtype_name(meta->dtype));
  *out_bytes = offset / 8;
  return check_repeated(inference, meta, shape, place);
}

tenon_status_t tn_strides_room(const tn_inference_t *inference, const tenon_meta_t *meta,
                               const int64_t *shape, int64_t *out_count) {
  const int64_t *strides = (const int64_t *)(const void *)meta->strides;
  const tenon_dtype_t byte = {.bits = 8, .lanes = 1}; /* counts elements instead of bits */
  const reach_t reach = reach_of(byte, meta->ndim, shape, strides);
  *out_count = reach.high / 8;
  if (reach.fits && reach.low >= 0) return TENON_OK;
  return tn_fail(TENON_INTERNAL,
                 "%s: infer gave result %s strides that reach below its first element or further "
                 "than 64 bits can count",
                 inference->infer.op->name, name_of_result(inference, meta));
}

static tenon_status_t create_view(const tn_inference_t *inference, const tenon_meta_t *meta,
                                  const int64_t *shape, tenon_tensor_t *of,
                                  tenon_tensor_t **out_tensor) {
  int64_t dense[TENON_RANK_MAX];
  const int64_t *strides = dense;
  if (meta->strided)
    strides = (const int64_t *)(const void *)meta->strides;
  else
    tn_strides_dense(meta->ndim, shape, dense);
  int64_t offset;
  TN_TRY(tn_view_place(inference, meta, shape, strides, of, &offset));
  if (tn_tensor_is_owned(of)) {
    TN_TRY(tn_tensor_view_of(of, meta->dtype, offset, meta->ndim, shape, strides, out_tensor));
    tenon_status_t status = tn_autograd.view ? tn_autograd.view(of, *out_tensor) : TENON_OK;
    if (status != TENON_OK) {
      tenon_tensor_release(*out_tensor);
      *out_tensor = NULL;
    }
    return status;
  }
  /* Nothing tells how long the caller's memory lives, so the result gets memory of its own. */
  tenon_tensor_t as = *of;
  as.ndim = meta->ndim;
  as.shape = (int64_t *)(uintptr_t)shape;
  as.strides = (int64_t *)(uintptr_t)strides;
  as.dtype = meta->dtype;
  tn_address_set(&as, tn_address(of) + offset);
  return tenon_tensor_copy(&as, out_tensor);
}

/* Creates a sparse output, whose parts the run function creates. Extents that only a run finds are
 * -1. */
static tenon_status_t create_sparse(const tn_inference_t *inference, const tenon_meta_t *meta,
                                    tenon_tensor_t **out_tensor) {
  if (inference->device)
    return tn_fail(TENON_UNIMPLEMENTED,
                   "%s: a result is sparse (%s), which tensors on devices are not",
                   inference->infer.op->name, tn_layout_name(meta->layout));
  TN_TRY(tn_tensor_unset(meta->dtype, meta->ndim, out_tensor));
  for (int32_t d = 0; d < meta->ndim; d++)
    (*out_tensor)->shape[d] = tenon_is_known(meta->dims[d]) ? meta->dims[d].value : -1;
  tn_strides_dense(meta->ndim, (*out_tensor)->shape, (*out_tensor)->strides);
  (*out_tensor)->detail = tn_sparse_unset(meta->layout);
  tn_tensor_mark(*out_tensor);
  return TENON_OK;
}

/* Creates an output in memory that is shared with the process of an isolated library. Strides that
 * infer stated are ignored, since row-major serves as well. */
static __attribute__((noinline, cold)) tenon_status_t create_placed(const tenon_op_t *op,
                                                                    const tenon_meta_t *meta,
                                                                    const int64_t *shape,
                                                                    tenon_tensor_t **out_tensor) {
  tenon_status_t status =
      tn_result_create_shared(op->library, meta->dtype, meta->ndim, shape, out_tensor);
  return status == TENON_OK ? status : tn_prefix(status, "%s: a result: ", op->name);
}

tenon_status_t tn_result_create(const tn_inference_t *inference, const tenon_meta_t *meta,
                                tenon_tensor_t *const *inputs, tenon_tensor_t **out_tensor) {
  if (meta->layout) return create_sparse(inference, meta, out_tensor);
  if (meta->items) return create_list(inference, meta, inputs, out_tensor);
  if (meta->ndim < 0) return tn_tensor_unset(meta->dtype, TENON_RANK_MAX, out_tensor);
  /* A list as a value, whose items only run knows. */
  if (tn_dtype_is(meta->dtype, TENON_LIST)) return tn_tensor_unset(meta->dtype, 1, out_tensor);
  int64_t shape[TENON_RANK_MAX];
  for (int32_t d = 0; d < meta->ndim; d++) {
    shape[d] = tn_extent_bound(inference, meta->dims[d]);
    if (shape[d] < 0) return tn_tensor_unset(meta->dtype, meta->ndim, out_tensor);
  }
  const tenon_op_t *op = inference->infer.op;
  if (meta->alias && tn_layout(inputs[meta->alias - 1]))
    return tn_op_check_details(op, NULL, inputs, NULL);
  if (meta->alias) return create_view(inference, meta, shape, inputs[meta->alias - 1], out_tensor);
  /* An operator without inputs, and on a device one that serves every device, gets exactly the
   * stated strides, even with gaps between elements. */
  if (meta->strided && (inference->device ? op->is_anywhere : !op->input_count))
    return tn_device_tensor_create_strided(
        inference->device ? *inference->device : (tenon_device_t){1, 0}, meta->dtype, meta->ndim,
        shape, (const int64_t *)(const void *)meta->strides, out_tensor);
  if (inference->device)
    return tn_device_tensor_create(*inference->device, meta->dtype, meta->ndim, shape, out_tensor);
  if (__builtin_expect(op->library->places, 0)) return create_placed(op, meta, shape, out_tensor);
  /* Strides from the library may leave gaps, and the memory must reach their last element. */
  tenon_status_t status = __builtin_expect(meta->strided && op->infer, 0)
                              ? tn_device_tensor_create_strided(
                                    (tenon_device_t){1, 0}, meta->dtype, meta->ndim, shape,
                                    (const int64_t *)(const void *)meta->strides, out_tensor)
                              : tenon_tensor_create(meta->dtype, meta->ndim, shape, out_tensor);
  if (status != TENON_OK) return tn_prefix(status, "%s: a result: ", op->name);
  if (meta->strided) {
    memcpy((*out_tensor)->strides, meta->strides, (size_t)meta->ndim * sizeof *shape);
    tn_tensor_mark(*out_tensor);
  }
  return TENON_OK;
}

static __attribute__((noinline, cold)) tenon_status_t check_layout(const tenon_op_t *op,
                                                                   const tenon_meta_t *meta,
                                                                   const tenon_tensor_t *given,
                                                                   const char *name) {
  if (meta->layout == tn_layout(given)) return TENON_OK;
  return tn_fail(TENON_INVALID, "%s: result %s: expected a %s tensor, found a %s one", op->name,
                 name, tn_layout_name(meta->layout), tn_layout_name(tn_layout(given)));
}

static tenon_status_t check_output(const tenon_op_t *op, const tn_inference_t *inference,
                                   const tenon_meta_t *meta, const tenon_tensor_t *given,
                                   uint32_t o) {
  char found[160], expected[160];
  int64_t shape[TENON_RANK_MAX];
  const char *name = op->schema.outputs[o].name;
  if (given->keys & (TN_TENSOR_UNSET | TN_KEY_DETAIL) || __builtin_expect(meta->layout != 0, 0)) {
    if (given->keys & TN_TENSOR_UNSET) return TENON_OK;
    TN_TRY(check_layout(op, meta, given, name));
  }
  if (meta->items)
    return tn_dtype_is(given->dtype, TENON_LIST) && given->shape[0] == meta->count
               ? TENON_OK
               : tn_fail(TENON_INVALID, "%s: result %s: expected a list of %u tensors", op->name,
                         name, meta->count);
  if (meta->dtype.bits && !tn_dtype_same(meta->dtype, given->dtype))
    return tn_fail(TENON_INVALID, "%s: result %s: expected dtype %s, found %s", op->name, name,
                   tn_dtype_name(meta->dtype), tn_dtype_name(given->dtype));
  if (meta->ndim < 0) return TENON_OK;
  bool same = meta->ndim == given->ndim;
  for (int32_t d = 0; d < meta->ndim; d++) {
    if (tenon_is_known(meta->dims[d]))
      shape[d] = meta->dims[d].value;
    else
      shape[d] = meta->layout ? -1 : tn_extent_bound(inference, meta->dims[d]);
    if (same && shape[d] >= 0 && given->shape[d] != shape[d]) same = false;
  }
  return same ? TENON_OK
              : tn_fail(TENON_INVALID, "%s: result %s: expected shape %s, found %s", op->name, name,
                        tn_shape_print(meta->ndim, shape, expected, sizeof expected),
                        tn_shape_print(given->ndim, given->shape, found, sizeof found));
}

tenon_status_t tn_unallocated_become(tenon_tensor_t *t, tenon_tensor_t *own) {
  tn_tensor_t *entry = (tn_tensor_t *)t;
  if (t->dtype.bits && !tn_dtype_same(t->dtype, own->dtype))
    return tn_fail(TENON_INVALID, "expected dtype %s, found %s", tn_dtype_name(t->dtype),
                   tn_dtype_name(own->dtype));
  if (t->dtype.bits && tn_layout(t) != tn_layout(own))
    return tn_fail(TENON_INVALID, "expected a %s tensor, found a %s one",
                   tn_layout_name(tn_layout(t)), tn_layout_name(tn_layout(own)));
  bool fits = !t->dtype.bits || !tn_layout(t) || t->ndim == own->ndim;
  for (int32_t d = 0; d < own->ndim && t->dtype.bits && tn_layout(t) && fits; d++)
    fits = t->shape[d] < 0 || t->shape[d] == own->shape[d];
  if (!fits) return tn_fail(TENON_INVALID, "expected the shape that infer stated");
  t->dtype = own->dtype;
  if (own->keys & TN_TENSOR_UNSET && !tn_layout(own)) return TENON_OK;
  if (own->ndim > entry->room_ndim)
    return tn_fail(TENON_INVALID, "room for %d dimensions, found %d", (int)entry->room_ndim,
                   (int)own->ndim);
  if (((tn_tensor_t *)own)->storage) tn_storage_retain(((tn_tensor_t *)own)->storage);
  tn_storage_release(entry->storage);
  entry->storage = ((tn_tensor_t *)own)->storage;
  t->data = own->data;
  t->byte_offset = own->byte_offset;
  t->ndim = own->ndim;
  t->detail = own->detail;
  memmove(t->shape, own->shape, (size_t)t->ndim * sizeof *t->shape);
  memmove(t->strides, own->strides, (size_t)t->ndim * sizeof *t->strides);
  if (!(own->keys & TN_TENSOR_UNSET)) t->keys &= ~TN_TENSOR_UNSET;
  tn_tensor_set_device(t, own->device);
  tn_tensor_mark(t);
  /* If `own` is a view, the result becomes a view of the same tensor. */
  return ((tn_tensor_t *)own)->alias ? tn_autograd.view(own, t) : TENON_OK;
}

/* Gives an unallocated result the memory that infer states. Without a bound for its size, run
 * creates the memory. */
static tenon_status_t allocate_result(const tn_inference_t *inference, const tenon_meta_t *meta,
                                      tenon_tensor_t *const *inputs, tenon_tensor_t *result) {
  for (uint32_t i = 0; meta->items && i < meta->count; i++)
    TN_TRY(allocate_result(inference, meta->items[i], inputs, tenon_item(result, i)));
  if (!(result->keys & TN_TENSOR_UNSET)) return TENON_OK;
  tenon_tensor_t *made;
  TN_TRY(tn_result_create(inference, meta, inputs, &made));
  tenon_status_t status = tn_unallocated_become(result, made);
  tenon_tensor_release(made);
  return status;
}

bool tn_view_has_kernel(const tenon_op_t *op, uint64_t keys, tenon_tensor_t *const *inputs) {
  if (!op->is_view || !__atomic_load_n(&op->kernels, __ATOMIC_RELAXED)) return false;
  keys = (tn_key_below(keys, TN_BIT_META + 1) | TN_KEY_CPU) & tn_op_mask(op);
  const tn_table_entry_t *entry = tn_table_entry(op, keys);
  if (tn_entry_function(entry) == tn_layer_others)
    entry = tn_table_others(op, tn_backend_of(tn_device_of(op, op->defaults, inputs)));
  return tn_entry_has_kernels(entry);
}

static void own_memory(tenon_meta_t *meta) {
  if (!meta) return;
  for (uint32_t i = 0; meta->items && i < meta->count; i++)
    own_memory(meta->items[i]);
  meta->alias = 0;
  meta->strided = 0;
}

tenon_status_t tn_results_make(tn_inference_t *inference, const tn_request_t *request, bool owns,
                               uint64_t *out_made) {
  const tenon_op_t *op = request->op;
  tenon_tensor_t *const *inputs = request->inputs;
  tenon_tensor_t **outputs = request->outputs;
  tenon_meta_t **in, **out;
  inference->extents = NULL;
  inference->device = NULL;
  TN_TRY(tn_metas_of_inputs(op, inputs, &in));
  TN_TRY(tn_metas_of_results(op, request->attrs, request->wanted, &out));
  TN_TRY(tn_infer(inference, op, request->attrs, request->state, in, out));
  for (uint32_t o = 0; o < op->output_count && owns; o++)
    own_memory(out[o]);
  tenon_device_t device = tn_device_of(op, request->attrs, inputs);
  tenon_status_t status = TENON_OK;
  for (uint32_t o = 0; o < op->output_count && status == TENON_OK; o++) {
    if (!out[o]) continue;
    inference->device = device.type == 1 || op->schema.outputs[o].is_host ? NULL : &device;
    int32_t same = tn_result_input(op, o);
    if (!outputs[o]) {
      status = tn_result_create(inference, out[o], inputs, &outputs[o]);
      if (status == TENON_OK) *out_made |= (uint64_t)1 << o;
      continue;
    }
    status = check_output(op, inference, out[o], outputs[o], o);
    if (status == TENON_OK && same >= 0 && inputs[same] &&
        tn_address(outputs[o]) != tn_address(inputs[same]))
      status =
          tn_fail(TENON_INVALID, "%s: result %s is input %s itself: expected that tensor, or none",
                  op->name, op->schema.outputs[o].name, op->schema.inputs[same].name);
    if (status == TENON_OK) status = allocate_result(inference, out[o], inputs, outputs[o]);
  }
  inference->device = NULL;
  /* The flag is stored only once, since other threads read its cache line. */
  if (status == TENON_OK && inference->infer.workspace.value > 0 &&
      !__atomic_load_n(&op->needs_workspace, __ATOMIC_RELAXED))
    __atomic_store_n((uint32_t *)(uintptr_t)&op->needs_workspace, 1, __ATOMIC_RELAXED);
  return status;
}

/* A view operator needs row-major inputs unless it says otherwise: of another input it makes a view
 * of a dense copy. */
static bool needs_dense(const tenon_op_t *op, tenon_tensor_t *const *inputs, uint32_t i) {
  return inputs[i] && inputs[i]->keys & TN_KEY_STRIDED &&
         !(op->where && op->where[i] & TN_INPUT_STRIDED);
}

bool tn_inputs_need_dense(const tenon_op_t *op, tenon_tensor_t *const *inputs) {
  for (uint32_t i = 0; i < op->input_count; i++)
    if (needs_dense(op, inputs, i)) return true;
  return false;
}

tenon_status_t tn_inputs_dense(const tenon_op_t *op, tenon_tensor_t *const *inputs,
                               tenon_tensor_t ***out_inputs) {
  tenon_tensor_t **dense = tn_scratch((op->input_count + 1) * sizeof *dense);
  if (!dense) return tn_no_memory("a call", op->input_count * sizeof *dense);
  tenon_status_t status = TENON_OK;
  uint32_t made = 0;
  for (; made < op->input_count && status == TENON_OK; made++) {
    dense[made] = NULL;
    if (!needs_dense(op, inputs, made)) {
      tenon_tensor_retain(dense[made] = inputs[made]);
      continue;
    }
    status = tenon_tensor_copy_to(inputs[made], inputs[made]->device, &dense[made]);
    if (status == TENON_OK) dense[made]->keys |= TN_TENSOR_COPY;
    if (status == TENON_OK && inputs[made]->keys & TN_KEY(TN_BIT_AUTOGRAD) && tn_autograd.share)
      status = tn_autograd.share(inputs[made], dense[made]);
  }
  for (uint32_t i = 0; i < made && status != TENON_OK; i++)
    tenon_tensor_release(dense[i]);
  *out_inputs = dense;
  return status;
}
