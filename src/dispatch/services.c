/* The host's services: the table of functions that every function of a library gets.  Libraries
 * call them on any thread; op.h says which service may be used in which phase. */
#include "dispatch/services.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/dtype.h"
#include "core/sparse.h"
#include "device/plugin.h"
#include "dispatch/call.h"
#include "dispatch/mixed.h"
#include "dispatch/result.h"
#include "drivers/grid.h"
#include "drivers/iterator.h"
#include "drivers/profile.h"
#include "storage/device_memory.h"

/* The fields with which every structure of a call begins. */
typedef struct head_t {
  uint32_t size;
  uint32_t phase;
  const tenon_host_t *host;
  const tenon_op_t *op;
} head_t;

static tenon_status_t fail(const void *context, tenon_status_t code, const char *format, ...) {
  const head_t *head = context;
  va_list arguments;
  va_start(arguments, format);
  tn_fail_list(code == TENON_OK ? TENON_INTERNAL : code, format, arguments);
  va_end(arguments);
  code = code == TENON_OK ? TENON_INTERNAL : code;
  return head && head->phase < TENON_PHASE_DEVICE && head->op
             ? tn_prefix(code, "%s: ", head->op->name)
             : code;
}

/* temporaries */

/* Returns the device of temporaries. A composite fills its temporaries itself, on the host; its
 * large tensors are results of the operators that it calls. */
static tenon_device_t temporary_device(const tenon_call_t *call) {
  const tn_frame_t *frame = tn_frame_of_const(call);
  const tn_kernel_t *kernel = frame->kernel;
  if (!kernel && frame->entry) kernel = frame->entry->only;
  return kernel && kernel->kind == TN_KIND_COMPOSITE ? (tenon_device_t){1, 0}
                                                     : tn_call_device(call);
}

static tenon_tensor_t *temporary(tenon_call_t *call, tenon_dtype_t dtype, int32_t ndim,
                                 const int64_t *shape) {
  tenon_tensor_t *tensor;
  tenon_status_t status =
      tn_device_tensor_create(temporary_device(call), dtype, ndim, shape, &tensor);
  if (status == TENON_OK && tn_frame_keep(tn_frame_of(call), tensor) == TENON_OK) return tensor;
  (void)tn_prefix(status, "%s: ", call->op->name);
  return NULL;
}

static void *allocate(tenon_call_t *call, uint64_t size) {
  if (temporary_device(call).type != 1) {
    if (tn_device_has_handles(temporary_device(call))) {
      (void)fail(call, TENON_INVALID,
                 "memory of this device has no addresses: take a temporary tensor");
      return NULL;
    }
    int64_t extent = size < INT64_MAX ? (int64_t)size : -1;
    const tenon_tensor_t *memory = temporary(call, tenon_dtype(TENON_U8), 1, &extent);
    return memory ? memory->data : NULL;
  }
  void *block = size < SIZE_MAX / 4 ? tn_allocate_aligned((size_t)size) : NULL;
  if (block && tn_frame_keep_block(tn_frame_of(call), block) == TENON_OK) return block;
  tn_release_aligned(block);
  (void)tn_no_memory("temporary memory", (size_t)size);
  (void)tn_prefix(TENON_MEMORY, "%s: ", call->op->name);
  return NULL;
}

static tenon_tensor_t *view(tenon_call_t *call, const tenon_tensor_t *of, int64_t offset,
                            int32_t ndim, const int64_t *shape, const int64_t *strides) {
  tenon_tensor_t *tensor = NULL;
  int64_t bytes = offset * (of->dtype.bits * of->dtype.lanes / 8);
  tenon_status_t status = tn_tensor_view_of((tenon_tensor_t *)(uintptr_t)of, of->dtype, bytes, ndim,
                                            shape, strides, &tensor);
  if (status == TENON_OK && tn_frame_keep(tn_frame_of(call), tensor) == TENON_OK) return tensor;
  (void)tn_prefix(status, "%s: ", call->op->name);
  return NULL;
}

static void release(tenon_call_t *call, tenon_tensor_t *tensor) {
  tn_frame_release(tn_frame_of(call), tensor);
}

/* results */

static tenon_tensor_t *result(tenon_call_t *call, uint32_t output) {
  return output < call->op->output_count ? call->outputs[output] : NULL;
}

static tenon_device_t result_device(const tenon_call_t *call, uint32_t output) {
  return call->op->schema.outputs[output].is_host ? (tenon_device_t){1, 0} : tn_call_device(call);
}

