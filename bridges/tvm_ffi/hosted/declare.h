/* One function as an operator: its schema, and how each argument is passed. */
#ifndef BRIDGES_TVM_FFI_HOSTED_DECLARE_H
#define BRIDGES_TVM_FFI_HOSTED_DECLARE_H

#include "base/text.h"
#include "core/schema.h"
#include "metadata.h"
#include "module.h"

/* A function that is being described. */
typedef struct declaration_t {
  tn_arena_t *arena;
  const tenon_tvm_ffi_function_t *declared;
  const signature_t *signature; /* NULL: the function has no metadata */
  tn_schema_t schema;
  const char *types; /* as TENON_TYPES */
} declaration_t;

/* Parses the schema, or makes one from the metadata, and decides how arguments are passed.
 *
 * Errors: with the message in tenon_error(). */
tenon_status_t declare_function(declaration_t *declaration, const char *ns, function_t *function);
/* Whether infer must be declared: some result has a shape that only the call shows. */
bool declare_needs_infer(const function_t *function);

#endif
