/* Tensors and their storage: create, borrow, view, retain, release, strings. Used by every layer
 * above core. Invariant: a tensor that shares storage holds one reference to it; strings belong to
 * the storage. */
#include "core/tensor.h"

#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/dtype.h"
#include "core/sparse.h"

bool tn_strides_dense(int32_t ndim, const int64_t *shape, int64_t *out_strides) {
  int64_t stride = 1;
  bool fits = true;
  for (int32_t i = ndim - 1; i >= 0; i--) {
    out_strides[i] = stride;
    if (shape[i] > 1 && !tn_mul(stride, shape[i], &stride)) {
      fits = false;
      stride = 1;
    }
  }
  return fits;
}

bool tn_is_dense(int32_t ndim, const int64_t *shape, const int64_t *strides) {
  int64_t stride = 1;
  bool dense = true;
  for (int32_t i = ndim - 1; i >= 0; i--) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != stride) dense = false;
    if (!tn_mul(stride, shape[i], &stride)) {
      dense = false;
      stride = 1;
    }
  }
  return dense;
}

bool tn_is_packed(const tenon_tensor_t *tensor) {
  int64_t need = 1;
  uint64_t done = 0;
  /* find the axis that continues the run, until no axis is left */
  for (;;) {
    int32_t found = -1;
    bool left = false;
    for (int32_t i = 0; i < tensor->ndim; i++) {
      if (tensor->shape[i] == 0) return true;
      if (tensor->shape[i] == 1 || done >> i & 1) continue;
      left = true;
      if (tensor->strides[i] == need) found = i;
    }
    if (!left) return true;
    if (found < 0) return false;
    done |= (uint64_t)1 << found;
    if (!tn_mul(need, tensor->shape[found], &need)) return false;
  }
}

int64_t tn_shape_count(int32_t ndim, const int64_t *shape) {
  int64_t count = 1;
  bool empty = false;
  bool fits = true;
  for (int32_t i = 0; i < ndim; i++) {
    if (shape[i] < 0) return -1;
    if (shape[i] == 0)
      empty = true;
    else if (!tn_mul(count, shape[i], &count)) {
      fits = false;
      count = 1;
    }
  }
  /* Empty shapes must fit too, because other code multiplies their extents. */
  if (!fits) return -1;
  return empty ? 0 : count;
}

const char *tn_shape_print(int32_t ndim, const int64_t *shape, char *out_text, size_t capacity) {
  size_t used = (size_t)snprintf(out_text, capacity, "[");
  for (int32_t i = 0; i < ndim && used < capacity; i++)
    used += (size_t)snprintf(out_text + used, capacity - used, "%s%lld", i ? ", " : "",
                             (long long)shape[i]);
  if (used + 2 <= capacity)
    memcpy(out_text + used, "]", 2);
  else if (capacity > 4)
    memcpy(out_text + capacity - 4, "...", 4);
  return out_text;
}

void tn_tensor_mark(tenon_tensor_t *tensor) {
  tensor->keys &= ~(TN_KEY_STRIDED | TN_KEY_DETAIL);
  if (!tn_is_dense(tensor->ndim, tensor->shape, tensor->strides)) tensor->keys |= TN_KEY_STRIDED;
  if (tensor->detail) tensor->keys |= TN_KEY_DETAIL;
}

/* devices whose memory has handles instead of addresses */

/* A bit set: for devices of type 12 one bit for the upper bits of the id; for other devices one
 * bit for the type, in the last word. */
static uint64_t handles[1024 / 64 + 1];

static uint64_t *handle_word(tenon_device_t device, uint64_t *out_bit) {
  uint32_t place =
      device.type == 12 ? (uint32_t)device.id >> 8 & 1023 : 1024 + ((uint32_t)device.type & 63);
  *out_bit = (uint64_t)1 << place % 64;
  return &handles[place / 64];
}

void tn_device_set_handles(tenon_device_t device, bool has_handles) {
  uint64_t bit;
  uint64_t *word = handle_word(device, &bit);
  if (has_handles)
    __atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
  else
    __atomic_fetch_and(word, ~bit, __ATOMIC_RELAXED);
}

