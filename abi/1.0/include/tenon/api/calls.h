/* tenon/api/calls.h: calling operators.  Part of tenon/tenon.h. */
#ifndef TENON_API_CALLS_H
#define TENON_API_CALLS_H

#include <tenon/api/export.h>
#include <tenon/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- operators ------------------------------------------------------------------------------- */

/* All calls take one entry in `inputs` for each tensor argument of the schema (NULL: omitted) and
 * one entry in `outputs` for each result.  `attrs` comes from tenon_attrs_values; NULL:
 * defaults. */

/* All calls, except for outputs of tenon_op_run and tenon_bound_run, protect arguments that share
 * memory.  An input that an output or a written input overlaps in any way is read as it was before
 * the call: the host copies it, unless TENON_REUSE, or a loop or stub of a pointwise operator,
 * overwrites it in exactly the same place.  TENON_INVALID, with both names, if two outputs, an
 * output and a written input, or two written inputs share memory, or if the parts of a sparse or
 * quantised input would be overwritten; TENON_PRECONDITION if two elements of one of them share
 * memory.  Executables treat inputs and given outputs in the same way. */

/* Calls an operator with outputs that are known to fit, because an earlier tenon_op_call_into
 * accepted them.  Performs no checks.  Takes no locks and allocates nothing, except for what the
 * kernel needs: a state, a workspace, dense copies, the lock of a "serial" kernel.  Outputs that
 * share memory with other arguments give undefined values; written inputs are kept apart as
 * above. */
TENON_API tenon_status_t tenon_op_run(const tenon_op_t *op, const tenon_value_t *attrs,
                                      tenon_tensor_t *const *inputs,
                                      tenon_tensor_t *const *outputs);

/* Calls an operator with outputs of the caller, after inferring and checking dtypes and shapes.
 *
 * Arguments: `outputs`: NULL for an optional result that is not wanted. */
TENON_API tenon_status_t tenon_op_call_into(const tenon_op_t *op, const tenon_value_t *attrs,
                                            tenon_tensor_t *const *inputs,
                                            tenon_tensor_t *const *outputs);

/* Calls an operator and creates the outputs that are NULL.
 *
 * Arguments: `wanted`: bit i: results[i] is wanted; 0: all results.
 * Ownership: the caller releases the created outputs. */
TENON_API tenon_status_t tenon_op_call(const tenon_op_t *op, const tenon_value_t *attrs,
                                       tenon_tensor_t *const *inputs, tenon_tensor_t **outputs,
                                       uint64_t wanted);

/* Calls an operator and adds results to the contents of given outputs.
 *
 * A kernel with the word "accumulates" adds while it computes, and may round differently.
 * Otherwise the host computes all results first, and then adds them with calls of core::add, on any
 * device.  Layers, modes and gradients always see these calls.
 *
 * Arguments: `add`: bit i: add results[i] to outputs[i]; other results overwrite their output.  An
 * output NULL is not wanted: an optional result is not computed, another one is computed and
 * dropped.  An output to add to may be dense or strided and has a dtype that core::add supports; it
 * is no view, input, list, sparse or quantised tensor.  Inputs may overlap it: the operator reads
 * their old contents.
 * Errors: those of tenon_op_call_into; TENON_INVALID for an unsuitable output, or for a bit without
 * an output.  After an error the outputs to add to are unchanged, unless core::add itself fails, or
 * a kernel that accumulates fails while it adds.
 * Threads: any thread. */
TENON_API tenon_status_t tenon_op_call_add(const tenon_op_t *op, const tenon_value_t *attrs,
                                           tenon_tensor_t *const *inputs,
                                           tenon_tensor_t *const *outputs, uint64_t add);

/* As tenon_op_call, with inputs and attributes in one array.
 *
 * Arguments: `values`: one value for each tensor argument (TENON_KIND_TENSOR, or TENON_KIND_TENSORS
 * for a list), then one for each attribute, in the schema's order.  A value of kind NONE, or beyond
 * `count`, stands for an omitted argument or for the default. */
TENON_API tenon_status_t tenon_op_call_values(const tenon_op_t *op, const tenon_value_t *values,
                                              uint32_t count, tenon_tensor_t **outputs,
                                              uint64_t wanted);

/* ---- bound operators ------------------------------------------------------------------------- */

/* An operator bound to attributes and to a state of its own.
 *
 * This is the fast way to call operators that have a state, or that have no tensor arguments,
 * without a graph.  Calls without a bound operator look up the state of their attributes and share
 * it.
 *
 * Ownership: it holds the operator's library, or what a program registered.
 * Threads: several threads may call it at the same time, as far as the operator's state allows
 * ("serial" kernels run one after the other). */
typedef struct tenon_bound_t tenon_bound_t;

/* Binds an operator.
 *
 * Arguments: `attrs`: from tenon_attrs_values; NULL: defaults.
 * Ownership: `attrs` are copied. */
TENON_API tenon_status_t tenon_bound_create(const tenon_op_t *op, const tenon_value_t *attrs,
                                            tenon_bound_t **out_bound);

/* Binds an operator to one device.
 *
 * Where no tensor determines the device of a call, the call runs on this device, whatever the
 * thread's default device is; a device attribute of the operator takes this device.  Tensors on
 * other devices are an error. */
TENON_API tenon_status_t tenon_bound_create_on(tenon_device_t device, const tenon_op_t *op,
                                               const tenon_value_t *attrs,
                                               tenon_bound_t **out_bound);
TENON_API void tenon_bound_release(tenon_bound_t *bound);

/* As tenon_op_run, tenon_op_call_into, tenon_op_call_add and tenon_op_call. */
TENON_API tenon_status_t tenon_bound_run(tenon_bound_t *bound, tenon_tensor_t *const *inputs,
                                         tenon_tensor_t *const *outputs);
TENON_API tenon_status_t tenon_bound_call_into(tenon_bound_t *bound, tenon_tensor_t *const *inputs,
                                               tenon_tensor_t *const *outputs);
TENON_API tenon_status_t tenon_bound_call_add(tenon_bound_t *bound, tenon_tensor_t *const *inputs,
                                              tenon_tensor_t *const *outputs, uint64_t add);
TENON_API tenon_status_t tenon_bound_call(tenon_bound_t *bound, tenon_tensor_t *const *inputs,
                                          tenon_tensor_t **outputs, uint64_t wanted);

#ifdef __cplusplus
}
#endif
#endif
