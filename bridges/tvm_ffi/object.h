/* Objects of tvm-ffi: their reference counts, and those that Tenon makes. */
#ifndef BRIDGES_TVM_FFI_OBJECT_H
#define BRIDGES_TVM_FFI_OBJECT_H

#include <stdbool.h>

#include "abi.h"

void ffi_retain(ffi_object_t *object);
/* Releases a reference; NULL is allowed. The deleter of the object may run. */
void ffi_release(ffi_object_t *object);
/* Releases what a value refers to, and makes it NONE. */
void ffi_any_release(ffi_any_t *value);
/* Whether nobody but the caller refers to the object, strongly or weakly. */
bool ffi_is_sole(const ffi_object_t *object);

/* Allocates an object of `size` bytes, with one reference. The rest is zero. `end` ends the
 * contents; NULL: nothing to end.
 *
 * Returns: NULL when memory runs out. */
void *ffi_create(size_t size, int32_t kind, void (*end)(void *self));
/* Creates an array with room for `capacity` items, which belong to it. Its size is 0. */
ffi_array_t *ffi_array_create(int64_t capacity);
/* Creates a string, and makes `out` the value: in itself if the string is short. */
bool ffi_text_set(ffi_any_t *out, const char *text, size_t size);
/* The bytes of a string in any form; data is NULL if the value is not a string. A small string lies
 * in `value`. */
ffi_bytes_t ffi_text_get(const ffi_any_t *value);
/* The bytes of a string or of bytes, in any form. */
ffi_bytes_t ffi_bytes_get(const ffi_any_t *value);

#endif
