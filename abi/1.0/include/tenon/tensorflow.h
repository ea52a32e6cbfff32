/* tenon/tensorflow.h: registers operators of Tenon libraries as operators of TensorFlow.
 * Implemented by libtenon_tensorflow.so.
 *
 * The library finds TensorFlow's functions in the process.  Building it does not require
 * TensorFlow.  A program that knows only TensorFlow's C interface can instead pass
 * libtenon_tensorflow_ops.so to TF_LoadLibrary, which registers the built-in operators and those of
 * all libraries that are loaded in the process.
 *
 * Errors: every function that can fail sets *out_error to a message, which is valid until the
 * thread's next call; `out_error` may be NULL.
 * Threads: any thread may call the functions. */
#ifndef TENON_TENSORFLOW_H
#define TENON_TENSORFLOW_H

#include <tenon/tenon.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Loads an operator library, and registers the operators of all loaded libraries with TensorFlow.
 *
 * A program calls it before it loads a SavedModel that has these operators.  TensorFlow must be
 * loaded before, or linked.  Registering a library again has no effect.
 *
 * Arguments: `path`: as for tenon_library_load.
 * Errors: those of tenon_tensorflow_register and of tenon_library_load. */
TENON_API tenon_status_t tenon_tensorflow_load(const char *path, const char **out_error);

/* Registers all operators of a loaded library, with kernels and shape functions, until the process
 * ends.
 *
 * Arguments: `library`: the namespace of a library, "demo"; "core" for the built-in operators;
 * NULL: all namespaces, without a report.  `out_report`: may be NULL.
 * Returns: a report with a line for each operator.  Its fields, separated by tabs, are: the name;
 * the name in TensorFlow, or "" if it was left out; why it was left out, or ""; and 1 if the shapes
 * of inputs alone determine those of its results, otherwise 0.
 * Errors: TENON_NOT_FOUND if no loaded library has operators in the namespace; TENON_UNAVAILABLE if
 * TensorFlow is not loaded or lacks functions; TENON_PRECONDITION if another copy of Tenon has
 * registered operators in the process.
 * Ownership: the report is valid until the process ends. */
TENON_API tenon_status_t tenon_tensorflow_register(const char *library, const char **out_report,
                                                   const char **out_error);

#ifdef __cplusplus
}
#endif
#endif
