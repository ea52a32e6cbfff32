/* Arguments that are not all on one device (docs/dispatch.md), for kernels of backends and for
 * fallbacks. */
#ifndef TN_DISPATCH_MIXED_H
#define TN_DISPATCH_MIXED_H

#include "operator/frame.h"

/* Are there tensors on two devices, or on a device and in host memory, or @host ones that are not
 * there? */
bool tn_is_mixed(const tenon_call_t *call);
/* Runs a kernel of a backend with such arguments, or says why not: those of the host that may come
 * along are copied. */
tenon_status_t tn_mixed_run(tenon_call_t *call, const tn_kernel_t *kernel);
/* The same decision where the host's tensors can stay where they are: in a fallback. */
tenon_status_t tn_mixed_check(tenon_call_t *call);
/* Says which @host arguments are on a device. */
tenon_status_t tn_mixed_absent(const tenon_op_t *op, tenon_tensor_t *const *inputs);
/* "x on npu:0, y on gpu:0; move them to one". */
tenon_status_t tn_mixed_ambiguous(const tenon_call_t *call);

/* What a composite (NULL: a gradient) makes itself is on the host: calls of its parts, from here to
 * there, move that to where the others are, as long as its own arguments are not mixed, or may
 * be. */
tenon_status_t tn_mixed_begin_parts(const tenon_call_t *call, int32_t *out_before);
void tn_mixed_end_parts(int32_t before);

/* A line for each operator whose counts, at this offset of its record, are not zero. */
tenon_status_t tn_copies_report(size_t offset, char **out_text);

#endif
