/* Tensors that the host owns: a public view (op.h), a reference count, and shared storage. A view
 * that a caller keeps on its stack does not have the bit TN_TENSOR_OWNED and is never retained.
 * Invariant: the keys of a tensor always match its layout and backend. */
#ifndef TN_CORE_TENSOR_H
#define TN_CORE_TENSOR_H

#include <stdbool.h>
#include <tenon/op.h>

/* Bits of tenon_tensor_t.keys. The low bits are backends in the order of registration (bit 0:
 * CPU). */
#define TN_KEY_CPU ((uint64_t)1)
/* Key: not row-major. A layer makes the tensor dense for kernels that need that. */
#define TN_KEY_STRIDED ((uint64_t)1 << 48)
/* Key: quantised or sparse. For kernels that declare that they handle the detail. */
#define TN_KEY_DETAIL ((uint64_t)1 << 49)
#define TN_TENSOR_OWNED ((uint64_t)1 << 63) /* Not a key: this tensor is a tn_tensor_t. */
/* Not a key: an unallocated output, which the kernel resizes or assigns. */
#define TN_TENSOR_UNSET ((uint64_t)1 << 62)
/* Not a key: a dense copy that a call created for its own use. */
#define TN_TENSOR_COPY ((uint64_t)1 << 61)
/* Not a key: a header of a planned run, which denotes another value in the next run. What outlives
 * the run keeps a header of its own. No key has this bit, and the masks of operators clear it. */
#define TN_TENSOR_LENT ((uint64_t)1 << 47)

typedef struct tn_storage_t {
  int32_t references; /* atomic */
  /* on devices an address for pointer arithmetic only, as tn_address() returns it */
  void *data;
  uint64_t size;         /* bytes */
  int64_t string_count;  /* string tensors: number of elements; the strings are owned too */
  tenon_free_fn release; /* NULL: the caller owns the memory */
  void *context;
  bool is_file;      /* mapped from a file, never written to */
  bool is_file_copy; /* a copy of bytes of a mapped file, which `context` names: file_copy.h */
  bool is_read_only; /* declared by the owner */
  bool is_inference; /* created in inference mode: never takes part in autograd */
  bool is_own;       /* allocated with this header, so that no other storage has a byte of it */
  bool is_list;      /* `data` is an array of tensors, one reference to each of which is owned */
  uint64_t version;  /* atomic: number of calls that wrote to the memory */
} tn_storage_t;

typedef struct tn_tensor_t {
  tenon_tensor_t view;
  int32_t references; /* atomic */
  int32_t room_ndim;  /* axes for which `room` has space: shape, then strides */
  tn_storage_t *storage;
  /* tape state of this tensor (src/autograd); NULL: none */
  struct tn_history_t *history;
  /* the tensor of which this is a view, or the views of this tensor (src/autograd); NULL:
   * neither */
  struct tn_alias_t *alias;
  int64_t room[];
} tn_tensor_t;

/* Hooks that release a tensor's history, which may free other tensors, and its alias. Autograd sets
 * them. */
extern void (*tn_history_release)(struct tn_history_t *history);
extern void (*tn_alias_release)(struct tn_alias_t *alias);

/* Creates a list of the items of `list`, which may be a view on a stack, as may its items. Items
 * whose memory has an owner are shared; only others are copied. */
tenon_status_t tn_list_keep(const tenon_tensor_t *list, tenon_tensor_t **out_list);

/* Writes row-major strides. Returns true if the number of elements fits int64. */
bool tn_strides_dense(int32_t ndim, const int64_t *shape, int64_t *out_strides);
bool tn_is_dense(int32_t ndim, const int64_t *shape, const int64_t *strides);
/* Whether the elements occupy one run of memory without gaps or overlap, in any order of axes
 * (channels-last, for example). */
