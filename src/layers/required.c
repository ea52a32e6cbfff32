/* Operators that every device has because they follow from core::allocate and core::copy: their
 * kernels change headers and storage of tensors, which only the host can do, or copy between
 * devices.  They serve tensors of every device, and a backend may bring kernels of its own.
 * Invariant: a call that fails leaves its tensors as they were. */
#include <inttypes.h>
#include <string.h>
#include <tenon/check.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "dispatch/call.h"
#include "operator/names.h"
#include "storage/device_memory.h"

TENON_C const tenon_item_t core_required[]; /* ops/core.c includes this group */

static bool is_meta(const tenon_tensor_t *t) { return t->keys & TN_KEY(TN_BIT_META); }

/* Checks that the header of a tensor may change. */
static tenon_status_t check_header(tenon_call_t *call, const tenon_tensor_t *t) {
  if (!tn_tensor_is_owned(t) || !((const tn_tensor_t *)t)->storage)
    return tenon_fail(call, TENON_INVALID,
                      "x is a view on a caller's stack: expected a tensor that the host owns");
  if (((const tn_tensor_t *)t)->history)
    return tenon_fail(call, TENON_PRECONDITION,
                      "x has to do with gradients: detach it first (tenon_tensor_detach)");
  if (tn_dtype_is(t->dtype, TENON_STRING) || tn_dtype_is(t->dtype, TENON_LIST) || t->detail)
    return tenon_fail(call, TENON_UNIMPLEMENTED, "x is %s: its memory is not only elements",
                      t->detail ? tenon_tensor_layout(t) : tn_dtype_name(t->dtype));
  return TENON_OK;
}

/* resize */

/* The known bytes of a tensor's memory: those of its storage, and for memory that was lent also
 * those of its elements. */
static void memory_of(const tenon_tensor_t *t, char **out_begin, char **out_end) {
  const tn_storage_t *storage = ((const tn_tensor_t *)t)->storage;
  char *begin, *end;
  *out_begin = storage->data;
  *out_end = *out_begin + storage->size;
  if (!tn_tensor_span(t, &begin, &end)) return;
  if (begin < *out_begin) *out_begin = begin;
  if (end > *out_end) *out_end = end;
}

/* Makes sure that there are `size` bytes from the tensor's first element on. If not, the tensor
 * gets larger memory with the same contents, including those before its first element. */
static tenon_status_t make_room(tenon_tensor_t *t, uint64_t size) {
  tn_tensor_t *own = (tn_tensor_t *)t;
  tenon_tensor_t *memory;
  char *begin, *end;
  memory_of(t, &begin, &end);
  const uint64_t offset = t->data && begin ? (uint64_t)(tn_address(t) - begin) : 0;
  const uint64_t known = (uint64_t)(end - begin);
  int64_t bytes = (int64_t)(offset + size);
  if (offset + size <= known) return TENON_OK;
  TN_TRY(tn_device_tensor_create(t->device, tenon_dtype(TENON_U8), 1, &bytes, &memory));
  tn_storage_t *storage = ((tn_tensor_t *)memory)->storage;
  tenon_status_t status = TENON_OK;
  if (begin)
    status = tn_bytes_copy(tn_bytes_of(t, begin), tn_bytes_of(memory, tn_address(memory)), known);
  if (status == TENON_OK) {
    tn_storage_retain(storage);
    tn_storage_release(own->storage);
    own->storage = storage;
    t->data = memory->data;
    t->byte_offset = memory->byte_offset;
    tn_address_set(t, tn_address(t) + offset);
  }
  tenon_tensor_release(memory);
  return status;
}

static void set_geometry(tenon_tensor_t *t, int32_t ndim, const int64_t *shape,
                         const int64_t *strides) {
  t->ndim = ndim;
  if (ndim) memmove(t->shape, shape, (size_t)ndim * sizeof *shape);
  if (strides && ndim)
    memmove(t->strides, strides, (size_t)ndim * sizeof *shape);
  else
    tn_strides_dense(ndim, t->shape, t->strides);
  tn_tensor_mark(t);
}

