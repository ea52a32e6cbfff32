/* An operator of Tenon as a function of tvm-ffi. It is created once and does not change. */
#ifndef BRIDGES_TVM_FFI_EXPORTED_OPERATOR_H
#define BRIDGES_TVM_FFI_EXPORTED_OPERATOR_H

#include "abi.h"
#include "host.h"

enum {
  SIDE_MOST = 64, /* inputs, attributes or results */
};

typedef struct exported_t {
  const tenon_op_t *op;
  const char *name; /* in Tenon: "demo::gelu" */
  int32_t input_count;
  int32_t attr_count;
  int32_t output_count;
  tenon_argument_t inputs[SIDE_MOST];
  tenon_argument_t attrs[SIDE_MOST];
  tenon_argument_t outputs[SIDE_MOST];
  /* inputs and attributes in the order of the schema */
  const tenon_argument_t *arguments[2 * SIDE_MOST];
  int32_t argument_count;
  bool has_views; /* some result is a view of an input, or the input itself */
} exported_t;

/* Describes an operator.
 *
 * Errors: TENON_NOT_FOUND; TENON_UNIMPLEMENTED if a function of tvm-ffi cannot be the operator.
 * Ownership: `name` must stay valid. */
tenon_status_t exported_describe(const char *name, exported_t *out);

/* Calls the operator with the arguments of a function; see ffi_call_fn. The arguments are those of
 * the schema in its order, of which the last may be missing. If tensors for all results follow
 * them, the results are written there, and the function returns None. */
int exported_call(const exported_t *exported, const ffi_any_t *arguments, int32_t count,
                  ffi_any_t *result);

/* Makes the text of the operator's metadata, or of its documentation, a value. */
int exported_metadata(const exported_t *exported, ffi_any_t *result);
int exported_doc(const exported_t *exported, ffi_any_t *result);

/* Raises the error of the thread in Tenon as one of tvm-ffi, and returns -1. */
int exported_raise(tenon_status_t status);

#endif
