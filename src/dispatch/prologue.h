/* Work before a kernel runs: makes inputs dense, refuses quantised tensors, provides state and
 * workspace. */
#ifndef TN_DISPATCH_PROLOGUE_H
#define TN_DISPATCH_PROLOGUE_H

#include "operator/frame.h"

/* The run function of entries with kernels that need more than a call of the kernel. */
tenon_status_t tn_layer_prologue(tenon_call_t *call);
/* Runs an entry whose code cannot be unloaded, or whose gate the call has passed. A call may reach
 * a kernel past the layers of layouts: by fallthrough, from a fallback, or with other arguments
 * than it began with. The kernel gets dense and plain tensors all the same. */
tenon_status_t tn_layer_below(tenon_call_t *call);
/* The run function of the layers of layouts: passes the call to the entry below. */
tenon_status_t tn_layer_layout(tenon_call_t *call);
/* The run function of the key that several backends share. */
tenon_status_t tn_layer_others(tenon_call_t *call);
/* Returns the entry that the frame's keys lead to now. */
const tn_table_entry_t *tn_entry_again(tenon_call_t *call);
/* Provides state and workspace for a kernel that was chosen, and calls it. */
tenon_status_t tn_kernel_serve(tenon_call_t *call, const tn_kernel_t *kernel);
/* Calls a kernel that has its state and workspace: first makes dense what must be dense. */
tenon_status_t tn_kernel_call(const tn_kernel_t *kernel, tn_frame_t *frame);
/* Handles the status of a launch. A kernel of a plug-in's device declines a call by UNIMPLEMENTED;
 * then the operator's source kernel serves, or if there is none, the backend's fallback. */
tenon_status_t tn_launch_declined(const tn_kernel_t *kernel, tenon_call_t *call,
                                  tenon_status_t status);
/* Registers the run functions of this unit with the table. */
void tn_prologue_install(void);

#endif
