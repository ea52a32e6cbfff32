/* Tensors that the host owns: a public view (op.h), a count of references, and shared storage.  A
 * view that a caller keeps on its stack has no TN_TENSOR_OWNED bit and is never retained.
 * Invariant: keys tell layout and backend truthfully. */
#ifndef TN_CORE_TENSOR_H
#define TN_CORE_TENSOR_H

#include <stdbool.h>
#include <tenon/op.h>

/* Bits of tenon_tensor_t.keys.  Low bits are backends in order of registration (bit 0: CPU);
 * dispatch/key.h has the rest. */
#define TN_KEY_CPU ((uint64_t)1)
#define TN_KEY_STRIDED                                                                             \
  ((uint64_t)1 << 48) /* not row-major: a layer makes it so for kernels that want that */
#define TN_KEY_DETAIL                                                                              \
  ((uint64_t)1 << 49) /* quantised, sparse: for kernels that say they look at it */
#define TN_TENSOR_OWNED ((uint64_t)1 << 63) /* no key: this tensor is a tn_tensor_t */
#define TN_TENSOR_UNSET                                                                            \
  ((uint64_t)1 << 62) /* no key: an output without memory, which run resizes or assigns */
#define TN_TENSOR_COPY ((uint64_t)1 << 61) /* no key: a dense copy that a call made for itself */

typedef struct tn_storage_t {
  int32_t references;    /* atomic */
  void *data;            /* on devices an address to reckon with, as of tn_address() */
  uint64_t size;         /* bytes */
  int64_t string_count;  /* string tensors: elements, whose texts are owned too */
  tenon_free_fn release; /* NULL: the memory is the caller's */
  void *context;
  bool is_file;      /* mapped from a file, never written to */
  bool is_read_only; /* its owner said so */
  bool is_inference; /* made in inference mode: gradients never use it */
  uint64_t version;  /* atomic: counts the calls that wrote to it */
} tn_storage_t;

typedef struct tn_tensor_t {
  tenon_tensor_t view;
  int32_t references; /* atomic */
  int32_t room_ndim;  /* places in room: shape, then strides */
  tn_storage_t *storage;
  struct tn_history_t *history; /* how gradients reach it, NULL: they do not; src/autograd's */
  struct tn_alias_t
      *alias; /* what it is a view of, or what are views of it, NULL: nothing; src/autograd's */
  int64_t room[];
} tn_tensor_t;

/* Lets go of a tensor's history, which may free other tensors, and of its alias: set where these
 * are made. */
extern void (*tn_history_release)(struct tn_history_t *history);
extern void (*tn_alias_release)(struct tn_alias_t *alias);

/* Fills strides row-major; true when the number of elements fits int64. */
bool tn_strides_dense(int32_t ndim, const int64_t *shape, int64_t *out_strides);
bool tn_is_dense(int32_t ndim, const int64_t *shape, const int64_t *strides);
/* Are the elements one run of memory without gaps or overlap, in any order of axes (channels-last,
 * say)? */
bool tn_is_packed(const tenon_tensor_t *tensor);
/* Number of elements; -1 when an extent is negative or the product overflows. */
int64_t tn_shape_count(int32_t ndim, const int64_t *shape);
/* "[2, 3]" into text of at least `capacity`; cut with "..." when it does not fit. */
const char *tn_shape_print(int32_t ndim, const int64_t *shape, char *out_text, size_t capacity);
/* Devices whose memory has no flat addresses: there `data` is a handle and byte_offset says where
 * in it a tensor begins; elsewhere byte_offset is 0.  Stated when a device starts, read at any
 * time. */
