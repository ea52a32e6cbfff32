/* tenon/api/dispatch.h: how calls reach kernels: keys, layers and modes, precision, mixed devices
 * (docs/dispatch.md).  Part of tenon/tenon.h. */
#ifndef TENON_API_DISPATCH_H
#define TENON_API_DISPATCH_H

#include <tenon/api/export.h>
#include <tenon/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Dispatch keys lead a call to a kernel.  A key stands for a backend or for a layer, and layers
 * take precedence over backends.  Keys have names: "cpu", "meta" or the name of any backend; the
 * layers "layout", "view", "autograd", "autocast", "functional"; and positions for layers of the
 * program below and above some of them. */

/* ---- passing calls on ------------------------------------------------------------------------ */

/* Passes a call on to the next layer, mode or kernel.
 *
 * Only for functions that run as a layer, a mode, a kernel or a fallback, with the call they
 * received.  A function may replace call->inputs, outputs and attrs by arrays of its own, which the
 * next function sees; it must restore the fields before it returns. */
TENON_API tenon_status_t tenon_call_next(tenon_call_t *call);

/* Returns the name of the called operator: "ns::name". */
TENON_API const char *tenon_call_name(const tenon_call_t *call);

/* ---- layers and modes ------------------------------------------------------------------------ */

/* A layer of the program.  It receives the calls of all operators in threads that enabled it, and
 * answers them or passes them on.  It does not receive the nodes of executables that run on the CPU
 * alone.
 *
 * Threads: the function of a layer may be called by several threads at once. */
typedef struct tenon_layer_t tenon_layer_t;

/* Creates a layer.  At most 64 layers exist at a time, each with a name of its own.
 *
 * Arguments: `anchor`: "below view", "below autograd", "above autograd", "above autocast" or "above
 * functional".  Layers with the same anchor stand in the order of their names, the first one on
 * top, whatever the order of creation.  `run` finds `context` in call->context. */
TENON_API tenon_status_t tenon_layer_create(const char *name, const char *anchor, tenon_run_fn run,
                                            void *context, tenon_layer_t **out_layer);

/* Releases a layer, which must be disabled in all threads. */
TENON_API void tenon_layer_release(tenon_layer_t *layer);

/* Enables (1) or disables (0) a layer for calls of this thread, and of pool threads while they run
 * parts of its loops.  Other threads inherit nothing. */
TENON_API void tenon_layer_enable(const tenon_layer_t *layer, int32_t is_on);
TENON_API int32_t tenon_layer_is_enabled(const tenon_layer_t *layer);

/* Pushes a mode, a function that receives each call of this thread, above all layers.  Only the
 * modes below it receive the calls that it makes itself.  Pop modes in reverse order.
 *
 * Threads: thread-local. */
TENON_API tenon_status_t tenon_mode_push(tenon_run_fn run, void *context);
TENON_API void tenon_mode_pop(void);

/* ---- keys ------------------------------------------------------------------------------------ */

/* Returns the name of the key at a position, in ascending precedence; NULL if there is none.
 *
 * Arguments: `position`: 0 to 63. */
TENON_API const char *tenon_key_name(int32_t position);

/* Finds the position of a key by name: for "autograd npu" the position of autograd; for an alias
 * -1.
 *
 * Errors: TENON_NOT_FOUND. */
TENON_API tenon_status_t tenon_key_parse(const char *name, int32_t *out_position);

/* Returns the backend of a device, or NULL. */
TENON_API const char *tenon_key_for_device(tenon_device_t device);

/* Returns 1 if the name stands for several keys: "composite" (backends and their gradients),
 * "composite_explicit" (backends), "autograd" (gradients of every backend). */
TENON_API int32_t tenon_key_is_alias(const char *name);

/* Returns 1 if `name` is one of the keys that `alias` stands for.  A name that is not an alias
 * stands for itself. */
TENON_API int32_t tenon_key_in_alias(const char *name, const char *alias);

/* Describes the keys of a tensor, or of this thread if `tensor` is NULL: "{npu, layout}".
 *
 * Ownership: the caller frees *out_text. */
TENON_API tenon_status_t tenon_keys_of(const tenon_tensor_t *tensor, char **out_text);

/* Describes the keys that this thread includes in the key sets of its calls, and excludes from
 * them.
 *
 * Arguments: either may be NULL.
 * Ownership: the caller frees both texts. */
TENON_API tenon_status_t tenon_thread_keys(char **out_included, char **out_excluded);

/* Include a key in the key sets of this thread's calls, or exclude it, whatever the arguments.
 * Exclusion overrides inclusion.
 *
 * Threads: thread-local. */
TENON_API tenon_status_t tenon_key_include(const char *key, int32_t is_on);
TENON_API tenon_status_t tenon_key_exclude(const char *key, int32_t is_on);

/* ---- precision ------------------------------------------------------------------------------- */

/* Selects automatic precision for calls of this thread on a backend.
 *
 * Operators with a kernel text "autocast lower" run in `dtype`, those with "autocast f32" in f32.
 * For other operators, inputs that must have one dtype get the widest dtype among them.  f64,
 * integers and calls with given outputs are not affected.
 *
 * Arguments: `dtype`: f16 or bf16; no bits: off.
 * Threads: thread-local. */
TENON_API tenon_status_t tenon_autocast_set(const char *backend, tenon_dtype_t dtype);

/* Returns the dtype of tenon_autocast_set; no bits: off. */
TENON_API tenon_dtype_t tenon_autocast_get(const char *backend);

/* ---- host tensors in calls on a device ------------------------------------------------------- */

/* Policies for host tensors among the arguments of a call on a device.
 *
 * A host tensor without axes is always accepted: a kernel with the word "scalars" receives it as it
 * is, otherwise it is copied.  The policy decides on other host tensors.  Tensors on two devices
 * are an error.  @host arguments are read in host memory and do not count.  The policy of a call
 * takes precedence over that of its operator, and this over that of the thread.  The host counts
 * the copies by operator. */
enum {
  TENON_MIXED_ERROR = 1, /* They are an error.  The default. */
  TENON_MIXED_MOVE = 2   /* Each call copies them to the device, and copies back what it wrote. */
};

/* Sets the policy for calls of this thread, and of threads that work for it.
 *
 * Arguments: 0: the default. */
TENON_API tenon_status_t tenon_mixed_set(int32_t policy);

/* Sets the policy for calls of an operator by all threads.
 *
 * Arguments: 0: the policy of the thread. */
TENON_API tenon_status_t tenon_op_mixed_set(const tenon_op_t *op, int32_t policy);

/* As tenon_op_call, with a policy for this call and the calls that it makes. */
TENON_API tenon_status_t tenon_op_call_mixed(const tenon_op_t *op, const tenon_value_t *attrs,
                                             tenon_tensor_t *const *inputs,
                                             tenon_tensor_t **outputs, uint64_t wanted,
                                             int32_t policy);

/* Lists the operators whose arguments were copied, one per line, with the number of copies and the
 * bytes.
 *
 * Ownership: the caller frees *out_text. */
TENON_API tenon_status_t tenon_move_report(char **out_text);

#ifdef __cplusplus
}
#endif
#endif
