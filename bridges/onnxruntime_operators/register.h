/* Adds operators to the options of a session. */
#ifndef BRIDGES_ONNXRUNTIME_OPERATORS_REGISTER_H
#define BRIDGES_ONNXRUNTIME_OPERATORS_REGISTER_H

#include "operator.h"

/* The operators to register. */
typedef struct chosen_t {
  const tenon_op_t **ops;
  int32_t count;
} chosen_t;

/* Adds the operators of a namespace, or one with a name such as "demo::gelu", to `out`; all
 * operators if `name` is NULL. */
tenon_status_t chosen_add(chosen_t *out, const char *name);
void chosen_free(chosen_t *chosen);

/* Registers operators, in one domain for each namespace.
 *
 * Arguments: `is_strict`: an operator that ONNX Runtime cannot have is a failure; otherwise it is
 * left out. */
OrtStatus *register_operators(OrtSessionOptions *options, const OrtApiBase *base,
                              const chosen_t *chosen, bool is_strict);
/* Makes a status where no operator can be registered. */
OrtStatus *register_failure(const OrtApiBase *base, const char *why);
/* Returns a line for each operator: name, tab, why ONNX Runtime cannot have it, or nothing. The
 * caller frees the text. Returns NULL if memory is out. */
char *register_report(const chosen_t *chosen);

#endif
