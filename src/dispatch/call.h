/* Calls inside libtenon: the same three entries as tenon.h, for a frame's own use. */
#ifndef TN_DISPATCH_CALL_H
#define TN_DISPATCH_CALL_H

#include "dispatch/frame.h"
#include "dispatch/infer.h"
#include "dispatch/result.h"

/* Runs through the table: `frame` is filled in here.  Outputs have memory, or are UNSET where run
 * makes it. */
tenon_status_t tn_dispatch(const tenon_op_t *op, tn_frame_t *frame, const tenon_value_t *attrs,
                           tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs,
                           const tenon_random_t *random);
/* A slot (a result that is UNSET) becomes that tensor: shares its memory where that can be kept
 * alive, else copies. */
tenon_status_t tn_slot_take(tenon_tensor_t *slot, tenon_tensor_t *tensor);
/* The same of a fresh tensor, which is not used any more; UNSET: the slot only learns its dtype. */
tenon_status_t tn_slot_become(tenon_tensor_t *slot, tenon_tensor_t *fresh);
/* call, with the caller's state (NULL: the operator's own by attribute values).  Outputs that are
 * NULL and wanted are made. */
tenon_status_t tn_call(const tenon_op_t *op, const tenon_value_t *attrs,
                       tenon_tensor_t *const *inputs, tenon_tensor_t **outputs, uint64_t wanted,
                       const tenon_random_t *random);
/* run, call into and call with a state of the caller's. */
tenon_status_t tn_run_with(const tenon_op_t *op, const tenon_value_t *attrs, void *state,
                           tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs);
tenon_status_t tn_call_into_with(const tenon_op_t *op, const tenon_value_t *attrs, void *state,
                                 tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs);
tenon_status_t tn_call_with(const tenon_op_t *op, const tenon_value_t *attrs, void *state,
                            tenon_tensor_t *const *inputs, tenon_tensor_t **outputs,
                            uint64_t wanted);
/* tenon_op_call_add: add.c.  `bits`: of results that are added. */
tenon_status_t tn_call_add_with(const tenon_op_t *op, const tenon_value_t *attrs, void *state,
                                tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs,
                                uint64_t bits);
/* Runs through the table, past no layer but the trace, to tn_slot_add where tn_slot_run would run a
 * slot of kernels.  Arguments fit, and attrs are there. */
tenon_status_t tn_dispatch_adding(const tenon_op_t *op, const tenon_value_t *attrs, void *state,
                                  tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs,
                                  uint64_t add);
tenon_status_t tn_slot_add(tenon_call_t *call);
/* Takes `draws` numbers from the thread's generator, else the device's: generator.c. */
tenon_random_t tn_random_take(tenon_device_t device, int64_t draws);
void tn_generators_clear(void); /* at shutdown: those of devices are as at the start */

/* The state for these attribute values, made on first use and kept with the operator: state.c. */
tenon_status_t tn_state_get(const tenon_op_t *op, const tenon_value_t *attrs, void **out_state);
/* The state, for the operator that took the place of its own, of the bound call whose state it is;
 * NULL: of no bound call.  Made once. */
tenon_status_t tn_bound_renew(const tenon_op_t *op, void **state);
/* The bound call that has this state, one more reference: tenon_bound_release.  NULL: it is an
 * operator's own. */
struct tenon_bound_t *tn_bound_retain(const void *state);
/* Calls create; the values must live as long as the state. */
tenon_status_t tn_state_create(const tenon_op_t *op, const tenon_value_t *attrs, void **out_state);
/* Holds what values refer to (tensors, graphs) and lets it go. */
void tn_values_retain(const tenon_value_t *values, uint32_t count);
void tn_values_release(const tenon_value_t *values, uint32_t count);
void tn_states_release(tenon_op_t *op);

/* Drivers of loop and row kernels: loop.c, row.c. */
tenon_status_t tn_loop_run(tenon_call_t *call);
tenon_status_t tn_row_run(tenon_call_t *call);
/* Where a call runs: the device of the first argument that is not on the CPU, else of a device
 * attribute, else the thread's. */
tenon_device_t tn_call_device(const tenon_call_t *call);
tenon_device_t tn_device_of(const tenon_op_t *op, const tenon_value_t *attrs,
                            tenon_tensor_t *const *inputs);
/* How deep calls may be nested in calls that composites, layers and modes make; past that one of
 * them calls itself. */
enum { TN_NESTING_MOST = 200 };
tenon_status_t tn_nested_too_deep(const tenon_op_t *op);
/* Runs the slot that the frame has. */
tenon_status_t tn_slot_run(tenon_call_t *call);
/* The same of a slot that runs no unloadable code, or whose gate was passed.  A kernel that is
 * reached past the layers of layouts (by fallthrough, from a fallback, with other arguments than
 * the call began with) gets dense and plain tensors all the same. */
