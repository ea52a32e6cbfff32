/* tenon/api/gradients.h: automatic differentiation (docs/autograd.md).  Part of tenon/tenon.h. */
#ifndef TENON_API_GRADIENTS_H
#define TENON_API_GRADIENTS_H

#include <tenon/api/export.h>
#include <tenon/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Calls are recorded on a tape if an input requires a gradient, or was computed from a tensor that
 * does.  Backward traverses the tape.  Other calls have no overhead.  The tape belongs to its
 * tensors, and is freed with the last of them.  The gradient of a tensor has its dtype and shape.
 *
 * Threads: several threads may traverse different tapes at the same time.  One thread at a time may
 * traverse a tape, unless all of them keep it (TENON_GRAD_KEEP). */

/* ---- tensors --------------------------------------------------------------------------------- */

/* Makes a tensor a leaf, at which gradients accumulate, or (0) no longer a leaf.
 *
 * Arguments: `tensor`: created by the host, of a floating-point dtype, not a list.
 * Errors: the tensor was created in inference mode, or is computed from tensors that require a
 * gradient (call tenon_tensor_detach first). */
TENON_API tenon_status_t tenon_tensor_require_grad(tenon_tensor_t *tensor, int32_t is_on);

/* Returns 1 if the tensor is a leaf, or was computed from leaves by recorded calls. */
TENON_API int32_t tenon_tensor_requires_grad(const tenon_tensor_t *tensor);

/* Returns 1 if no recorded call computed the tensor. */
TENON_API int32_t tenon_tensor_is_leaf(const tenon_tensor_t *tensor);

/* Returns the accumulated gradient, or NULL.
 *
 * Ownership: lent, until the gradient is set or backward adds to it. */
TENON_API tenon_tensor_t *tenon_tensor_grad(const tenon_tensor_t *tensor);

/* Sets the gradient.
 *
 * Arguments: `grad`: of the same dtype and shape; NULL: no gradient, as before the first backward.
 * Ownership: `grad` is retained. */
TENON_API tenon_status_t tenon_tensor_grad_set(tenon_tensor_t *tensor, tenon_tensor_t *grad);

/* Makes backward keep the gradient of a tensor that is not a leaf, for tenon_tensor_grad. */
TENON_API tenon_status_t tenon_tensor_retain_grad(tenon_tensor_t *tensor);

/* Creates a tensor over the same memory that is not part of the tape. */
TENON_API tenon_status_t tenon_tensor_detach(tenon_tensor_t *tensor, tenon_tensor_t **out_tensor);

/* Returns how often calls wrote to the tensor's memory.
 *
 * Writes count by operators that declare them, and to the outputs given to tenon_op_call,
 * tenon_op_call_into and tenon_op_call_add.  Writes by tenon_op_run and tenon_executable_run to
 * given outputs, and by the program itself, do not count. */
TENON_API uint64_t tenon_tensor_version(const tenon_tensor_t *tensor);

/* ---- hooks ----------------------------------------------------------------------------------- */

/* A function that receives the complete gradient of a tensor before backward continues.  The hooks
 * of a tensor run in the order in which they were added.
 *
 * Arguments: *out_grad is NULL; the hook may set it to a replacement.
 * Ownership: the host takes over the reference in *out_grad. */
typedef tenon_status_t (*tenon_hook_fn)(void *context, tenon_tensor_t *grad,
                                        tenon_tensor_t **out_grad);
typedef struct tenon_hook_t tenon_hook_t;

/* Adds a hook to a tensor.
 *
 * Arguments: `out_hook`: NULL: the hook is never removed.
 * Ownership: the hook lives as long as the tensor's tape.  The host calls destroy(context) when the
 * hook is gone. */
TENON_API tenon_status_t tenon_tensor_hook(tenon_tensor_t *tensor, tenon_hook_fn function,
                                           void *context, tenon_free_fn destroy,
                                           tenon_hook_t **out_hook);

/* Adds a hook to a leaf, which runs after backward added to the gradient of the leaf.
 *
 * The hook receives the sum; *out_grad replaces it.  The hook may call tenon_tensor_grad_set, and
 * may update a weight. */