void tn_device_set_handles(tenon_device_t device, bool has_handles);
bool tn_device_has_handles(tenon_device_t device);
/* Where a tensor begins, to compare and to subtract within one allocation; nobody looks there. */
static inline char *tn_address(const tenon_tensor_t *t) { return (char *)t->data + t->byte_offset; }
/* Lets it begin elsewhere in its allocation. */
static inline void tn_address_set(tenon_tensor_t *t, char *address) {
  if (t->device.type != 1 && tn_device_has_handles(t->device))
    t->byte_offset = (uint64_t)(address - (char *)t->data);
  else
    t->data = address;
}
/* Sets layout bits of keys from strides and detail (keeps the others). */
void tn_tensor_mark(tenon_tensor_t *tensor);

/* A tensor header with room for `ndim` axes over no storage (data NULL, TN_TENSOR_UNSET). */
tenon_status_t tn_tensor_unset(tenon_dtype_t dtype, int32_t ndim, tenon_tensor_t **out_tensor);
/* Makes room for that many axes in an owned header, whose shape and strides stay. */
tenon_status_t tn_tensor_room(tenon_tensor_t *tensor, int32_t ndim);
/* A view of `of`'s storage (retained); where it has none, of memory that the caller keeps as long
 * as the view. */
tenon_status_t tn_tensor_view_of(tenon_tensor_t *of, tenon_dtype_t dtype, int64_t offset_bytes,
                                 int32_t ndim, const int64_t *shape, const int64_t *strides,
                                 tenon_tensor_t **out_tensor);
static inline bool tn_tensor_is_owned(const tenon_tensor_t *tensor) {
  return (tensor->keys & TN_TENSOR_OWNED) != 0;
}
/* Memory that tensors share; release NULL and data NULL: `size` bytes that lie behind it. */
tenon_status_t tn_storage_create(void *data, uint64_t size, tenon_free_fn release, void *context,
                                 tn_storage_t **out_storage);
void tn_storage_retain(tn_storage_t *storage);
void tn_storage_release(tn_storage_t *storage);
void tn_storage_drop(void *storage); /* the same, as a release function */
/* How often its memory was written to by calls that say so, of tensors without storage 0; and: once
 * more, false: nobody may write to it. */
static inline uint64_t tn_tensor_version(const tenon_tensor_t *tensor) {
  const tn_storage_t *storage =
      tn_tensor_is_owned(tensor) ? ((const tn_tensor_t *)tensor)->storage : NULL;
  return storage ? __atomic_load_n(&storage->version, __ATOMIC_RELAXED) : 0;
}
static inline bool tn_tensor_written(tenon_tensor_t *tensor) {
  tn_storage_t *storage = tn_tensor_is_owned(tensor) ? ((tn_tensor_t *)tensor)->storage : NULL;
  if (!storage) return true;
  /* of two at once one may be lost, but it is another number than before */
  __atomic_store_n(&storage->version, __atomic_load_n(&storage->version, __ATOMIC_RELAXED) + 1,
                   __ATOMIC_RELAXED);
  return !storage->is_read_only;
}
static inline bool tn_tensor_is_read_only(const tenon_tensor_t *tensor) {
  const tn_storage_t *storage =
      tn_tensor_is_owned(tensor) ? ((const tn_tensor_t *)tensor)->storage : NULL;
  return storage && storage->is_read_only;
}
tenon_status_t tn_tensor_over(tn_storage_t *storage, void *data, tenon_dtype_t dtype, int32_t ndim,
                              const int64_t *shape, const int64_t *strides,
                              tenon_tensor_t **out_tensor);

/* Nobody will read the elements soon: memory that can be had back from a file is given to the
 * system. */
void tn_tensor_forget(const tenon_tensor_t *tensor);

/* Copies elements of the same dtype and shape, any strides on both sides (strings: host texts are
 * duplicated into `to`, which owns its texts; lists: item by item).  Does not overlap.  Uses the
 * parallel-for for large ones. */
tenon_status_t tn_tensor_copy_into(const tenon_tensor_t *from, tenon_tensor_t *to);
/* Puts a copy of the text in a string element whose old text is freed. */
tenon_status_t tn_string_set(tenon_tensor_t *tensor, int64_t index, const char *data,
                             uint64_t size);

#endif
