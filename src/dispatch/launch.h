/* Calls of kernels on devices of plug-ins. */
#ifndef TN_DISPATCH_LAUNCH_H
#define TN_DISPATCH_LAUNCH_H

#include "operator/frame.h"

/* Runs a kernel of a device that has a plug-in. */
tenon_status_t tn_launch(const tn_kernel_t *kernel, tenon_call_t *call);
/* The run of an entry whose kernels are a device's, for operators that allow it: in place of the
 * prologue. */
tenon_status_t tn_launch_directly(tenon_call_t *call);
/* A word of the kernel for what the device lacks of its needs; NULL: the device has all. */
struct tn_ordinal_t;
const char *tn_kernel_lacks(const tn_kernel_t *kernel, const struct tn_ordinal_t *ordinal);
/* Registers what the table runs for them. */
void tn_launch_install(void);

#endif
