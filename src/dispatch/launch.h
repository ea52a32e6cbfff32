/* Calls of kernels on devices of plug-ins. */
#ifndef TN_DISPATCH_LAUNCH_H
#define TN_DISPATCH_LAUNCH_H

#include <tenon/source.h>

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
/* A launch of a kernel that stands for several calls (device/fused.h). */
typedef struct tn_fused_launch_t {
  tenon_device_t device;
  const char *name; /* of the operator that a failure is blamed on */
  tenon_code_t *code;
  tenon_tensor_t *const *inputs; /* on the device */
  tenon_tensor_t *const *outputs;
  uint32_t input_count;
  uint32_t output_count;
  const void *bytes; /* the last argument */
  uint64_t byte_count;
  uint64_t elements;
} tn_fused_launch_t;
/* Compiles the kernel if it is not compiled yet. *out_compiled is false if that failed, and then
 * nothing was enqueued. */
tenon_status_t tn_launch_fused(const tn_fused_launch_t *launch, bool *out_compiled);
/* Registers tn_launch_directly with the table. */
void tn_launch_install(void);

#endif
