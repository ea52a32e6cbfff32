/* How much arithmetic and memory traffic a call of an operator is. Profiles show it beside the
 * time, and the placement on devices estimates times from it. */
#ifndef TN_OPERATOR_WORK_H
#define TN_OPERATOR_WORK_H

#include "operator/op.h"

/* What the amount of work depends on. Extents are numbers with a fraction, because those of a graph
 * may be estimates. */
typedef struct tn_size_t {
  int32_t ndim;
  double element; /* bytes of an element; 0: the operand is absent */
  double count;   /* elements */
  double first;   /* extents of axes; 1 if there is no such axis */
  double before_last;
  double last;
} tn_size_t;

typedef struct tn_work_t {
  double bytes;      /* read and written */
  double operations; /* multiplications and additions; 0: unknown */
} tn_work_t;

/* A size is made of a scalar, to which extents are added, the first axis first. */
tn_size_t tn_size_of_scalar(tenon_dtype_t dtype);
void tn_size_add_axis(tn_size_t *size, double extent);
double tn_size_bytes(const tn_size_t *size);
tn_size_t tn_size_of_tensor(const tenon_tensor_t *tensor); /* NULL: an absent operand */
/* The work of an operator whose operands have these sizes: op->input_count inputs, then
 * op->output_count outputs. A list counts as one operand, whose bytes are those of its items. */
tn_work_t tn_work_of(const tenon_op_t *op, const tn_size_t *sizes);
/* The work of a call with these arguments and results. */
tn_work_t tn_work_of_tensors(const tenon_op_t *op, tenon_tensor_t *const *inputs,
                             tenon_tensor_t *const *outputs);

#endif
