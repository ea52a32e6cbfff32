/* The kernels of an operator: which of them suit an entry of its table, a dtype, and the arguments
 * of a call. */
#ifndef TN_OPERATOR_KERNEL_H
#define TN_OPERATOR_KERNEL_H

#include "operator/op.h"

/* Returns the candidates for one dtype, best first and ended by NULL. Each loop signature occurs
 * once, at its best instruction set. The list is in scratch memory, so that removing kernels needs
 * no memory that may be missing. */
const tn_kernel_t *const *tn_kernel_candidates(const tenon_op_t *op, const tn_backend_t *backend,
                                               int dtype);
/* Returns how well a kernel suits the dtype that decides; 0: not at all. */
int tn_kernel_suits(const tenon_op_t *op, const tn_kernel_t *kernel, int dtype);
/* Returns the first argument (inputs, then results) whose dtype a loop does not accept; -1: it
 * accepts all of them. */
int32_t tn_kernel_refuses(const tenon_op_t *op, const tn_kernel_t *kernel,
                          tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs);
/* Returns the index of the dtype that decides among the kernels. */
int tn_deciding_dtype(const tenon_op_t *op, tenon_tensor_t *const *inputs);
/* Returns whether a call on that backend (NULL: any backend without kernels of its own) may use
 * this kernel. */
bool tn_kernel_is_of(const tn_kernel_t *kernel, const tn_backend_t *backend);
/* Returns whether calls of the operator can launch the kernels of this device's entry without the
 * prologue. tn_kernel_is_quick answers for one kernel. */
bool tn_launches_directly(const tenon_op_t *op, const tn_table_entry_t *entry);
bool tn_kernel_is_quick(const tn_kernel_t *kernel);
/* Returns the kernel of an entry for tensors of these dtypes; NULL: none (the caller reports
 * tn_op_missing). */
const tn_kernel_t *tn_entry_kernel(const tn_table_entry_t *entry, const tenon_op_t *op,
                                   tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs);
/* Returns the operator's source kernel that follows this kernel of a device in the entry; NULL:
 * none. */
const tn_kernel_t *tn_entry_source(const tn_table_entry_t *entry, const tenon_op_t *op,
                                   const tn_kernel_t *kernel, tenon_tensor_t *const *inputs);
/* Return the kernel of the CPU's entry for the dtypes of these tensors, or for one dtype. */
const tn_kernel_t *tn_op_kernel(const tenon_op_t *op, tenon_tensor_t *const *inputs,
                                tenon_tensor_t *const *outputs);
const tn_kernel_t *tn_op_kernel_of_dtype(const tenon_op_t *op, tenon_dtype_t dtype);
/* Refuses quantised and sparse arguments, by name, if the kernel's words do not state that it
 * handles them. `kernel` NULL: the operator has no kernel that handles any. `outputs` NULL: there
 * are none yet. */
tenon_status_t tn_op_check_details(const tenon_op_t *op, const tn_kernel_t *kernel,
                                   tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs);
/* The error of a call without a kernel: "ns::op: no kernel for npu and dtype f64; it has: ..." with
 * the table.  inspect/missing.c composes the text and sets this hook when the process starts. */
extern tenon_status_t (*tn_op_missing)(const tenon_op_t *op, const char *key,
                                       tenon_tensor_t *const *inputs);

#endif
