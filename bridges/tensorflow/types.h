/* The declared dtypes of an operator as attributes of a definition in TensorFlow. */
#ifndef BRIDGES_TENSORFLOW_TYPES_H
#define BRIDGES_TENSORFLOW_TYPES_H

#include "operator.h"

/* Sets the fields `type`, `set`, `dtype`, `is_types` and `defines_type` of all inputs and results
 * from the operator's TENON_TYPES. Inputs with one rule share an attribute, and results have the
 * attribute of their source. A result whose dtype only inference knows has an attribute of its own.
 * Returns NULL, or why TensorFlow cannot have the operator. */
const char *types_read(operator_t *self, const char *types);

#endif