bool tn_device_has_handles(tenon_device_t device) {
  uint64_t bit;
  uint64_t *word = handle_word(device, &bit);
  return __atomic_load_n(word, __ATOMIC_RELAXED) & bit;
}

/* storage */

/* Marks storage whose data is allocated directly after the storage itself. */
static void release_own(void *context) { (void)context; }

_Static_assert(sizeof(tn_storage_t) <= TN_ALIGNMENT,
               "data begins one alignment unit after the start of its storage");

/* Bytes of a storage block. Own data has at least one byte, so that no two tensors begin at the
 * same address. */
static inline size_t size_of_block(uint64_t size, bool is_own) {
  if (!is_own) return TN_ALIGNMENT;
  return TN_ALIGNMENT + (size ? (size_t)size : 1);
}

tenon_status_t tn_storage_create(void *data, uint64_t size, tenon_free_fn release, void *context,
                                 tn_storage_t **out_storage) {
  bool is_own = !data && !release;
  tn_storage_t *storage =
      size > SIZE_MAX / 2 && is_own ? NULL : tn_block_get(size_of_block(size, is_own));
  if (!storage) return tn_no_memory("a tensor", is_own ? (size_t)size : sizeof *storage);
  if (is_own) {
    data = (char *)storage + TN_ALIGNMENT;
    release = release_own;
  }
  *storage = (tn_storage_t){1, data, size, 0, release, context, .is_own = is_own};
  storage->is_inference = tn_thread()->calls.is_inference;
  *out_storage = storage;
  return TENON_OK;
}

/* Gives up a reference; returns true if it was the last. The owner of the only reference needs no
 * locked instruction: other threads can get a reference only from an owner. */
static inline bool drop_reference(int32_t *references) {
  return __atomic_load_n(references, __ATOMIC_ACQUIRE) == 1 ||
         __atomic_fetch_sub(references, 1, __ATOMIC_ACQ_REL) == 1;
}

void tn_storage_retain(tn_storage_t *storage) {
  __atomic_fetch_add(&storage->references, 1, __ATOMIC_RELAXED);
}

void tn_storage_release(tn_storage_t *storage) {
  if (!storage || !drop_reference(&storage->references)) return;
  tenon_string_t *strings = storage->data;
  for (int64_t i = 0; i < storage->string_count; i++)
    tn_release_memory((void *)(uintptr_t)strings[i].data);
  tenon_tensor_t **items = storage->data;
  for (uint64_t i = 0; storage->is_list && i < storage->size / sizeof *items; i++)
    tenon_tensor_release(items[i]);
  if (storage->release && !storage->is_own) storage->release(storage->context);
  tn_block_put(storage, size_of_block(storage->size, storage->is_own));
}

void tn_storage_drop(void *storage) { tn_storage_release(storage); }

void (*tn_history_release)(struct tn_history_t *history);
void (*tn_alias_release)(struct tn_alias_t *alias);

/* tensors */

static inline size_t header_size(int32_t ndim) {
  return sizeof(tn_tensor_t) + 2 * (size_t)ndim * sizeof(int64_t);
}

static tenon_status_t create_header(tn_storage_t *storage, void *data, tenon_dtype_t dtype,
                                    int32_t ndim, tn_tensor_t **out) {
  if (ndim < 0 || ndim > TENON_RANK_MAX)
    return tn_fail(TENON_INVALID, "a tensor has 0 to %d dimensions, found %d", TENON_RANK_MAX,
                   (int)ndim);
  tn_tensor_t *tensor = tn_block_get(header_size(ndim));
  if (!tensor) return tn_no_memory("a tensor", header_size(ndim));
  *tensor =
      (tn_tensor_t){{data, {1, 0}, ndim, dtype, NULL, NULL, 0, TN_KEY_CPU | TN_TENSOR_OWNED, NULL},
                    1,
                    ndim,
                    storage,
                    NULL,
                    NULL};
  tensor->view.shape = tensor->room;
  tensor->view.strides = tensor->room + ndim;
  *out = tensor;
  return TENON_OK;
}

