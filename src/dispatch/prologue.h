/* What stands before kernels: making inputs dense, refusing quantised tensors, state, workspace. */
#ifndef TN_DISPATCH_PROLOGUE_H
#define TN_DISPATCH_PROLOGUE_H

#include "operator/frame.h"

/* The run of entries with kernels that need more than a call of the kernel. */
tenon_status_t tn_layer_prologue(tenon_call_t *call);
/* Runs an entry that runs no unloadable code, or whose gate was passed.  A kernel that is reached
 * past the layers of layouts (by fallthrough, from a fallback, with other arguments than the call
 * began with) gets dense and plain tensors all the same. */
tenon_status_t tn_layer_below(tenon_call_t *call);
/* The run of the layers of layouts: leads the call to the entry below. */
tenon_status_t tn_layer_layout(tenon_call_t *call);
/* The run of the key that several backends share. */
tenon_status_t tn_layer_others(tenon_call_t *call);
/* The entry that the frame's keys lead to now. */
const tn_table_entry_t *tn_entry_again(tenon_call_t *call);
/* What is left to do for a kernel that was chosen: state, workspace, and the call. */
tenon_status_t tn_kernel_serve(tenon_call_t *call, const tn_kernel_t *kernel);
/* Runs a kernel whose inputs are in order: makes dense what must be dense, then calls it. */
tenon_status_t tn_kernel_call(const tn_kernel_t *kernel, tn_frame_t *frame);
/* What became of a launch: a SOURCE function that returned UNIMPLEMENTED leaves the call to the
 * backend's fallback. */
tenon_status_t tn_launch_declined(const tn_kernel_t *kernel, tenon_call_t *call,
                                  tenon_status_t status);
/* Registers what the table runs for them. */
void tn_prologue_install(void);

#endif
