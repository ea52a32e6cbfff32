/* Records what the kernel of a pointwise call launches on a device for one element, without
 * launching it. Called while an executable is compiled, by device_region_form.c. */
#ifndef TN_GRAPH_LAUNCH_RECORD_H
#define TN_GRAPH_LAUNCH_RECORD_H

#include "base/arena.h"
#include "device/fused.h"
#include "graph/executable.h"

/* The dtype and the number of axes of each operand; `ndim` -1: the operand is absent. */
typedef struct tn_record_operand_t {
  tenon_dtype_t dtype;
  int32_t ndim;
} tn_record_operand_t;

/* Calls the kernel of the step with tensors of one element. In out_member, the values of arguments
 * are positions among the operands: inputs, then results. What it points to is in `memory`.
 *
 * Returns: NULL, or as a predicate why the kernel cannot be part of another one. */
const char *tn_launch_record(const tn_step_t *step, const tn_kernel_t *kernel,
                             tn_ordinal_t *ordinal, tenon_device_t device,
                             const tn_record_operand_t *operands, tn_arena_t *memory,
                             tn_fused_member_t *out_member);

#endif