bool tn_is_packed(const tenon_tensor_t *tensor);
/* Number of elements; -1 if an extent is negative or the product overflows. */
int64_t tn_shape_count(int32_t ndim, const int64_t *shape);
/* Writes "[2, 3]" to out_text, cut with "..." if it does not fit. */
const char *tn_shape_print(int32_t ndim, const int64_t *shape, char *out_text, size_t capacity);
/* Devices whose memory has no flat addresses: `data` is a handle, and byte_offset is the tensor's
 * offset in the allocation. On other devices byte_offset is 0. Set when a device starts, read at
 * any time. */
void tn_device_set_handles(tenon_device_t device, bool has_handles);
bool tn_device_has_handles(tenon_device_t device);
/* The start of a tensor, for comparison and subtraction within one allocation. It must not be
 * dereferenced. */
static inline char *tn_address(const tenon_tensor_t *t) { return (char *)t->data + t->byte_offset; }
/* Moves the start of a tensor within its allocation. */
static inline void tn_address_set(tenon_tensor_t *t, char *address) {
  if (t->device.type != 1 && tn_device_has_handles(t->device))
    t->byte_offset = (uint64_t)(address - (char *)t->data);
  else
    t->data = address;
}
/* Sets the layout bits of `keys` from strides and detail; other bits stay. */
void tn_tensor_mark(tenon_tensor_t *tensor);

/* Creates an unallocated output: a header with room for `ndim` axes, data NULL, TN_TENSOR_UNSET. */
tenon_status_t tn_tensor_unset(tenon_dtype_t dtype, int32_t ndim, tenon_tensor_t **out_tensor);
/* Makes room for `ndim` axes in an owned header; shape and strides stay. */
tenon_status_t tn_tensor_room(tenon_tensor_t *tensor, int32_t ndim);
/* A view of the storage of `of`, which is retained. If `of` has no storage, the caller must keep
 * the memory as long as the view. */
tenon_status_t tn_tensor_view_of(tenon_tensor_t *of, tenon_dtype_t dtype, int64_t offset_bytes,
                                 int32_t ndim, const int64_t *shape, const int64_t *strides,
                                 tenon_tensor_t **out_tensor);
static inline bool tn_tensor_is_owned(const tenon_tensor_t *tensor) {
  return (tensor->keys & TN_TENSOR_OWNED) != 0;
}
/* Creates storage for memory that tensors share. If `release` and `data` are NULL, `size` bytes are
 * allocated directly after the storage header. */
tenon_status_t tn_storage_create(void *data, uint64_t size, tenon_free_fn release, void *context,
                                 tn_storage_t **out_storage);
void tn_storage_retain(tn_storage_t *storage);
void tn_storage_release(tn_storage_t *storage);
void tn_storage_drop(void *storage); /* the same, as a release function */
/* tn_tensor_version is the number of writes to the tensor's memory by calls that report them; 0 for
 * tensors without storage. tn_tensor_written counts one more and returns false if the memory is
 * read-only. */
static inline uint64_t tn_tensor_version(const tenon_tensor_t *tensor) {
  const tn_storage_t *storage =
      tn_tensor_is_owned(tensor) ? ((const tn_tensor_t *)tensor)->storage : NULL;
  return storage ? __atomic_load_n(&storage->version, __ATOMIC_RELAXED) : 0;
}
static inline bool tn_tensor_written(tenon_tensor_t *tensor) {
  tn_storage_t *storage = tn_tensor_is_owned(tensor) ? ((tn_tensor_t *)tensor)->storage : NULL;
  if (!storage) return true;
  /* of two concurrent increments one may be lost, but the number still changes */
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

/* Tells the system that nobody reads the elements soon: memory that can be read again from a file
 * is given back. */
void tn_tensor_forget(const tenon_tensor_t *tensor);

/* Copies the elements of a tensor of the same dtype and shape, with any strides on both sides.
 * Strings are duplicated and owned by `to`; lists are copied item by item. The tensors must not
 * overlap. Large copies use parallel-for. */
tenon_status_t tn_tensor_copy_into(const tenon_tensor_t *from, tenon_tensor_t *to);
/* Replaces a string element by a copy of `data`; the old string is freed. */
tenon_status_t tn_string_set(tenon_tensor_t *tensor, int64_t index, const char *data,
                             uint64_t size);

#endif