/* Takes over the caller's reference to the storage, also on failure. */
static tenon_status_t create_over_storage(tn_storage_t *storage, void *data, tenon_dtype_t dtype,
                                          int32_t ndim, const int64_t *shape,
                                          const int64_t *strides, tenon_tensor_t **out_tensor) {
  tn_tensor_t *tensor;
  tenon_status_t status = create_header(storage, data, dtype, ndim, &tensor);
  if (status != TENON_OK) {
    tn_storage_release(storage);
    return status;
  }
  for (int32_t i = 0; i < ndim; i++)
    tensor->view.shape[i] = shape[i];
  for (int32_t i = 0; i < ndim && strides; i++)
    tensor->view.strides[i] = strides[i];
  if (!strides)
    tn_strides_dense(ndim, shape, tensor->view.strides);
  else
    tn_tensor_mark(&tensor->view);
  *out_tensor = &tensor->view;
  return TENON_OK;
}

tenon_status_t tn_tensor_over(tn_storage_t *storage, void *data, tenon_dtype_t dtype, int32_t ndim,
                              const int64_t *shape, const int64_t *strides,
                              tenon_tensor_t **out_tensor) {
  tn_storage_retain(storage);
  return create_over_storage(storage, data, dtype, ndim, shape, strides, out_tensor);
}

tenon_status_t tn_tensor_unset(tenon_dtype_t dtype, int32_t ndim, tenon_tensor_t **out_tensor) {
  tn_tensor_t *tensor;
  TN_TRY(create_header(NULL, NULL, dtype, ndim, &tensor));
  for (int32_t i = 0; i < ndim; i++) {
    tensor->view.shape[i] = 0;
    tensor->view.strides[i] = 1;
  }
  tensor->view.keys |= TN_TENSOR_UNSET;
  *out_tensor = &tensor->view;
  return TENON_OK;
}

tenon_status_t tn_tensor_view_of(tenon_tensor_t *of, tenon_dtype_t dtype, int64_t offset_bytes,
                                 int32_t ndim, const int64_t *shape, const int64_t *strides,
                                 tenon_tensor_t **out_tensor) {
  tn_storage_t *storage = tn_tensor_is_owned(of) ? ((tn_tensor_t *)of)->storage : NULL;
  bool is_whole = ndim == of->ndim && !offset_bytes &&
                  (!strides || tn_is_dense(ndim, shape, strides)) &&
                  (!ndim || memcmp(shape, of->shape, (size_t)ndim * sizeof *shape) == 0);
  if (tn_layout(of) && !(is_whole && storage && tn_dtype_same(dtype, of->dtype)))
    return tn_fail(
        TENON_UNIMPLEMENTED,
        "cannot create a view of a sparse tensor (%s): make it dense first (core::to_dense)",
        tn_layout_name(tn_layout(of)));
  if (storage)
    tn_storage_retain(storage);
  else
    TN_TRY(tn_storage_create(of->data, 0, NULL, NULL, &storage));
  TN_TRY(create_over_storage(storage, of->data, dtype, ndim, shape, strides, out_tensor));
  uint64_t layout = (*out_tensor)->keys & TN_KEY_STRIDED;
  if (of->detail) layout |= TN_KEY_DETAIL;
  (*out_tensor)->detail = of->detail;
  (*out_tensor)->device = of->device;
  (*out_tensor)->byte_offset = of->byte_offset;
  if (of->data) tn_address_set(*out_tensor, tn_address(of) + offset_bytes);
  /* the bits below TN_KEY_STRIDED are backends */
  (*out_tensor)->keys = TN_TENSOR_OWNED | layout | (of->keys & (TN_KEY_STRIDED - 1));
  return TENON_OK;
}

void tn_tensor_forget(const tenon_tensor_t *tensor) {
  uint64_t size;
  if (!tn_tensor_is_owned(tensor) || !((const tn_tensor_t *)tensor)->storage->is_file) return;
  if (!tn_is_packed(tensor) || !tn_dtype_bytes(tensor->dtype, tenon_count(tensor), &size)) return;
  tn_file_forget(tensor->data, (size_t)size);
}

