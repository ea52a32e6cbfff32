/* tenon/api/inspection.h: why a call reaches which kernel: dispatch tables, registrations, traces
 * and explanations (docs/dispatch.md).  Part of tenon/tenon.h. */
#ifndef TENON_API_INSPECTION_H
#define TENON_API_INSPECTION_H

#include <tenon/api/export.h>
#include <tenon/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- dispatch tables ------------------------------------------------------------------------- */

/* An entry of an operator's dispatch table: the computed kernel for one key.
 * Ownership: strings are valid as long as the operator and the kernel's library. */
typedef struct tenon_slot_info_t {
  uint32_t size;
  uint32_t is_missing;
  /* How the entry was resolved: "kernel", "composite explicit", "composite", "autograd",
   * "gradient", "fallback", "fallthrough", "view", "infer", "layer", "missing", "denied". */
  const char *rule;
  const char *kernel;       /* The first of several kernels by dtype; NULL: none. */
  const char *library;      /* NULL: no kernel. */
  uint64_t number;          /* The number of its registration, counted over the process; 0: none. */
  const char *library_path; /* "" for a library that is linked into the program. */
  /* The function of the kernel or the fallback, for tenon_function_source; NULL: no function of its
   * own. */
  tenon_any_fn function;
} tenon_slot_info_t;

/* Describes the entry for a key: "npu", "meta", "autograd npu", "view", ... */
TENON_API tenon_status_t tenon_op_slot(const tenon_op_t *op, const char *key,
                                       tenon_slot_info_t *info);

/* Describes the whole dispatch table: a line for each named backend and for each layer with an
 * effect.  A line states how the entry was resolved and, for each kernel, its library, the number
 * of its registration, the dtypes for which it is the first choice, and where its source is.
 *
 * Ownership: the caller frees *out_text. */
TENON_API tenon_status_t tenon_op_table(const tenon_op_t *op, char **out_text);

/* Finds the source location of a function of any library of the process: "/path/of/file.c:12".
 *
 * Errors: TENON_NOT_FOUND if the library has no debug information (-g1), or if libdw.so.1
 * (elfutils) is not installed.
 * Ownership: the caller frees *out_text. */
TENON_API tenon_status_t tenon_function_source(tenon_any_fn function, char **out_text);

/* Describes everything that is registered for an operator: its library; its kernels, the newest
 * first, whether the dispatch table uses them or not; and the keys that it ignores.
 *
 * Ownership: the caller frees *out_text. */
TENON_API tenon_status_t tenon_op_dump(const tenon_op_t *op, char **out_text);

/* Lists the kernels of all operators that are registered for exactly this key, one per line.
 *
 * Arguments: `key`: a backend, a layer, "autograd npu", or an alias.
 * Ownership: the caller frees *out_text. */
TENON_API tenon_status_t tenon_registrations(const char *key, char **out_text);

/* Returns 1 if a kernel that this processor can run is registered for exactly this key, which may
 * be an alias.
 *
 * Arguments: `key`: NULL: any key. */
TENON_API int32_t tenon_op_has_kernel(const tenon_op_t *op, const char *key);

/* Returns 1 if a call with this key would find something to run, however the entry was resolved. */
TENON_API int32_t tenon_op_has_computed_kernel(const tenon_op_t *op, const char *key);

/* Returns 1 if calls pass over this key. */
TENON_API int32_t tenon_op_is_fallthrough(const tenon_op_t *op, const char *key);

/* Computes the dispatch table of an operator again.
 *
 * Errors: TENON_INTERNAL if the table differed from the registrations; the message lists the wrong
 * entries, which are now correct. */
TENON_API tenon_status_t tenon_op_check(const tenon_op_t *op);

/* ---- traces and explanations ----------------------------------------------------------------- */

/* Prints calls to stderr, nested: the operator, its keys, the kernel, and why it was chosen.
 * Nested calls are indented.  For an operator without tensor arguments, the trace states where its
 * key comes from.
 *
 * Running threads show their next call.  The environment variable TENON_TRACE sets the initial
 * trace.
 *
 * Arguments: "dispatch", "args" and "time", separated by commas; NULL: off, at no cost.  As the
 * last word, "file=PATH" writes slices to this file instead, in the format of Perfetto
 * (ui.perfetto.dev) and Chrome (chrome://tracing), with a track for each thread.  The file is valid
 * JSON after each event, even if the process ends unexpectedly.  Calls in the child of a fork are
 * not included.
 * Errors: TENON_NOT_FOUND if the folder of the file does not exist, TENON_DENIED if the file cannot
 * be created for another reason.  If writing fails later, a message on stderr says so and the trace
 * ends. */
TENON_API tenon_status_t tenon_trace_set(const char *what);

/* Values of tenon_explain_set. */
enum {
  TENON_EXPLAIN_ONCE = 1, /* Once for each operator and reason. */
  TENON_EXPLAIN_ALL = 2   /* Each time. */
};

/* Prints to stderr, for each step of a call, which kernel was taken and why every other candidate
 * was not.  The environment variable TENON_EXPLAIN sets the initial value: 1 or all.
 *
 * Arguments: `how`: TENON_EXPLAIN_...; 0: off, at no cost. */
TENON_API tenon_status_t tenon_explain_set(int32_t how);

/* Explains the choice of a kernel, as tenon_explain_set does.
 *
 * Arguments: `key`: the key of the calls ("npu", "autograd npu"); `dtype`: the dtype of the
 * argument that decides; no bits: all dtypes.
 * Ownership: the caller frees *out_text. */
TENON_API tenon_status_t tenon_op_explain(const tenon_op_t *op, const char *key,
                                          tenon_dtype_t dtype, char **out_text);

#ifdef __cplusplus
}
#endif
#endif
