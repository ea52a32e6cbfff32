/* Calls of kernels on devices of plug-ins. */
#ifndef TN_DISPATCH_LAUNCH_H
#define TN_DISPATCH_LAUNCH_H

#include "operator/frame.h"

/* Runs a kernel on a device that has a plug-in. */
tenon_status_t tn_launch(const tn_kernel_t *kernel, tenon_call_t *call);
/* The run function of an entry whose kernels are a device's. It replaces the prologue for operators
 * that allow it (tn_launches_directly). */
tenon_status_t tn_launch_directly(tenon_call_t *call);
/* Returns the kernel's word for a feature that it needs and the device lacks; NULL if the device
 * has all of them. */
struct tn_ordinal_t;
const char *tn_kernel_lacks(const tn_kernel_t *kernel, const struct tn_ordinal_t *ordinal);
/* Registers tn_launch_directly with the table. */
void tn_launch_install(void);

#endif
