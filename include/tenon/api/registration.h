/* tenon/api/registration.h: operators, kernels, stubs and fallbacks that a program registers
 * without a library.  Part of tenon/tenon.h. */
#ifndef TENON_API_REGISTRATION_H
#define TENON_API_REGISTRATION_H

#include <tenon/api/export.h>
#include <tenon/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A handle that undoes a registration.
 *
 * The registered functions find `context` in call->context.
 *
 * Ownership: the host calls destroy(context) once: at shutdown; or, if a bound call, a graph or an
 * executable still holds an operator then, with the last of them.  Until then, calls may still be
 * on their way to the functions.  If the registration fails, destroy is not called.
 * Threads: several threads may register and undo at the same time, while others make calls. */
typedef struct tenon_registration_t tenon_registration_t;

/* Flags of a registration.  Without flags, it is an error if a kernel for the same backend, dtypes
 * and instruction set exists already. */
enum {
  TENON_OVERRIDE = 1, /* Replaces such a kernel, which must exist. */
  TENON_PREFERRED = 2 /* Fallbacks: the fallback precedes decomposition into other operators. */
};

/* Registers operators, and kernels for existing operators.
 *
 *   static const tenon_item_t items[] = {
 *       TENON_OP("demo::twice(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"),
 *                TENON_SHAPES("out = x"), TENON_KERNEL("cpu", twice)), {0}};
 *
 * The host checks the items as it checks those of a library, and registers all of them or none.
 * After the registration is undone, the name is free again, and kernels that others added wait for
 * an operator of this name.  Handles of the operator (tenon_op_t) work until shutdown, with its own
 * kernels.
 *
 * Arguments: `items`: items of op.h that end with tag 0 (TENON_TAG_END): operators with "ns::name"
 * in the schema, and TENON_EXTEND.  `flags` apply to kernels for existing operators.
 * Ownership: items and texts are copied; groups (TENON_GROUP) must remain valid. */
TENON_API tenon_status_t tenon_op_add(const tenon_item_t *items, void *context,
                                      tenon_free_fn destroy, uint32_t flags,
                                      tenon_registration_t **out_registration);

/* Registers a kernel.
 *
 * The operator may be registered later; until then the kernel waits (see tenon_dangling).
 *
 * Arguments: `where`: the words of TENON_KERNEL: "npu f32", "autograd", "npu fallthrough" (`run` is
 * then NULL). */
TENON_API tenon_status_t tenon_kernel_add(const char *op, const char *where, tenon_run_fn run,
                                          void *context, tenon_free_fn destroy, uint32_t flags,
                                          tenon_registration_t **out_registration);

/* Registers the implementation of a stub, for a pointwise operator or a reduction
 * (tenon/iterator.h).  The host registers its parent kernel, which calls the stub with an iterator.
 *
 * Arguments: `where`: the words of TENON_STUB. */
TENON_API tenon_status_t tenon_stub_add(const char *op, const char *where, tenon_stub_fn stub,
                                        void *context, tenon_free_fn destroy, uint32_t flags,
                                        tenon_registration_t **out_registration);

/* Registers the function that runs where an operator has no kernel for a key.  Each key has at most
 * one fallback.
 *
 * Arguments: `key`: a backend; one of the layers view, autograd, autocast, functional; or the
 * gradients of one backend ("autograd npu"). */
TENON_API tenon_status_t tenon_fallback_add(const char *key, tenon_run_fn run, void *context,
                                            tenon_free_fn destroy, uint32_t flags,
                                            tenon_registration_t **out_registration);

/* Undoes a registration and restores what it replaced.  A second release has no effect.  Must not
 * be called after shutdown.
 *
 * Threads: other threads may make calls meanwhile; `context` stays valid, as described above. */
TENON_API void tenon_registration_release(tenon_registration_t *registration);

/* Lists the operators that kernels wait for, one per line, with the reason.
 *
 * Ownership: the caller frees *out_text. */
TENON_API tenon_status_t tenon_dangling(char **out_text);

/* ---- fallback to the CPU --------------------------------------------------------------------- */

/* The fallback to the CPU, for tenon_fallback_add, or for one operator with tenon_kernel_add.  It
 * copies the arguments to the CPU, runs the call there, and copies the written arguments back.  The
 * host counts the uses by operator. */
TENON_API tenon_status_t tenon_fallback_cpu(tenon_call_t *call);

/* Makes every fallback to the CPU an error (1) or not (0), as the environment variable
 * TENON_STRICT=1 does. */
TENON_API void tenon_strict_set(int32_t is_on);

/* Lists the operators that fell back to the CPU, one per line, with the number of calls and the
 * bytes copied.  If there were slow look-ups for backends named after 39 others, one more line
 * counts them.
 *
 * Ownership: the caller frees *out_text. */
TENON_API tenon_status_t tenon_fallback_report(char **out_text);

#ifdef __cplusplus
}
#endif
#endif