tenon_status_t tn_tensor_room(tenon_tensor_t *tensor, int32_t ndim) {
  tn_tensor_t *t = (tn_tensor_t *)tensor;
  if (ndim < 0 || ndim > TENON_RANK_MAX)
    return tn_fail(TENON_INVALID, "a tensor has 0 to %d dimensions, found %d", TENON_RANK_MAX,
                   (int)ndim);
  if (ndim <= t->room_ndim || tensor->shape != t->room) return TENON_OK;
  int64_t *room = tn_allocate_zero(2 * TENON_RANK_MAX, sizeof *room);
  if (!room) return tn_no_memory("a tensor", 2 * TENON_RANK_MAX * sizeof *room);
  if (tensor->ndim) {
    memcpy(room, tensor->shape, (size_t)tensor->ndim * sizeof *room);
    memcpy(room + TENON_RANK_MAX, tensor->strides, (size_t)tensor->ndim * sizeof *room);
  }
  tensor->shape = room;
  tensor->strides = room + TENON_RANK_MAX;
  return TENON_OK;
}

static tenon_status_t size_of_shape(tenon_dtype_t dtype, int32_t ndim, const int64_t *shape,
                                    int64_t *out_count, uint64_t *out_size) {
  char text[256];
  if (tn_dtype_index(dtype) < 0)
    return tn_fail(TENON_INVALID, "dtype (code %d, bits %d, lanes %d) is not one of contract 1",
                   dtype.code, dtype.bits, dtype.lanes);
  if (ndim < 0 || ndim > TENON_RANK_MAX)
    return tn_fail(TENON_INVALID, "a tensor has 0 to %d dimensions, found %d", TENON_RANK_MAX,
                   (int)ndim);
  *out_count = tn_shape_count(ndim, shape);
  if (*out_count < 0 || !tn_dtype_bytes(dtype, *out_count, out_size) ||
      *out_size > (uint64_t)1 << 62)
    return tn_fail(TENON_INVALID,
                   "shape %s of %s: extents must not be negative, and the size must fit 62 bits",
                   tn_shape_print(ndim, shape, text, sizeof text), tn_dtype_name(dtype));
  return TENON_OK;
}

tenon_status_t tenon_tensor_create(tenon_dtype_t dtype, int32_t ndim, const int64_t *shape,
                                   tenon_tensor_t **out_tensor) {
  int64_t count;
  uint64_t size;
  tn_storage_t *storage;
  if (tn_dtype_is(dtype, TENON_LIST))
    return tn_fail(TENON_INVALID,
                   "tenon_tensor_create cannot create a list of tensors: use tenon_tensor_list");
  TN_TRY(size_of_shape(dtype, ndim, shape, &count, &size));
  TN_TRY(tn_storage_create(NULL, size, NULL, NULL, &storage));
  if (tn_dtype_is(dtype, TENON_STRING)) {
    memset(storage->data, 0, (size_t)size);
    storage->string_count = count;
  }
  return create_over_storage(storage, storage->data, dtype, ndim, shape, NULL, out_tensor);
}

/* Computes the range of bytes that the strides address: its lowest offset and its size. Returns
 * false if the range exceeds 62 bits. */
static bool range_of_strides(tenon_dtype_t dtype, int32_t ndim, const int64_t *shape,
                             const int64_t *strides, int64_t *out_low, uint64_t *out_size) {
  int64_t low = 0;
  int64_t high = 0;
  int64_t element = dtype.bits / 8;
  int64_t far;
  if (!element) return true; /* packed dtypes are always dense */
  for (int32_t i = 0; i < ndim; i++) {
    if (!tn_mul(shape[i] - 1, strides[i], &far)) return false;
    int64_t *end = far < 0 ? &low : &high;
    if (!tn_add(*end, far, end)) return false;
  }
  if (!tn_mul(low, element, &low) || !tn_mul(high, element, &high) || !tn_add(high, element, &high))
    return false;
  if (high > (int64_t)1 << 61 || low < -((int64_t)1 << 61)) return false;
  *out_low = low;
  *out_size = (uint64_t)(high - low);
  return true;
}

/* Computes which bytes the elements have, counted from the first element. */
static tenon_status_t find_bytes(tenon_dtype_t dtype, int32_t ndim, const int64_t *shape,
                                 const int64_t *strides, int64_t *out_count, int64_t *out_low,
                                 uint64_t *out_size) {
  *out_low = 0;
  TN_TRY(size_of_shape(dtype, ndim, shape, out_count, out_size));
  if (strides && *out_count > 0 &&
      !range_of_strides(dtype, ndim, shape, strides, out_low, out_size))
    return tn_fail(TENON_INVALID,
                   "shape and strides address more memory than 62 bits can describe");
  return TENON_OK;
}

