/* Attributes of the node that is being lowered. Each function marks the attribute as read. `None`
 * counts as absent. */
#ifndef BRIDGES_MXNET_MODELS_ATTRIBUTE_H
#define BRIDGES_MXNET_MODELS_ATTRIBUTE_H

#include "lower.h"

const char *attr_text(lower_t *lower, const char *name, const char *otherwise);
int64_t attr_int(lower_t *lower, const char *name, int64_t otherwise);
double attr_float(lower_t *lower, const char *name, double otherwise);
bool attr_bool(lower_t *lower, const char *name, bool otherwise);
tenon_dtype_t attr_dtype(lower_t *lower, const char *name, tenon_dtype_t otherwise);
bool attr_is(lower_t *lower, const char *name, const char *value, const char *otherwise);
enum { INTS_MAX = 64 };
/* Reads "(1, None, 3)", "[2]" or "2" and returns the number of items; None becomes INT64_MIN.
 * Returns -1 if the attribute is absent. */
int32_t attr_ints(lower_t *lower, const char *name, int64_t values[INTS_MAX]);
/* Returns the text of such a list in the schema language. */
const char *attr_list(lower_t *lower, const int64_t *values, int32_t count);
/* Passes an attribute of the node to an argument of an operator. Returns false if the attribute is
 * absent or does not fit. */
bool attr_give(lower_t *lower, const char *name, const tenon_op_t *op, tenon_attrs_t *attrs,
               const char *argument);

#endif
