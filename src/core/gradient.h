/* Gradient formulas: the parsed form of TENON_GRADIENT, as the adapters and the tape read it. */
#ifndef TN_CORE_GRADIENT_H
#define TN_CORE_GRADIENT_H

#include "core/schema.h"
#include "core/types.h"

enum {
  TN_GRADIENT_CALL,
  TN_GRADIENT_INPUT,
  TN_GRADIENT_OUTPUT,
  TN_GRADIENT_ATTR,
  TN_GRADIENT_GRAD,
  TN_GRADIENT_STATE,
  TN_GRADIENT_LITERAL,
};
enum {
  TN_FORMULA_CALL,
  TN_FORMULA_NONE,
  TN_FORMULA_ERROR,
};

typedef struct tn_gradient_value_t {
  uint8_t kind;
  /* INPUT, OUTPUT, ATTR: index of the argument; GRAD: the result whose gradient is meant */
  int32_t index;
  const char *name;    /* CALL: the operator's full name */
  const char *keyword; /* the argument's name in "name = value", else NULL */
  tenon_value_t literal;
  uint32_t argument_count;
  const struct tn_gradient_value_t *arguments; /* CALL: the values */
} tn_gradient_value_t;

typedef struct tn_gradient_formula_t {
  uint32_t input_count;
  const int32_t *inputs; /* the k-th result of the call is the gradient of inputs[k] */
  uint8_t kind;          /* TN_FORMULA_... */
  tn_gradient_value_t call;
  uint64_t inputs_used;  /* bit i: the call reads elements of inputs[i] */
  uint64_t outputs_used; /* bit i: the call reads elements of results[i] */
  uint64_t grads_used;   /* bit i: the call reads the gradient of results[i] */
  bool reads_state;
  /* The same for inputs and results of which the call reads only the shape or dtype. The tape need
   * not keep their elements. */
  uint64_t inputs_shaped;
  uint64_t outputs_shaped;
} tn_gradient_formula_t;

typedef struct tn_gradient_t {
  const char *text; /* NULL: not declared */
  uint32_t formula_count;
  const tn_gradient_formula_t *formulas;
  bool reads_state; /* some call reads @state */
} tn_gradient_t;

/* Parses and checks a declaration: names exist, no input has two formulas, and every input that may
 * be a float has one. Operator names without a namespace get the schema's. Whether the operators
 * exist is checked by the loader, which walks the calls with tn_gradient_walk. */
tenon_status_t tn_gradient_parse(const char *text, const tn_schema_t *schema,
                                 const tn_types_t *types, tn_arena_t *arena,
                                 tn_gradient_t *out_gradient);
/* Calls `visit` for every operator that the formulas name. Stops at the first status that is not OK
 * and returns it. */
tenon_status_t tn_gradient_walk(const tn_gradient_t *gradient,
                                tenon_status_t (*visit)(void *context, const char *name),
                                void *context);

#endif
