/* The kernels of an operator: which of them suit an entry of its table, a dtype, and the arguments
 * of a call. */
#ifndef TN_OPERATOR_KERNEL_H
#define TN_OPERATOR_KERNEL_H

#include "operator/op.h"

/* Candidates for one dtype, best first, ended by NULL; each loop signature once, at its best
 * instruction set.  In scratch memory, so that taking kernels away needs no memory that may be
 * missing. */
const tn_kernel_t *const *tn_kernel_candidates(const tenon_op_t *op, const tn_backend_t *backend,
                                               int dtype);
/* How well a kernel suits the dtype that decides; 0: not at all. */
int tn_kernel_suits(const tenon_op_t *op, const tn_kernel_t *kernel, int dtype);
/* The first argument (inputs, then results) whose dtype a loop does not take; -1: it takes all. */
int32_t tn_kernel_refuses(const tenon_op_t *op, const tn_kernel_t *kernel,
                          tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs);
/* The index of the dtype that decides among kernels. */
int tn_deciding_dtype(const tenon_op_t *op, tenon_tensor_t *const *inputs);
/* May a call on that backend (NULL: any backend without kernels of its own) use this kernel? */
bool tn_kernel_is_of(const tn_kernel_t *kernel, const tn_backend_t *backend);
/* Can calls of the operator launch the kernels of this entry of a device without the prologue? */
bool tn_launches_directly(const tenon_op_t *op, const tn_table_entry_t *entry);
bool tn_kernel_is_quick(const tn_kernel_t *kernel);
/* The kernel of an entry for tensors of these dtypes; NULL: none (the caller reports
 * tn_op_missing). */
const tn_kernel_t *tn_entry_kernel(const tn_table_entry_t *entry, const tenon_op_t *op,
                                   tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs);
/* The operator's source kernel, which stands behind this kernel of a device; NULL: none. */
const tn_kernel_t *tn_entry_source(const tn_table_entry_t *entry, const tenon_op_t *op,
                                   const tn_kernel_t *kernel, tenon_tensor_t *const *inputs);
/* The kernel of the CPU's entry, for the dtypes of these tensors, or for one dtype. */
const tn_kernel_t *tn_op_kernel(const tenon_op_t *op, tenon_tensor_t *const *inputs,
                                tenon_tensor_t *const *outputs);
const tn_kernel_t *tn_op_kernel_of_dtype(const tenon_op_t *op, tenon_dtype_t dtype);
/* Refuses quantised and sparse arguments that the kernel does not say it looks at, by name.  kernel
 * NULL: the operator has no kernel that looks at any.  outputs NULL: there are none yet. */
tenon_status_t tn_op_check_details(const tenon_op_t *op, const tn_kernel_t *kernel,
                                   tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs);
/* The error of a call without a kernel: "ns::op: no kernel for npu and dtype f64; it has: ..." with
 * the table.  inspect/missing.c composes the text and sets this hook when the process starts. */
extern tenon_status_t (*tn_op_missing)(const tenon_op_t *op, const char *key,
                                       tenon_tensor_t *const *inputs);

#endif