static tenon_status_t resize_tensor(tenon_call_t *call, tenon_tensor_t *t, int32_t ndim,
                                    const int64_t *shape) {
  char text[200];
  uint64_t size;
  TN_TRY(check_header(call, t));
  int64_t count = ndim >= 0 && ndim <= TENON_RANK_MAX ? tn_shape_count(ndim, shape) : -1;
  if (count < 0 || !tn_dtype_bytes(t->dtype, count, &size) || size > INT64_MAX / 2)
    return tenon_fail(
        call, TENON_INVALID, "x cannot have shape %s",
        tn_shape_print(ndim < 0 || ndim > TENON_RANK_MAX ? 0 : ndim, shape, text, sizeof text));
  /* A tensor that has this shape already stays as it is, in any strides. */
  if (ndim == t->ndim && !memcmp(shape, t->shape, (size_t)ndim * sizeof *shape) &&
      !(t->keys & TN_TENSOR_UNSET))
    return TENON_OK;
  TN_TRY(tn_tensor_room(t, ndim));
  if (!is_meta(t)) TN_TRY(make_room(t, size));
  set_geometry(t, ndim, shape, NULL);
  return TENON_OK;
}

static tenon_status_t resize_run(tenon_call_t *call) {
  return resize_tensor(call, call->inputs[0], (int32_t)call->attrs[0].count,
                       call->attrs[0].as.ints);
}

/* set */

static tenon_status_t set_memory(tenon_call_t *call, tenon_tensor_t *t,
                                 const tenon_tensor_t *source, char *address, int32_t ndim,
                                 const int64_t *shape, const int64_t *strides) {
  TN_TRY(check_header(call, t));
  if (!tn_tensor_is_owned(source) || !((const tn_tensor_t *)source)->storage)
    return tenon_fail(call, TENON_INVALID,
                      "source is a view on a caller's stack: expected a tensor that the host owns");
  if (!tn_dtype_same(t->dtype, source->dtype))
    return tenon_fail(call, TENON_INVALID, "x is %s, source is %s: expected the same dtype",
                      tn_dtype_name(t->dtype), tn_dtype_name(source->dtype));
  TN_TRY(tn_tensor_room(t, ndim));
  tn_storage_t *storage = ((const tn_tensor_t *)source)->storage;
  tn_storage_retain(storage);
  tn_storage_release(((tn_tensor_t *)t)->storage);
  ((tn_tensor_t *)t)->storage = storage;
  t->data = source->data;
  t->byte_offset = source->byte_offset;
  tn_tensor_set_device(t, source->device);
  tn_address_set(t, address);
  set_geometry(t, ndim, shape, strides);
  return TENON_OK;
}

static tenon_status_t set_tensor_run(tenon_call_t *call) {
  const tenon_tensor_t *s = call->inputs[1];
  return set_memory(call, call->inputs[0], s, tn_address(s), s->ndim, s->shape, s->strides);
}

static tenon_status_t check_bounds(tenon_call_t *call, const tenon_tensor_t *source,
                                   const tenon_tensor_t *wanted) {
  char *begin, *end, *from, *to;
  memory_of(source, &begin, &end);
  if (is_meta(source) || !tn_tensor_span(wanted, &from, &to) || (from >= begin && to <= end))
    return TENON_OK;
  return tenon_fail(call, TENON_RANGE,
                    "these elements would lie in bytes %" PRId64 " to %" PRId64
                    " of a storage of %" PRId64 " bytes",
                    (int64_t)(from - begin), (int64_t)(to - begin), (int64_t)(end - begin));
}

