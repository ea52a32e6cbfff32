/* tenon/tvm_ffi.h: functions of tvm-ffi libraries as operators.  Implemented by the bridge
 * libtenon_tvm_ffi.so, which lies in the folder `bridges` of libtenon.
 *
 * A library that was built for tvm-ffi with metadata loads with tenon_library_load alone.  The
 * function below also loads libraries without metadata, and states what metadata cannot express:
 * names, defaults, shapes, and which arguments are results. */
#ifndef TENON_TVM_FFI_H
#define TENON_TVM_FFI_H

#include <tenon/tenon.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a function becomes an operator.  Zeroed fields mean the default. */
typedef struct tenon_tvm_ffi_function_t {
  uint32_t size;
  uint32_t reserved;
  const char *name; /* "add_one" for the symbol __tvm_ffi_add_one. */
  /* The operator: "add_one(Tensor x) -> Tensor", in the language of TENON_OP.  The default comes
   * from the metadata: arguments arg0, arg1, ..., results out or out0, out1, ... */
  const char *schema;
  /* The order in which the function takes its arguments, and the results that it writes to: "out,
   * x".  The other results are what the function returns.  "owned" precedes a tensor that the
   * function takes as a Tensor object, which metadata state too.  By default the arguments come in
   * the order of the schema.  The results follow them if metadata say so or, without metadata, if
   * `shapes` is set. */
  const char *arguments;
  /* As TENON_TYPES.  By default inputs may have any dtype, and results have that of the first
   * tensor. */
  const char *types;
  /* As TENON_SHAPES, for the results that the function writes to.  The shapes of other results are
   * known when the function has returned. */
  const char *shapes;
  const char *gradient; /* As TENON_GRADIENT. */
  const char *backends; /* Separated by spaces; by default "cpu cuda". */
  int64_t traits;       /* TENON_PURE | ... */
} tenon_tvm_ffi_function_t;

/* Loads a library of tvm-ffi functions as operators.
 *
 * The namespace is the name of the file without "lib", unless a schema states one.
 *
 * Arguments: `path`, `flags`, `out_library`: as for tenon_library_load; TENON_LOAD_ISOLATED is not
 * possible.  `functions`: the functions to take; `count` 0: all that have metadata.
 * Errors: those of tenon_library_load, with the message in tenon_error().  TENON_EXISTS if the file
 * is loaded already.  TENON_NOT_FOUND if the library does not export a function.  TENON_INVALID if
 * a declaration does not fit the function's metadata.
 * Ownership: nothing is kept of the arguments.
 * Threads: any thread. */
TENON_API tenon_status_t tenon_tvm_ffi_load(const char *path, uint32_t flags,
                                            const tenon_tvm_ffi_function_t *functions,
                                            uint32_t count, tenon_library_t **out_library);

/* States declarations for the next library that this thread loads, by whatever function.  For
 * bindings of languages whose own function loads libraries.
 *
 * Arguments: as for tenon_tvm_ffi_load; `count` 0: none from now on.
 * Returns: 1 if a tvm-ffi library was opened since the previous call, otherwise 0.
 * Ownership: `functions` must stay valid until the next call. */
TENON_API int tenon_tvm_ffi_declare(const tenon_tvm_ffi_function_t *functions, uint32_t count);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