tenon_status_t tn_layer_below(tenon_call_t *call);
/* Until tn_slot_leave its code and texts are not unloaded.  The frame's slot may have become
 * another one. */
const tn_slot_t *tn_slot_enter(tenon_call_t *call);
void tn_slot_leave(const tn_slot_t *slot);
/* Passes a call on to the highest of these keys, or to what is below the one that runs now.  Thread
 * state is not read again. */
tenon_status_t tn_redispatch(tenon_call_t *call, uint64_t keys);
tenon_status_t tn_layer_chain(tenon_call_t *call); /* layers of users at one anchor: layers.c */
tenon_status_t tn_layer_mode(tenon_call_t *call);
tenon_status_t tn_layer_trace(tenon_call_t *call);
tn_mutex_t *tn_registrations_mutex(void); /* held over a fork, as those of others: start.c */
tn_mutex_t *tn_layers_mutex(void);
tn_mutex_t *tn_states_mutex(void);
void tn_fallback_start(void);      /* reads the environment */
void tn_layers_clear(void);        /* at shutdown */
void tn_registrations_clear(void); /* at shutdown, after the registry */
/* Slots that several operators share: layer.c. */
tenon_status_t tn_layer_missing(tenon_call_t *call);
tenon_status_t tn_layer_denied(tenon_call_t *call);
tenon_status_t tn_layer_ambiguous(tenon_call_t *call);
tenon_status_t tn_layer_meta(tenon_call_t *call);
tenon_status_t tn_layer_others(tenon_call_t *call);
tenon_status_t tn_layer_autograd_others(tenon_call_t *call);
tenon_status_t tn_layer_fallthrough(tenon_call_t *call);
tenon_status_t tn_layer_layout(tenon_call_t *call);
tenon_status_t tn_layer_autocast(tenon_call_t *call); /* autocast.c */
tenon_status_t tn_layer_autocast_listed(tenon_call_t *call);
void tn_autocast_clear(void); /* at shutdown */
tenon_status_t
tn_layer_moved(tenon_call_t *call); /* of an operator that another took the place of */
tenon_status_t tn_layer_prologue(tenon_call_t *call);
tenon_status_t tn_layer_view(tenon_call_t *call);
tenon_status_t tn_layer_versions(tenon_call_t *call);
/* The slot that the frame's keys lead to now. */
const tn_slot_t *tn_slot_again(tenon_call_t *call);
tenon_status_t tn_layer_gradient(tenon_call_t *call);
/* What makes history of calls, gives `copy` (a dense copy that a call made for itself) or a slot
 * the history of the tensor that it stands for, and gets to know of each view: src/autograd sets
 * them when the runtime starts. */
typedef struct tn_autograd_t {
  tenon_run_fn record;
  tenon_status_t (*share)(tenon_tensor_t *from, tenon_tensor_t *copy);
  tenon_status_t (*view)(tenon_tensor_t *of, tenon_tensor_t *view);
} tn_autograd_t;
extern tn_autograd_t tn_autograd;
/* A line for each operator whose counts, at this offset of its record, are not zero. */
tenon_status_t tn_copies_report(size_t offset, char **out_text);
/* What is left to do for a kernel that was chosen: state, workspace, and the call. */
tenon_status_t tn_kernel_serve(tenon_call_t *call, const tn_kernel_t *kernel);
/* Runs a kernel of a device that has a plug-in: launch.c. */
tenon_status_t tn_launch(const tn_kernel_t *kernel, tenon_call_t *call);
/* The run of a slot whose kernels are a device's, for operators that allow it: in place of
 * tn_layer_prologue. */
tenon_status_t tn_launch_directly(tenon_call_t *call);
bool tn_launches_directly(const tenon_op_t *op, const tn_slot_t *slot);
/* What became of a launch: a SOURCE function that gave UNIMPLEMENTED leaves the call to the
 * backend's fallback. */
tenon_status_t tn_launch_declined(const tn_kernel_t *kernel, tenon_call_t *call,
                                  tenon_status_t status);
/* A word of the kernel for what the device has not of its needs; NULL: it has all. */
struct tn_ordinal_t;
const char *tn_kernel_lacks(const tn_kernel_t *kernel, const struct tn_ordinal_t *ordinal);
/* Runs a kernel whose inputs are in order: makes dense what must be dense, then calls it. */
tenon_status_t tn_kernel_call(const tn_kernel_t *kernel, tn_frame_t *frame);

#endif