tenon_status_t tenon_tensor_borrow(void *data, tenon_dtype_t dtype, int32_t ndim,
                                   const int64_t *shape, const int64_t *strides,
                                   tenon_free_fn release, void *context,
                                   tenon_tensor_t **out_tensor) {
  int64_t count;
  int64_t low;
  uint64_t size;
  tn_storage_t *storage;
  if (tn_dtype_is(dtype, TENON_LIST))
    return tn_fail(TENON_INVALID,
                   "tenon_tensor_borrow cannot create a list of tensors: use tenon_tensor_list");
  TN_TRY(find_bytes(dtype, ndim, shape, strides, &count, &low, &size));
  if (!data && count > 0)
    return tn_fail(TENON_INVALID, "a tensor of %lld elements needs data: found NULL",
                   (long long)count);
  TN_TRY(tn_storage_create(data ? (char *)data + low : NULL, size, release, context, &storage));
  tenon_status_t status =
      tn_tensor_over(storage, data ? data : storage->data, dtype, ndim, shape, strides, out_tensor);
  if (status != TENON_OK && release) storage->release = NULL; /* the caller keeps its memory */
  tn_storage_release(storage);
  return status;
}

/* Computes which bytes the memory of a tensor has, counted from its first element: those of its
 * storage, or where this is not known, those of its elements. */
static tenon_status_t find_memory(const tenon_tensor_t *of, int64_t *out_begin, int64_t *out_end) {
  const tn_storage_t *storage = tn_tensor_is_owned(of) ? ((const tn_tensor_t *)of)->storage : NULL;
  int64_t count;
  uint64_t size;
  if (storage && storage->size && of->data) {
    *out_begin = (intptr_t)storage->data - (intptr_t)tn_address(of);
    size = storage->size;
  } else
    TN_TRY(find_bytes(of->dtype, of->ndim, of->shape, of->strides, &count, out_begin, &size));
  *out_end = *out_begin + (int64_t)size;
  return TENON_OK;
}

/* Checks that a part of `size` bytes has its place in the memory of `of`. */
static tenon_status_t check_part(const tenon_tensor_t *of, tenon_dtype_t dtype,
                                 uint64_t byte_offset, int64_t low, uint64_t size) {
  int64_t begin, end;
  TN_TRY(find_memory(of, &begin, &end));
  const int64_t most = INT64_MAX / 2; /* no sum below overflows */
  int64_t first = low + (byte_offset < (uint64_t)most ? (int64_t)byte_offset : most);
  if (first < begin || first + (int64_t)size > end)
    return tn_fail(
        TENON_INVALID,
        "a part at byte %llu of a tensor needs bytes %lld to %lld, counted from its first "
        "element: its memory has bytes %lld to %lld",
        (unsigned long long)byte_offset, (long long)first, (long long)(first + (int64_t)size),
        (long long)begin, (long long)end);
  bool has_handle = of->device.type != 1 && tn_device_has_handles(of->device);
  uint64_t at = of->byte_offset + byte_offset + (has_handle ? 0 : (uintptr_t)of->data);
  uint64_t alignment = tn_dtype_alignment(dtype);
  if (at % alignment)
    return tn_fail(TENON_INVALID,
                   "a part of a tensor as %s begins at %s %llu: expected a multiple of %llu",
                   tn_dtype_name(dtype), has_handle ? "offset" : "address", (unsigned long long)at,
                   (unsigned long long)alignment);
  return TENON_OK;
}

tenon_status_t tenon_tensor_part(tenon_tensor_t *of, tenon_dtype_t dtype, uint64_t byte_offset,
                                 int32_t ndim, const int64_t *shape, const int64_t *strides,
                                 tenon_tensor_t **out_tensor) {
  int64_t count, low;
  uint64_t size;
  *out_tensor = NULL;
  if (of->detail || of->dtype.code >= 200 || dtype.code >= 200)
    return tn_fail(TENON_INVALID,
                   "a part as %s of a %s tensor of %s: expected a dense tensor of numbers, and a "
                   "part of numbers",
                   tn_dtype_name(dtype), tenon_tensor_layout(of), tn_dtype_name(of->dtype));
  TN_TRY(find_bytes(dtype, ndim, shape, strides, &count, &low, &size));
  if (dtype.bits % 8 && strides && !tn_is_dense(ndim, shape, strides))
    return tn_fail(TENON_INVALID,
                   "a part as %s, whose elements share bytes, has strides: expected a dense part",
                   tn_dtype_name(dtype));
  if (count)
    TN_TRY(check_part(of, dtype, byte_offset, low, size));
  else
    byte_offset = 0; /* nothing is there, so nothing can be outside */
  return tn_tensor_view_of(of, dtype, (int64_t)byte_offset, ndim, shape, strides, out_tensor);
}

