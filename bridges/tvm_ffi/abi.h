/* The binary interface of tvm-ffi, as far as Tenon uses it: values, objects, functions, and the
 * tensors of DLPack. The layouts are the same in every release from 0.1.0 on; the tests compare
 * them with the headers of the installed package. */
#ifndef BRIDGES_TVM_FFI_ABI_H
#define BRIDGES_TVM_FFI_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <tenon/op.h>

/* The kinds of a value. From FFI_OBJECT on, the value is a counted object. */
enum {
  FFI_NONE = 0,
  FFI_INT = 1,
  FFI_BOOL = 2,
  FFI_FLOAT = 3,
  FFI_POINTER = 4,
  FFI_DTYPE = 5,
  FFI_DEVICE = 6,
  FFI_TENSOR_VIEW = 7, /* a DLTensor, which the caller owns */
  FFI_TEXT = 8,        /* ends with a zero byte; only an argument may be one */
  FFI_BYTES_VIEW = 9,  /* an ffi_bytes_t; only an argument may be one */
  FFI_SMALL_TEXT = 11, /* at most 7 bytes, in the value itself */
  FFI_SMALL_BYTES = 12,
  FFI_OBJECT = 64,
  FFI_STRING = 65,
  FFI_BYTES = 66,
  FFI_ERROR = 67,
  FFI_FUNCTION = 68,
  FFI_SHAPE = 69,
  FFI_TENSOR = 70,
  FFI_ARRAY = 71,
  FFI_LIST = 75,
  FFI_DYNAMIC = 128, /* the first number that is given out by name */
};

/* What the deleter of an object does: it ends the contents, frees the memory, or both. */
enum {
  FFI_DELETE_CONTENTS = 1,
  FFI_DELETE_MEMORY = 2,
};

/* The start of every object. The low half of `count` counts references, the high half weak ones;
 * all strong references together hold one weak one. */
typedef struct ffi_object_t {
  uint64_t count;
  int32_t kind;
  uint32_t padding;
  void (*deleter)(void *self, int what); /* NULL: the object is never freed */
} ffi_object_t;
#define FFI_COUNT_ONE ((uint64_t)1 << 32 | 1)

typedef struct ffi_any_t {
  int32_t kind;
  uint32_t small_size; /* bytes of a small string; otherwise 0 */
  union {
    int64_t integer;
    double number;
    void *pointer;
    const char *text;
    ffi_object_t *object;
    tenon_dtype_t dtype;
    tenon_device_t device;
    char bytes[8];
  } as;
} ffi_any_t;

/* A function of a library, `__tvm_ffi_<name>`, or of a function object. Arguments are borrowed. The
 * result is NONE on entry, and the caller owns it. Returns 0, or -1 after an error was raised. */
typedef int (*ffi_call_fn)(void *self, const ffi_any_t *arguments, int32_t count,
                           ffi_any_t *result);

typedef struct ffi_bytes_t {
  const char *data;
  size_t size;
} ffi_bytes_t;

/* A tensor of DLPack: the start of tenon_tensor_t. */
typedef struct ffi_dltensor_t {
  void *data;
  tenon_device_t device;
  int32_t ndim;
  tenon_dtype_t dtype;
  int64_t *shape;
  int64_t *strides; /* in elements; NULL: row-major */
  uint64_t byte_offset;
} ffi_dltensor_t;

typedef struct ffi_managed_t {
  uint32_t major;
  uint32_t minor;
  void *context;
  void (*deleter)(struct ffi_managed_t *self);
  uint64_t flags;
  ffi_dltensor_t tensor;
} ffi_managed_t;
enum { FFI_MANAGED_READ_ONLY = 1 };

/* Creates a tensor like the prototype, whose `data` is not set. Returns 0, or calls `fail`. */
typedef int (*ffi_allocator_fn)(ffi_dltensor_t *prototype, ffi_managed_t **out_tensor,
                                void *context,
                                void (*fail)(void *context, const char *kind, const char *text));

/* objects */

typedef struct ffi_string_t {
  ffi_object_t head;
  ffi_bytes_t bytes;
} ffi_string_t;

typedef struct ffi_tensor_t {
  ffi_object_t head;
  ffi_dltensor_t tensor;
} ffi_tensor_t;

typedef struct ffi_shape_t {
  ffi_object_t head;
  const int64_t *data;
  size_t size;
} ffi_shape_t;

typedef struct ffi_array_t {
  ffi_object_t head;
  ffi_any_t *items;
  int64_t size;
  int64_t capacity;
  void (*free_items)(void *items); /* NULL: the items are part of the object */
} ffi_array_t;

typedef struct ffi_function_t {
  ffi_object_t head;
  ffi_call_fn call;
  void *cpp_call; /* a faster entry for C++, or NULL */
} ffi_function_t;

typedef struct ffi_error_t {
  ffi_object_t head;
  ffi_bytes_t kind; /* "ValueError" */
  ffi_bytes_t text;
  ffi_bytes_t backtrace;
  void (*update_backtrace)(void *self, const ffi_bytes_t *backtrace, int32_t mode);
  void *cause;
  void *extra;
} ffi_error_t;

_Static_assert(sizeof(ffi_object_t) == 24 && sizeof(ffi_any_t) == 16, "values and objects");
_Static_assert(offsetof(ffi_any_t, as) == 8 && offsetof(ffi_object_t, deleter) == 16, "fields");
_Static_assert(sizeof(ffi_dltensor_t) == 48, "tensors");
_Static_assert(sizeof(ffi_managed_t) == 80 && offsetof(ffi_managed_t, tensor) == 32, "DLPack");
_Static_assert(sizeof(ffi_array_t) == 56 && sizeof(ffi_error_t) == 96, "objects");
_Static_assert(offsetof(tenon_tensor_t, byte_offset) == offsetof(ffi_dltensor_t, byte_offset),
               "a tensor of Tenon begins with a DLTensor");

#endif