TENON_API tenon_status_t tenon_tensor_hook_sum(tenon_tensor_t *tensor, tenon_hook_fn function,
                                               void *context, tenon_free_fn destroy,
                                               tenon_hook_t **out_hook);

/* Removes a hook, and releases its handle. */
TENON_API void tenon_hook_remove(tenon_hook_t *hook);

/* ---- backward -------------------------------------------------------------------------------- */

/* Flags of tenon_backward and tenon_gradients. */
enum {
  TENON_GRAD_KEEP = 1,   /* Keeps the saved tensors, so that backward can run again. */
  TENON_GRAD_CREATE = 2, /* Records backward, so that gradients have gradients; implies KEEP. */
  /* tenon_gradients: an input that the outputs do not depend on gets NULL, and is not an error. */
  TENON_GRAD_UNUSED = 4
};

/* Computes the gradients of all leaves that the outputs were computed from, and adds them to the
 * gradients of the leaves.
 *
 * After an error, leaves may have received a part of their gradient, and the traversed part of the
 * tape is freed.
 *
 * Arguments: `grads`: gradients of the `count` outputs.  NULL, or grads[i] NULL: 1, for an output
 * with one element.  `flags`: TENON_GRAD_... */
TENON_API tenon_status_t tenon_backward(tenon_tensor_t *const *outputs,
                                        tenon_tensor_t *const *grads, int32_t count,
                                        uint32_t flags);

/* Computes the gradients of the given inputs, which may be leaves or not.  Nothing accumulates.
 *
 * Ownership: the caller releases out_grads[i]. */
TENON_API tenon_status_t tenon_gradients(tenon_tensor_t *const *outputs,
                                         tenon_tensor_t *const *grads, int32_t count,
                                         tenon_tensor_t *const *inputs, int32_t input_count,
                                         uint32_t flags, tenon_tensor_t **out_grads);

/* Calls an operator and computes the gradients of its inputs, for frameworks that keep the
 * arguments of a call instead of a tape.
 *
 * Arguments: `values`, `count`: as for tenon_op_call_values; the tensors in `wanted` were created
 * by the host, are different objects, and are no leaves, before and after the call.  `grads`: the
 * gradients of the results in `given` (bit o: result o), one for each item of a list.  If one of
 * them requires gradients, out_grads can be differentiated by it (tenon_gradients).  `wanted`: bit
 * i: compute the gradient of input i, one for each item of a list; absent inputs have none.
 * Returns: out_grads[k], in the order of the inputs: an input that the results do not depend on has
 * a gradient of zeros.
 * Errors: TENON_INVALID if `grad_count` or `out_count` differs from the number that follows from
 * the arguments; those of the call and of tenon_gradients.
 * Ownership: the caller releases out_grads[k]; all are NULL after an error.
 * Threads: any thread; the call is recorded even if the thread records no calls. */
TENON_API tenon_status_t tenon_op_gradients(const tenon_op_t *op, const tenon_value_t *values,
                                            uint32_t count, uint64_t given,
                                            tenon_tensor_t *const *grads, int32_t grad_count,
                                            uint64_t wanted, tenon_tensor_t **out_grads,
                                            int32_t out_count);

/* ---- modes of a thread ----------------------------------------------------------------------- */

/* Sets whether calls of this thread are recorded; initially they are.
 *
 * Returns: the previous value.
 * Threads: thread-local. */
TENON_API int32_t tenon_grad_mode_set(int32_t is_on);
TENON_API int32_t tenon_grad_mode_get(void);

/* Sets inference mode.  Nothing is recorded, and recorded calls can never use memory that was
 * created in this mode: that is an error.
 *
 * Returns: the previous value.
 * Threads: thread-local. */
TENON_API int32_t tenon_inference_mode_set(int32_t is_on);
TENON_API int32_t tenon_inference_mode_get(void);

/* Policies for calls of operators without a gradient. */
enum {
  TENON_GRAD_MISSING_ERROR = 1, /* Backward fails when it reaches the call.  The default. */
  TENON_GRAD_MISSING_WARN = 2,  /* Backward warns once on stderr and returns no gradient. */
  TENON_GRAD_MISSING_PASS = 3   /* Such calls are not recorded. */
};