/* Fast version of sizes and tn_is_dense for common tensors, whose products of extents
 * cannot overflow. Returns false if the full checks are needed. */
static inline bool is_common_shape(tenon_dtype_t dtype, int32_t ndim, const int64_t *shape,
                                   const int64_t *strides, bool *out_is_dense) {
  uint64_t stride = 1;
  bool is_dense = true;
  if (tn_dtype_index(dtype) < 0) return false;
  for (int32_t i = ndim - 1; i >= 0; i--) {
    const uint64_t extent = (uint64_t)shape[i];
    if (extent >> 31) return false;
    if (extent != 1 && strides[i] != (int64_t)stride) is_dense = false;
    if ((stride *= extent) >> 32) return false;
  }
  *out_is_dense = is_dense || stride == 0;
  return true;
}

tenon_status_t tenon_tensor_view(tenon_tensor_t *view, void *data, tenon_dtype_t dtype,
                                 int32_t ndim, int64_t *shape, int64_t *strides,
                                 int64_t *room_strides) {
  /* Strides of scalars: never read as values, but the pointer can be copied and compared. */
  static int64_t none[1];
  int64_t count;
  uint64_t size;
  bool is_dense = true;
  if (ndim == 0) shape = strides = none;
  if (!strides || (uint32_t)ndim > TENON_RANK_MAX ||
      !is_common_shape(dtype, ndim, shape, strides, &is_dense)) {
    TN_TRY(size_of_shape(dtype, ndim, shape, &count, &size));
    if (!strides && !room_strides)
      return tn_fail(
          TENON_INVALID,
          "a dense view needs room for its strides: strides and room_strides are both NULL");
    if (!strides) tn_strides_dense(ndim, shape, strides = room_strides);
    is_dense = tn_is_dense(ndim, shape, strides);
  }
  *view = (tenon_tensor_t){data,  {1, 0},  ndim, dtype,
                           shape, strides, 0,    TN_KEY_CPU | (is_dense ? 0 : TN_KEY_STRIDED),
                           NULL};
  return TENON_OK;
}

static tenon_status_t check_detail(const tenon_tensor_t *t, const tenon_detail_t *detail) {
  if (detail->size < offsetof(tenon_detail_t, values) || detail->kind != TENON_DETAIL_QUANTISED)
    return tn_fail(TENON_INVALID, "a detail of kind %u: expected %d (quantised)%s", detail->kind,
                   TENON_DETAIL_QUANTISED,
                   tn_layout_is_sparse(detail->kind)
                       ? "; for sparse tensors use tenon_tensor_create_sparse"
                       : "");
  if (tn_layout(t)) return tn_fail(TENON_INVALID, "a sparse tensor cannot be quantised");
  if (detail->axis < -1 || detail->axis >= t->ndim || detail->block < 0)
    return tn_fail(TENON_INVALID,
                   "quantisation along axis %d in blocks of %d does not fit a tensor of %d axes",
                   (int)detail->axis, (int)detail->block, (int)t->ndim);
  if (!detail->scale) return tn_fail(TENON_INVALID, "a quantised tensor needs a scale: found NULL");
  int64_t least = detail->axis < 0 ? 1 : t->shape[detail->axis];
  if (detail->block) least = (least + detail->block - 1) / detail->block;
  const tenon_tensor_t *parts[] = {detail->scale, detail->zero_point};
  for (int i = 0; i < 2; i++) {
    if (!parts[i] || tenon_count(parts[i]) == least ||
        (detail->block && tenon_count(parts[i]) > least))
      continue;
    return tn_fail(TENON_INVALID, "a quantised tensor's %s has %lld elements: expected %lld",
                   i ? "zero point" : "scale", (long long)tenon_count(parts[i]), (long long)least);
  }
  return TENON_OK;
}