/* Gives memory to a result that had none, and takes over the caller's reference to it. */
static void set_storage(tenon_tensor_t *t, tn_storage_t *storage, void *data,
                        uint64_t byte_offset) {
  tn_storage_release(((tn_tensor_t *)t)->storage);
  ((tn_tensor_t *)t)->storage = storage;
  t->data = data;
  t->byte_offset = byte_offset;
  t->keys &= ~TN_TENSOR_UNSET;
}

static tenon_status_t adopt(tenon_call_t *call, uint32_t output, int32_t ndim, const int64_t *shape,
                            void *data, tenon_free_fn release, void *context) {
  tenon_tensor_t *t = result(call, output);
  tn_storage_t *storage;
  uint64_t size = 0;
  int64_t count = ndim >= 0 && ndim <= TENON_RANK_MAX ? tn_shape_count(ndim, shape) : -1;
  if (!t || !(t->keys & TN_TENSOR_UNSET) || tn_layout(t))
    return fail(call, TENON_INVALID, "adopt: result %u is absent, sparse, or has memory already",
                output);
  if (count < 0 || !tn_dtype_bytes(t->dtype, count, &size) || tn_dtype_is(t->dtype, TENON_STRING))
    return fail(call, TENON_INVALID, "adopt: result %u cannot have %d dimensions of %s", output,
                (int)ndim, tn_dtype_name(t->dtype));
  if (ndim > ((tn_tensor_t *)t)->room_ndim)
    return fail(call, TENON_INVALID, "adopt: result %u has room for %d dimensions, found %d",
                output, (int)((tn_tensor_t *)t)->room_ndim, (int)ndim);
  TN_TRY(tn_storage_create(data, size, release, context, &storage));
  set_storage(t, storage, storage->data, 0);
  tenon_device_t device = result_device(call, output);
  const tn_backend_t *backend = tn_backend_of(device);
  t->device = device;
  if (backend)
    t->keys = (t->keys & ~(TN_KEY_BACKEND_MASK | TN_KEY(TN_BIT_META))) | TN_KEY(backend->bit);
  t->ndim = ndim;
  memmove(t->shape, shape, (size_t)ndim * sizeof *shape);
  tn_strides_dense(ndim, t->shape, t->strides);
  tn_tensor_mark(t);
  return TENON_OK;
}

static tenon_status_t resize(tenon_call_t *call, uint32_t output, int32_t ndim,
                             const int64_t *shape) {
  tenon_tensor_t *t = result(call, output);
  char found[160], room[160];
  if (!t) return fail(call, TENON_INVALID, "resize: result %u is absent", output);
  if (tn_layout(t))
    return fail(call, TENON_INVALID, "resize: result %u is sparse: host->sparse makes it", output);
  int64_t count = tn_shape_count(ndim, shape);
  uint64_t size = 0;
  if (ndim < 0 || ndim > TENON_RANK_MAX || count < 0 || !tn_dtype_bytes(t->dtype, count, &size))
    return fail(call, TENON_INVALID, "resize: result %s cannot have %d dimensions %s",
                call->op->schema.outputs[output].name, (int)ndim,
                tn_shape_print(ndim < 0 ? 0 : ndim, shape, found, sizeof found));
  bool owned = tn_tensor_is_owned(t);
  int32_t places = owned ? ((tn_tensor_t *)t)->room_ndim : t->ndim;
  if (ndim > places)
    return fail(call, TENON_INVALID, "resize: result %s has room for %d dimensions, found %d",
                call->op->schema.outputs[output].name, (int)places, (int)ndim);
  if (t->keys & TN_TENSOR_UNSET) {
    tenon_tensor_t *memory;
    tenon_device_t device = result_device(call, output);
    TN_TRY(tn_device_tensor_create(device, t->dtype, ndim, shape, &memory));
    tn_storage_retain(((tn_tensor_t *)memory)->storage);
    set_storage(t, ((tn_tensor_t *)memory)->storage, memory->data, memory->byte_offset);
    tn_tensor_set_device(t, device);
    tenon_tensor_release(memory);
  } else {
    bool fits = ndim == t->ndim;
    for (int32_t i = 0; i < ndim && fits; i++)
      fits = shape[i] <= t->shape[i];
    if (!fits)
      return fail(call, TENON_RANGE, "resize: result %s is %s, infer said at most %s",
                  call->op->schema.outputs[output].name,
                  tn_shape_print(ndim, shape, found, sizeof found),
                  tn_shape_print(t->ndim, t->shape, room, sizeof room));
  }
  t->ndim = ndim;
  memmove(t->shape, shape, (size_t)ndim * sizeof *shape);
  tn_strides_dense(ndim, t->shape, t->strides);
  tn_tensor_mark(t);
  return TENON_OK;
}

