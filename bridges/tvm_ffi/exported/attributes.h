/* The attributes of a call. */
#ifndef BRIDGES_TVM_FFI_EXPORTED_ATTRIBUTES_H
#define BRIDGES_TVM_FFI_EXPORTED_ATTRIBUTES_H

#include "operator.h"

typedef struct attributes_t {
  const tenon_value_t *values; /* NULL: all attributes have their defaults */
  tenon_attrs_t *attrs;        /* what the call releases; NULL: the thread keeps them */
} attributes_t;

/* Converts the attributes of a call. A thread keeps the last few sets of attributes, so that a call
 * with the same ones creates nothing.
 *
 * Arguments: `values`: by the attributes of the schema; NULL: not given.
 * Returns: 0; -1 after an error was raised. */
int attributes_take(const exported_t *exported, const ffi_any_t *const *values, attributes_t *out);
void attributes_release(const attributes_t *attributes);

#endif
