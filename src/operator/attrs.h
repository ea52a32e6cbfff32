/* Checking the attributes of a call. */
#ifndef TN_OPERATOR_ATTRS_H
#define TN_OPERATOR_ATTRS_H

#include "operator/op.h"

/* Checks that the values, one for each attribute, have the kinds that the schema states, and that
 * the operator's own `validate` accepts them. */
tenon_status_t tn_attrs_check(const tenon_op_t *op, const tenon_value_t *values);

#endif
