/* Arguments of the calls in gradient formulas, for those who evaluate formulas: the tape, which
 * calls operators, and graphs, which get nodes. */
#ifndef TN_OPERATOR_GRADIENT_CALL_H
#define TN_OPERATOR_GRADIENT_CALL_H

#include "operator/op.h"

/* The call of an operator, or its node in a graph, whose gradient is computed. */
typedef struct tn_differentiated_t {
  const tenon_op_t *op;
  const tenon_value_t *attrs;
} tn_differentiated_t;

/* Finds the operator that a formula calls. */
tenon_status_t tn_gradient_callee(const tn_differentiated_t *of, const tn_gradient_value_t *call,
                                  const tenon_op_t **out_op);
/* Finds the argument of `op` to which a formula passes `value`. `place` is the number of arguments
 * that were passed by position before. */
tenon_status_t tn_gradient_target(const tn_differentiated_t *of, const tenon_op_t *op,
                                  const tn_gradient_value_t *value, uint32_t *place,
                                  const tn_argument_t **out_target);
/* Computes the value of an attribute of `op`. *out_value keeps its value, the default, where the
 * attribute that is passed on is absent. */
tenon_status_t tn_gradient_attr(const tn_differentiated_t *of, const tenon_op_t *op,
                                const tn_argument_t *attr, const tn_gradient_value_t *value,
                                tn_arena_t *arena, tenon_value_t *out_value);
/* Creates a tensor from a number or a list of numbers, for an input that is given by a literal or
 * an attribute; a float has the dtype `float_dtype`. A tensor is retained; an absent value gives
 * NULL. */
tenon_status_t tn_gradient_tensor(const tenon_value_t *value, tenon_dtype_t float_dtype,
                                  tenon_tensor_t **out_tensor);
/* Checks that the call has all its inputs, of which `is_given` tells which are there. */
tenon_status_t tn_gradient_inputs(const tn_differentiated_t *of, const tenon_op_t *op,
                                  const bool *is_given);
/* Writes a number in this dtype, which is a float. */
void tn_put_float(double value, tenon_dtype_t dtype, void *to);

#endif