tenon_status_t tenon_tensor_detail_set(tenon_tensor_t *tensor, const tenon_detail_t *detail) {
  if (detail)
    TN_TRY(check_detail(tensor, detail));
  else if (tn_layout(tensor))
    return tn_fail(TENON_INVALID,
                   "cannot remove the detail of a sparse tensor: the detail holds its elements");
  tensor->detail = detail;
  tn_tensor_mark(tensor);
  return TENON_OK;
}

tenon_status_t tenon_tensor_list(tenon_tensor_t *const *items, int32_t count,
                                 tenon_tensor_t **out_tensor) {
  if (count < 0)
    return tn_fail(TENON_INVALID, "a list of %d tensors: expected at least 0", (int)count);
  int64_t shape[1] = {count};
  tn_storage_t *storage;
  for (int32_t i = 0; i < count; i++)
    if (!items[i] || !tn_tensor_is_owned(items[i]))
      return tn_fail(TENON_INVALID,
                     "item %d of the list is %s: expected a tensor owned by the host", (int)i,
                     items[i] ? "a view on a caller's stack" : "NULL");
  TN_TRY(tn_storage_create(NULL, (uint64_t)count * sizeof *items, NULL, NULL, &storage));
  if (count) memcpy(storage->data, items, (size_t)count * sizeof *items);
  uint64_t keys = 0;
  for (int32_t i = 0; i < count; i++) {
    tenon_tensor_retain(items[i]);
    keys |= items[i]->keys;
  }
  storage->is_list = true;
  tenon_status_t status =
      tn_tensor_over(storage, storage->data, tenon_dtype(TENON_LIST), 1, shape, NULL, out_tensor);
  tn_storage_release(storage);
  if (status != TENON_OK) return status;
  /* the union of the items' keys */
  (*out_tensor)->keys = TN_TENSOR_OWNED | TN_KEY_CPU | (keys & ~(TN_TENSOR_UNSET | TN_TENSOR_LENT));
  return TENON_OK;
}

/* Gives one item of a list that outlives its maker. */
static tenon_status_t keep_item(tenon_tensor_t *item, tenon_tensor_t **out_item) {
  const bool is_owned = tn_tensor_is_owned(item);
  const bool is_lent = !is_owned || item->keys & TN_TENSOR_LENT;
  const tn_storage_t *storage = is_owned ? ((tn_tensor_t *)item)->storage : NULL;
  if (item->detail && !tn_layout(item))
    return tn_fail(TENON_UNIMPLEMENTED, "a quantised tensor cannot be an item of a list that a "
                                        "graph passes on: dequantise it first");
  if (is_lent && tn_dtype_is(item->dtype, TENON_LIST)) return tn_list_keep(item, out_item);
  /* Nothing tells how long memory without an owner lives. */
  if (!storage || !storage->release) return tenon_tensor_copy(item, out_item);
  if (is_lent)
    return tn_tensor_view_of(item, item->dtype, 0, item->ndim, item->shape, item->strides,
                             out_item);
  *out_item = item;
  tenon_tensor_retain(item);
  return TENON_OK;
}

tenon_status_t tn_list_keep(const tenon_tensor_t *list, tenon_tensor_t **out_list) {
  const size_t count = (size_t)list->shape[0];
  tenon_tensor_t **items = tn_allocate_zero(count + 1, sizeof *items);
  tenon_status_t status = items ? TENON_OK : tn_no_memory("a list", count);
  for (size_t i = 0; i < count && status == TENON_OK; i++)
    status = keep_item(tenon_item(list, (int64_t)i), &items[i]);
  if (status == TENON_OK) status = tenon_tensor_list(items, (int32_t)count, out_list);
  for (size_t i = 0; i < count && items; i++)
    tenon_tensor_release(items[i]);
  tn_release_memory(items);
  return status;
}

void tenon_tensor_retain(tenon_tensor_t *tensor) {
  if (tensor && tn_tensor_is_owned(tensor))
    __atomic_fetch_add(&((tn_tensor_t *)tensor)->references, 1, __ATOMIC_RELAXED);
}