static tenon_status_t sparse(tenon_call_t *call, uint32_t output, int32_t ndim,
                             const int64_t *shape, int64_t count) {
  tenon_tensor_t *t = result(call, output);
  char found[160], expected[160];
  if (!t || !tn_layout(t) || !tn_tensor_is_owned(t))
    return fail(call, TENON_INVALID, "sparse: result %u is %s", output,
                !t ? "absent" : "dense: infer states the layout of a sparse one");
  const char *name = call->op->schema.outputs[output].name;
  bool fits = ndim == t->ndim && tn_shape_count(ndim, shape) >= 0;
  for (int32_t d = 0; d < ndim && fits; d++)
    fits = t->shape[d] < 0 || t->shape[d] == shape[d];
  if (!fits)
    return fail(call, TENON_INVALID, "sparse: result %s cannot have shape %s: infer said %s", name,
                tn_shape_print(ndim < 0 ? 0 : ndim, shape, found, sizeof found),
                tn_shape_print(t->ndim, t->shape, expected, sizeof expected));
  memmove(t->shape, shape, (size_t)ndim * sizeof *shape);
  tn_strides_dense(ndim, t->shape, t->strides);
  tenon_status_t status = tn_sparse_resize(t, tn_layout(t), count);
  return status == TENON_OK ? status
                            : tn_prefix(status, "%s: sparse: result %s: ", call->op->name, name);
}

static tenon_status_t copy_history(tenon_tensor_t *from, tenon_tensor_t *to) {
  return tn_autograd.share && from->keys & TN_KEY(TN_BIT_AUTOGRAD) ? tn_autograd.share(from, to)
                                                                   : TENON_OK;
}

/* The result becomes a list of its own, which shares the items. */
static tenon_status_t take_list_value(tenon_tensor_t *t, const tenon_tensor_t *list) {
  tenon_tensor_t *own;
  for (int64_t i = 1; i < list->shape[0]; i++) {
    const tenon_dtype_t first = tenon_item(list, 0)->dtype;
    const tenon_dtype_t dtype = tenon_item(list, i)->dtype;
    if (!tn_dtype_same(dtype, first))
      return tn_fail(TENON_INVALID,
                     "item %lld has dtype %s, but item 0 has %s: the items of a list have one "
                     "dtype; cast it",
                     (long long)i, tn_dtype_name(dtype), tn_dtype_name(first));
  }
  TN_TRY(tn_list_keep(list, &own));
  tenon_status_t status = tn_unallocated_become(t, own);
  t->keys |= own->keys;
  tenon_tensor_release(own);
  return status;
}

tenon_status_t tn_unallocated_take(tenon_tensor_t *t, tenon_tensor_t *tensor) {
  if (tn_dtype_is(tensor->dtype, TENON_LIST)) return take_list_value(t, tensor);
  tenon_tensor_t *own = tensor;
  bool shares = tn_tensor_is_owned(tensor) && ((tn_tensor_t *)tensor)->storage &&
                ((tn_tensor_t *)tensor)->storage->release;
  /* Nothing tells how long memory without shared ownership lives, so its elements are copied. */
  if (shares)
    tenon_tensor_retain(own);
  else
    TN_TRY(tenon_tensor_copy_to(tensor, tensor->device, &own));
  tenon_status_t status = tn_unallocated_become(t, own);
  if (!tn_layout(t)) t->detail = tensor->detail;
  tn_tensor_mark(t);
  tenon_tensor_release(own);
  return status == TENON_OK ? copy_history(tensor, t) : status;
}

static tenon_status_t assign_one(tenon_tensor_t *t, tenon_tensor_t *tensor) {
  if (t->keys & TN_TENSOR_UNSET) return tn_unallocated_take(t, tensor);
  bool lists = tn_dtype_is(t->dtype, TENON_LIST) && tn_dtype_is(tensor->dtype, TENON_LIST) &&
               t->shape[0] == tensor->shape[0];
  if (!lists) {
    TN_TRY(tn_device_tensor_copy(tensor, t));
    return copy_history(tensor, t);
  }
  for (int64_t i = 0; i < t->shape[0]; i++)
    TN_TRY(assign_one(tenon_item(t, i), tenon_item(tensor, i)));
  return TENON_OK;
}

