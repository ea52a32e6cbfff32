/* Arguments that are not all on one device (docs/dispatch.md), for kernels of backends and for
 * fallbacks. */
#ifndef TN_DISPATCH_MIXED_H
#define TN_DISPATCH_MIXED_H

#include "operator/frame.h"

/* Returns whether arguments are on two devices, or on a device and in host memory, or @host
 * arguments are not in host memory. */
bool tn_is_mixed(const tenon_call_t *call);
/* Runs a kernel of a backend with such arguments, or reports why it cannot. Host arguments that may
 * be moved are copied to the device. */
tenon_status_t tn_mixed_run(tenon_call_t *call, const tn_kernel_t *kernel);
/* Makes the same decision for a fallback, where host tensors can stay where they are. */
tenon_status_t tn_mixed_check(tenon_call_t *call);
/* Reports which @host arguments are on a device. */
tenon_status_t tn_mixed_absent(const tenon_op_t *op, tenon_tensor_t *const *inputs);
/* The error for arguments on several devices: "x on npu:0, y on gpu:0; move them to one". */
tenon_status_t tn_mixed_ambiguous(const tenon_call_t *call);

/* These two functions enclose the calls that a composite (NULL: a gradient) makes. Tensors that the
 * composite creates itself are in host memory; the enclosed calls move such tensors to the device
 * of the other arguments. Fails if the composite's own arguments are mixed and may not be. */
tenon_status_t tn_mixed_begin_parts(const tenon_call_t *call, int32_t *out_before);
void tn_mixed_end_parts(int32_t before);

/* Writes a line for each operator whose counts are not zero. `offset` is the offset of the counts
 * in struct tenon_op_t. */
tenon_status_t tn_copies_report(size_t offset, char **out_text);

#endif