void tenon_tensor_release(tenon_tensor_t *tensor) {
  if (!tensor || !tn_tensor_is_owned(tensor)) return;
  tn_tensor_t *owned = (tn_tensor_t *)tensor;
  if (!drop_reference(&owned->references)) return;
  if (owned->alias) tn_alias_release(owned->alias);
  if (owned->history) tn_history_release(owned->history);
  tn_storage_release(owned->storage);
  /* tn_tensor_room has moved shape and strides to a larger block */
  if (tensor->shape != owned->room) tn_release_memory(tensor->shape);
  tn_block_put(owned, header_size(owned->room_ndim));
}

tenon_status_t tn_string_set(tenon_tensor_t *tensor, int64_t index, const char *data,
                             uint64_t size) {
  if (size > SIZE_MAX / 2) return tn_no_memory("a string", SIZE_MAX);
  char *copy = tn_copy_text(data, (size_t)size);
  if (!copy) return tn_no_memory("a string", (size_t)size);
  tenon_string_t *strings = tensor->data;
  tn_release_memory((void *)(uintptr_t)strings[index].data);
  strings[index] = (tenon_string_t){copy, size};
  return TENON_OK;
}

tenon_status_t tenon_tensor_set_string(tenon_tensor_t *tensor, int64_t index, const char *data,
                                       uint64_t size) {
  if (!tensor || !tn_dtype_is(tensor->dtype, TENON_STRING) || !tn_tensor_is_owned(tensor) ||
      !((tn_tensor_t *)tensor)->storage || !((tn_tensor_t *)tensor)->storage->string_count)
    return tn_fail(TENON_INVALID,
                   "tenon_tensor_set_string takes a string tensor made by tenon_tensor_create");
  if (index < 0 || index >= tenon_count(tensor))
    return tn_fail(TENON_RANGE, "index %lld of a string tensor of %lld elements is out of range",
                   (long long)index, (long long)tenon_count(tensor));
  return tn_string_set(tensor, index, data, size);
}

static tenon_status_t copy_list(const tenon_tensor_t *list, tenon_tensor_t **out_list) {
  const size_t count = (size_t)list->shape[0];
  tenon_tensor_t **items = tn_allocate_zero(count + 1, sizeof *items);
  tenon_status_t status = items ? TENON_OK : tn_no_memory("a list", count);
  *out_list = NULL;
  for (size_t i = 0; i < count && status == TENON_OK; i++)
    status = tenon_tensor_copy(tenon_item(list, (int64_t)i), &items[i]);
  if (status == TENON_OK) status = tenon_tensor_list(items, (int32_t)count, out_list);
  for (size_t i = 0; i < count && items; i++)
    tenon_tensor_release(items[i]);
  tn_release_memory(items);
  return status;
}

tenon_status_t tenon_tensor_copy(const tenon_tensor_t *tensor, tenon_tensor_t **out_tensor) {
  if (tensor->device.type != 1)
    return tn_fail(TENON_INVALID,
                   "the tensor is on a device (type %d, id %d): expected host memory; use "
                   "tenon_tensor_copy_to",
                   (int)tensor->device.type, (int)tensor->device.id);
  if (tn_layout(tensor)) return tn_sparse_copy(tensor, out_tensor);
  if (tn_dtype_is(tensor->dtype, TENON_LIST)) return copy_list(tensor, out_tensor);
  TN_TRY(tenon_tensor_create(tensor->dtype, tensor->ndim, tensor->shape, out_tensor));
  tenon_status_t status = tn_tensor_copy_into(tensor, *out_tensor);
  if (status == TENON_OK) return status;
  tenon_tensor_release(*out_tensor);
  *out_tensor = NULL;
  return status;
}

const char *tenon_dtype_name(tenon_dtype_t dtype) { return tn_dtype_name(dtype); }

tenon_status_t tenon_dtype_parse(const char *name, tenon_dtype_t *out_dtype) {
  if (tn_dtype_parse(name, strlen(name), out_dtype)) return TENON_OK;
  return tn_fail(
      TENON_INVALID,
      "unknown dtype '%s': expected bool, i8 to i64, u8 to u64, f16, bf16, f32, f64, string, ...",
      name);
}