/* Sets the policy for this thread, or for the process.
 *
 * Arguments: `policy`: 0, for a thread: that of the process. */
TENON_API tenon_status_t tenon_grad_missing_set(int32_t policy, int32_t is_process);
TENON_API int32_t tenon_grad_missing_get(void);

/* The policies as functions, for tenon_fallback_add("autograd", ...), for one backend ("autograd
 * npu"), or for one operator with tenon_kernel_add(op, "autograd", ...). */
TENON_API tenon_status_t tenon_grad_missing_error(tenon_call_t *call);
TENON_API tenon_status_t tenon_grad_missing_warn(tenon_call_t *call);
TENON_API tenon_status_t tenon_grad_missing_pass(tenon_call_t *call);

/* ---- differentiable functions ---------------------------------------------------------------- */

/* Argument of a function of the program that has a backward of its own. */
typedef struct tenon_function_call_t {
  uint32_t size;
  int32_t input_count;
  int32_t output_count;
  void *context;
  tenon_tensor_t *const *inputs; /* forward; its calls are not recorded. */
  tenon_tensor_t **outputs;      /* forward: set; the host takes over the references. */
  tenon_tensor_t *const *grads;  /* backward: gradient of each output; NULL: none. */
  /* backward: set for the inputs; the host takes over the references.  NULL: no gradient. */
  tenon_tensor_t **out_grads;
  /* Bit i: input i needs a gradient.  Bit 63: input 63 or a later one does. */
  uint64_t needs;
  void *host; /* Reserved for the host. */
} tenon_function_call_t;
typedef tenon_status_t (*tenon_function_fn)(tenon_function_call_t *call);

typedef struct tenon_function_t {
  uint32_t size;
  const char *name; /* For messages; copied. */
  tenon_function_fn forward;
  tenon_function_fn backward;
  void *context;
  /* The host calls destroy(context) once for each call, even if the call fails, when backward can
   * no longer run. */
  tenon_free_fn destroy;
} tenon_function_t;

/* Calls forward and records the call.
 *
 * Ownership: the caller releases outputs[i]. */
TENON_API tenon_status_t tenon_function_call(const tenon_function_t *function,
                                             tenon_tensor_t *const *inputs, int32_t input_count,
                                             tenon_tensor_t **outputs, int32_t output_count);

/* Saves a tensor in forward for backward.
 *
 * Arguments: `tensor`: an input, an output, or any other tensor; also NULL. */
TENON_API tenon_status_t tenon_function_save(tenon_function_call_t *call, tenon_tensor_t *tensor);

/* Returns in backward the index-th saved tensor.
 *
 * Errors: the memory of the tensor was written to since.
 * Ownership: the caller releases *out_tensor. */
TENON_API tenon_status_t tenon_function_saved(tenon_function_call_t *call, int32_t index,
                                              tenon_tensor_t **out_tensor);

/* ---- checking gradients ---------------------------------------------------------------------- */

typedef tenon_status_t (*tenon_gradient_fn)(void *context, tenon_tensor_t *const *inputs,
                                            tenon_tensor_t **outputs);

/* Options of tenon_gradient_check; 0 selects the default. */
typedef struct tenon_gradient_check_t {
  uint32_t size;
  uint32_t flags;   /* 0 */
  double step;      /* Step of the five-point differences; default 1e-3. */
  double tolerance; /* Relative to 1 + the difference; default 1e-7. */
} tenon_gradient_check_t;

/* Compares gradients with finite differences, for tests.
 *
 * Arguments: `function` computes `output_count` outputs from the inputs, and must return the same
 * each time.  Inputs that require a gradient are f64.
 * Errors: the message states the input, the element and both numbers. */
TENON_API tenon_status_t tenon_gradient_check(tenon_gradient_fn function, void *context,
                                              tenon_tensor_t *const *inputs, int32_t input_count,
                                              int32_t output_count,
                                              const tenon_gradient_check_t *options);

#ifdef __cplusplus
}
#endif
#endif