static tenon_status_t set_strided_run(tenon_call_t *call) {
  const tenon_tensor_t *source = call->inputs[1];
  int64_t offset = call->attrs[0].as.i;
  int64_t far[TENON_RANK_MAX];
  int64_t reach = 0;
  const tenon_value_t *shape = &call->attrs[1];
  const tenon_value_t *strides = &call->attrs[2];
  if (!tn_tensor_is_owned(source) || !((const tn_tensor_t *)source)->storage)
    return tenon_fail(call, TENON_INVALID,
                      "source is a view on a caller's stack: expected a tensor that the host owns");
  if (shape->count != strides->count || shape->count > TENON_RANK_MAX)
    return tenon_fail(call, TENON_INVALID, "a shape of %u extents and %u strides", shape->count,
                      strides->count);
  tenon_tensor_t wanted = *source;
  int64_t bits = (int64_t)source->dtype.bits * source->dtype.lanes;
  bool fits =
      tn_shape_count((int32_t)shape->count, shape->as.ints) >= 0 && tn_mul(offset, bits, &offset);
  /* A sum that overflows is no position in memory. */
  for (uint32_t i = 0; i < shape->count && fits; i++) {
    int64_t step = strides->as.ints[i] < 0 ? -(strides->as.ints[i] + 1) : strides->as.ints[i];
    fits = tn_mul(step, shape->as.ints[i], &far[i]) && tn_mul(far[i], bits, &far[i]) &&
           tn_add(reach, far[i], &reach);
  }
  if (!fits || offset % 8 || reach > INT64_MAX / 4 || offset > INT64_MAX / 4 || offset < 0)
    return tenon_fail(call, TENON_INVALID, "an extent below 0, or an element that is too far away");
  tn_address_set(&wanted, (char *)((const tn_tensor_t *)source)->storage->data + offset / 8);
  wanted.ndim = (int32_t)shape->count;
  wanted.shape = (int64_t *)(uintptr_t)shape->as.ints;
  wanted.strides = (int64_t *)(uintptr_t)strides->as.ints;
  TN_TRY(check_bounds(call, source, &wanted));
  return set_memory(call, call->inputs[0], source, tn_address(&wanted), wanted.ndim, wanted.shape,
                    wanted.strides);
}

static tenon_status_t set_none_run(tenon_call_t *call) {
  tenon_tensor_t *t = call->inputs[0];
  tenon_tensor_t *memory;
  int64_t none = 0;
  TN_TRY(check_header(call, t));
  TN_TRY(tn_device_tensor_create(t->device, t->dtype, 1, &none, &memory));
  tenon_status_t status = set_memory(call, t, memory, tn_address(memory), 1, &none, NULL);
  tenon_tensor_release(memory);
  return status;
}

/* copies */

/* Makes a copy of x in host memory with the given dtype. */
static tenon_status_t cast_tensor(tenon_tensor_t *x, tenon_dtype_t dtype,
                                  tenon_tensor_t **out_tensor) {
  tenon_tensor_t *host;
  tenon_tensor_t *result[1] = {NULL};
  const tenon_op_t *op = tn_registry_find("core::cast");
  if (!op) return tn_fail(TENON_INTERNAL, "the built-in operator core::cast is missing");
  TN_TRY(tenon_tensor_copy_to(x, (tenon_device_t){1, 0}, &host));
  tenon_value_t *attrs = tn_scratch((op->schema.attr_count + 1) * sizeof *attrs);
  int32_t to = tn_schema_attr(&op->schema, "to", 2);
  tenon_status_t status = attrs && to >= 0 ? TENON_OK : tn_no_memory("a copy", sizeof *attrs);
  if (status == TENON_OK) {
    memcpy(attrs, op->defaults, op->schema.attr_count * sizeof *attrs);
    attrs[to] = (tenon_value_t){TENON_KIND_DTYPE, 0, {.dtype = dtype}};
    tn_thread_calls_t calls = tn_calls_without_layers();
    status = tn_call(op, attrs, &host, result, 0, NULL);
    tn_thread()->calls = calls;
  }
  tenon_tensor_release(host);
  *out_tensor = result[0];
  return status;
}