static tenon_status_t assign(tenon_call_t *call, uint32_t output, tenon_tensor_t *tensor) {
  tenon_tensor_t *t = result(call, output);
  if (!t || !tensor) return fail(call, TENON_INVALID, "assign: result %u is absent", output);
  tenon_status_t status = assign_one(t, tensor);
  return status == TENON_OK ? status
                            : tn_prefix(status, "%s: assign: result %s: ", call->op->name,
                                        call->op->schema.outputs[output].name);
}

static tenon_status_t set_string(tenon_call_t *call, tenon_tensor_t *output, int64_t index,
                                 const char *data, uint64_t size) {
  if (!output || !tn_dtype_is(output->dtype, TENON_STRING) || index < 0 ||
      index >= tenon_count(output))
    return fail(call, TENON_INVALID, "set_string: no element %lld in this tensor",
                (long long)index);
  return tn_string_set(output, index, data, size);
}

/* calls */

static tenon_status_t invoke(tenon_call_t *call, const tenon_op_t *op, const tenon_value_t *attrs,
                             tenon_tensor_t *const *inputs, tenon_tensor_t **outputs) {
  if (!op) return fail(call, TENON_INVALID, "invoke: no operator");
  uint64_t missing = 0;
  for (uint32_t o = 0; o < op->output_count; o++)
    if (!outputs[o]) missing |= (uint64_t)1 << o;
  int32_t before;
  tenon_status_t status = tn_mixed_begin_parts(call, &before);
  /* Random operators that are invoked take random numbers of their own. */
  if (status == TENON_OK) status = tn_call(op, attrs, inputs, outputs, 0, NULL);
  tn_mixed_end_parts(before);
  for (uint32_t o = 0; o < op->output_count; o++) {
    if (!(missing >> o & 1) || !outputs[o]) continue;
    tenon_status_t kept = tn_frame_keep(tn_frame_of(call), outputs[o]);
    if (kept != TENON_OK) {
      outputs[o] = NULL;
      status = kept;
    }
  }
  return status == TENON_OK ? status : tn_prefix(status, "%s: ", call->op->name);
}

static tenon_status_t evaluate(tenon_call_t *call, const tenon_graph_t *graph, uint32_t input_count,
                               tenon_tensor_t *const *inputs, uint32_t output_count,
                               tenon_tensor_t **outputs) {
  if (!tn_evaluate || !graph) return fail(call, TENON_UNIMPLEMENTED, "evaluate: no graph");
  return tn_evaluate(call, graph, input_count, inputs, output_count, outputs);
}

typedef struct parts_t {
  tenon_call_t *call;
  tenon_part_fn part;
  void *argument;
} parts_t;

static tenon_status_t run_part(void *argument, int64_t begin, int64_t end) {
  const parts_t *parts = argument;
  return parts->part(parts->call, parts->argument, begin, end);
}

static tenon_status_t parallel(tenon_call_t *call, int64_t count, int64_t grain, tenon_part_fn part,
                               void *argument) {
  parts_t parts = {call, part, argument};
  return tn_parallel(count, grain, run_part, &parts);
}

static void zone(const void *context, const char *name) {
  (void)context;
  tenon_profile_t *profile = tn_thread()->profile;
  if (!profile) return;
  if (name)
    tn_profile_open(profile, name, "");
  else
    tn_profile_close(profile);
}

static void *native(const void *context, const char *name) {
  const head_t *head = context;
  const tenon_call_t *call = context;
  const tenon_device_context_t *device = NULL;
  if (head->phase == TENON_PHASE_RUN)
    device = call->device;
  else if (head->phase == TENON_PHASE_DEVICE)
    device = context;
  /* The CPU has no native objects. */
  const tn_ordinal_t *ordinal = device ? tn_ordinal_of(device->device) : NULL;
  if (!ordinal || !TN_SLOT(ordinal->table, native)) return NULL;
  return ordinal->table->native(device, name, head->phase == TENON_PHASE_RUN ? call->stream : NULL);
}

const tenon_host_t tn_host = {sizeof(tenon_host_t),
                              TENON_ABI,
                              fail,
                              tn_dim,
                              tn_list,
                              allocate,
                              temporary,
                              view,
                              resize,
                              assign,
                              set_string,
                              invoke,
                              evaluate,
                              parallel,
                              zone,
                              native,
                              adopt,
                              tn_iterator_split,
                              tn_grid_launch,
                              sparse,
                              release};

void tn_services_install(void) { tn_host_services = &tn_host; }
