/* The objects that a call makes for its arguments: Tensor objects and arrays. */
#ifndef BRIDGES_TVM_FFI_HOSTED_OBJECTS_H
#define BRIDGES_TVM_FFI_HOSTED_OBJECTS_H

#include "module.h"

typedef struct objects_t {
  ffi_object_t **items; /* all objects of the call, each with a reference of its own */
  uint32_t count;
  uint32_t capacity;
  bool failed; /* memory ran out */
} objects_t;

/* Makes the value of an argument that needs an object. Returns false for any other argument. */
bool objects_take(objects_t *objects, const tenon_call_t *call, const argument_t *argument,
                  ffi_any_t *out);
/* Releases the objects.
 *
 * Returns: false if somebody still refers to a Tensor object. Its data are then NULL, because the
 * memory belongs to the caller. */
bool objects_release(objects_t *objects);

#endif