static tenon_status_t copy_tensor_elements(tenon_call_t *call, tenon_tensor_t *x,
                                           tenon_tensor_t *y) {
  char from[160], to[160];
  int64_t strides[TENON_RANK_MAX];
  tenon_tensor_t wide = *x;
  tenon_tensor_t *other = NULL;
  bool fits = x->ndim <= y->ndim;
  for (int32_t i = y->ndim - 1, k = x->ndim - 1; i >= 0 && fits; i--, k--) {
    bool repeats = k < 0 || (x->shape[k] == 1 && y->shape[i] != 1);
    fits = repeats || x->shape[k] == y->shape[i];
    strides[i] = repeats ? 0 : x->strides[k];
  }
  if (!fits)
    return tenon_fail(call, TENON_INVALID, "x of shape %s does not broadcast to y of shape %s",
                      tn_shape_print(x->ndim, x->shape, from, sizeof from),
                      tn_shape_print(y->ndim, y->shape, to, sizeof to));
  if (is_meta(y) || tenon_count(y) == 0) return TENON_OK;
  if (is_meta(x))
    return tenon_fail(call, TENON_INVALID, "x is on meta and has no elements to copy");
  if (x->detail || y->detail)
    return tenon_fail(call, TENON_UNIMPLEMENTED, "%s tensors are not copied",
                      tenon_tensor_layout(x->detail ? x : y));
  if (!tn_dtype_same(x->dtype, y->dtype))
    TN_TRY(cast_tensor(x, y->dtype, &other));
  else if (tn_tensors_overlap(x, y) && tn_address(x) != tn_address(y))
    TN_TRY(tenon_tensor_copy_to(x, x->device, &other));
  /* The copy is dense, so its strides are computed from its shape. */
  if (other) {
    wide = *other;
    int64_t step = 1;
    for (int32_t i = y->ndim - 1, k = x->ndim - 1; i >= 0; i--, k--) {
      strides[i] = k < 0 || (x->shape[k] == 1 && y->shape[i] != 1) ? 0 : step;
      if (k >= 0) step *= x->shape[k];
    }
  }
  wide.keys &= ~TN_TENSOR_OWNED;
  wide.ndim = y->ndim;
  wide.shape = y->shape;
  wide.strides = strides;
  tn_tensor_mark(&wide);
  tenon_status_t status = tn_device_tensor_copy(&wide, y);
  tenon_tensor_release(other);
  return status;
}

static tenon_status_t copy_from_run(tenon_call_t *call) {
  return copy_tensor_elements(call, call->inputs[0], call->inputs[1]);
}

static tenon_status_t copy_from_and_resize_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  TN_TRY(resize_tensor(call, call->inputs[1], x->ndim, x->shape));
  return copy_tensor_elements(call, call->inputs[0], call->inputs[1]);
}

static tenon_status_t scalar_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  for (int32_t i = 0; i < x->ndim; i++)
    if (tenon_is_known(x->dims[i]) && x->dims[i].value != 1)
      return tenon_fail(infer, TENON_INVALID,
                        "x has an axis of extent %" PRId64 ": expected one element",
                        x->dims[i].value);
  infer->outputs[0]->ndim = 0;
  return TENON_OK;
}

static tenon_status_t scalar_run(tenon_call_t *call) {
  tenon_tensor_t one = *call->inputs[0];
  if (is_meta(&one)) return tenon_fail(call, TENON_INVALID, "x is on meta and has no elements");
  one.keys &= ~TN_TENSOR_OWNED;
  one.ndim = 0;
  one.detail = NULL;
  tn_tensor_mark(&one);
  return tn_device_tensor_copy(&one, call->outputs[0]);
}

/* what a device must bring */

