/* Operators of loaded libraries as operators of a model. */
#ifndef BRIDGES_MXNET_MODELS_CUSTOM_H
#define BRIDGES_MXNET_MODELS_CUSTOM_H

#include "lower.h"

/* Finds the operator of a loaded library that has this name in any namespace. Returns NULL if there
 * is none. If there are several, the lowering fails. */
const tenon_op_t *custom_find(lower_t *lower, const char *name);
void custom_lower(lower_t *lower, const tenon_op_t *op);

#endif