tenon_status_t tenon_backend_check(const char *backend) {
  static const char *const names[][2] = {{"core::allocate", "memory"},
                                         {"core::copy", "copies of bytes"}};
  tn_text_t lacks = {0};
  TN_TRY(tenon_start());
  const tn_backend_t *b = backend ? tn_backend_find(backend) : NULL;
  if (!b)
    return tn_fail(TENON_NOT_FOUND, "no library or program has named a backend '%s'",
                   backend ? backend : "");
  for (size_t i = 0; i < 2 && b != &tn_backend_meta && !b->has_plugin; i++) {
    const tenon_op_t *op = tn_registry_find(names[i][0]);
    if (op && !tenon_op_has_kernel(op, backend))
      tn_text_add(&lacks, "%s%s (%s)", lacks.size ? ", " : "", names[i][0], names[i][1]);
  }
  tenon_status_t status = TENON_OK;
  if (lacks.size)
    status = tn_fail(TENON_UNIMPLEMENTED,
                     "backend %s lacks %s: a device brings a kernel of each; the other required "
                     "operators follow from them",
                     backend, tn_text_get(&lacks));
  tn_text_clear(&lacks);
  return status;
}

/* clang-format off */
TENON_ITEMS(core_required,
  TENON_OP("core::resize_(Tensor(a!) x, *, int[] shape) -> ()",
    TENON_DOC("x gets this shape, row-major from its first element; its contents stay as they lie "
              "in memory.\n"
              "Within the storage nothing moves.  Beyond, x gets a larger one with the same "
              "contents; other tensors keep the old one."),
    TENON_SAMPLES("x: f32[n, m], shape = [3, 2]; x: i8[n], shape = [3, 2]"),
    TENON_TYPES("x: any"), TENON_WHERE("x: anywhere"),
    TENON_KERNEL("cpu strided anywhere", resize_run)),
  TENON_OP("core::set_.tensor(Tensor(a!) x, Tensor source) -> ()",
    TENON_DOC("x becomes another view of source: its storage, device, shape and strides."),
    TENON_SAMPLES("x: f32[n], source: f32[n, m]"),
    TENON_TYPES("x: any; source: any"), TENON_WHERE("x, source: anywhere"),
    TENON_KERNEL("cpu strided anywhere", set_tensor_run)),
  TENON_OP("core::set_.strided(Tensor(a!) x, Tensor source, *, int offset=0, int[] shape, "
           "int[] strides) -> ()",
    TENON_DOC("x becomes a view of source's storage, from its element `offset`; refused beyond the "
              "storage."),
    TENON_SAMPLES("x: f32[n], source: f32[24], shape = [3, 2], strides = [6, 1], offset = 2"),
    TENON_TYPES("x: any; source: any"), TENON_WHERE("x, source: anywhere"),
    TENON_KERNEL("cpu strided anywhere", set_strided_run)),
  TENON_OP("core::set_.none(Tensor(a!) x) -> ()",
    TENON_DOC("x lets its storage go and has no elements, on the same device."),
    TENON_SAMPLES("x: f32[n, m]; x: i8[n]"),
    TENON_TYPES("x: any"), TENON_WHERE("x: anywhere"),
    TENON_KERNEL("cpu strided anywhere", set_none_run)),
  TENON_OP("core::copy_from(Tensor x, Tensor(a!) y) -> ()",
    TENON_DOC("Copies x into y: of any dtype (as core::cast), strides and device; x is broadcast "
              "to y."),
    TENON_SAMPLES("x: f32[n, m], y: f32[n, m]; x: i64[m], y: f16[n, m]"),
    TENON_TYPES("x: any; y: any"), TENON_WHERE("x, y: anywhere"),
    TENON_KERNEL("cpu strided anywhere", copy_from_run)),
  TENON_OP("core::copy_from_and_resize(Tensor x, Tensor(a!) y) -> ()",
    TENON_DOC("The same after y got x's shape."),
    TENON_SAMPLES("x: f32[n, m], y: f32[n, m]; x: i64[m], y: f16[n, m]"),
    TENON_TYPES("x: any; y: any"), TENON_WHERE("x, y: anywhere"),
    TENON_KERNEL("cpu strided anywhere", copy_from_and_resize_run)),
  TENON_OP("core::local_scalar(Tensor x) -> Tensor @host out",
    TENON_DOC("The only element of x, without axes, in host memory."),
    TENON_TYPES("x: any; out = x"), TENON_INFER(scalar_infer), TENON_GRADIENT("x: error"),
    TENON_KERNEL("cpu strided anywhere", scalar_run)))
/* clang-format on */
