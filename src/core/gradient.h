/* Gradient rules: the parsed form of TENON_GRADIENT, as adapters and the tape read it. */
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
  TN_RULE_CALL,
  TN_RULE_NONE,
  TN_RULE_ERROR,
};

typedef struct tn_gradient_value_t {
  uint8_t kind;
  int32_t index; /* INPUT, OUTPUT, ATTR, GRAD (the result whose gradient it is) */
  const char *
      /* CALL: full name of the operator; an argument "name = value": the argument's name, else
       * NULL */
      name;
  const char *keyword;
  tenon_value_t literal;
  uint32_t argument_count;
  const struct tn_gradient_value_t *arguments; /* CALL */
} tn_gradient_value_t;

typedef struct tn_gradient_rule_t {
  uint32_t input_count;
  const int32_t *inputs; /* the k-th result of the call is the gradient of inputs[k] */
  uint8_t kind;          /* TN_RULE_... */
  tn_gradient_value_t call;
  uint64_t inputs_used;
  uint64_t outputs_used; /* bit i: the call reads elements of inputs[i], of results[i] */
  uint64_t grads_used;   /* gradients of results that it reads */
  bool reads_state;
  uint64_t inputs_shaped;
  uint64_t outputs_shaped; /* or only its shape or dtype: memory is not kept for that */
} tn_gradient_rule_t;

typedef struct tn_gradient_t {
  const char *text; /* NULL: none stated */
  uint32_t rule_count;
  const tn_gradient_rule_t *rules;
  bool reads_state; /* some call gets @state */
} tn_gradient_t;

/* Checks names, that no input is named twice, and that every input that may be a float is named.
 * Operator names without a namespace are the schema's.  Whether operators exist is the loader's
 * check: it walks the calls with tn_gradient_walk. */
tenon_status_t tn_gradient_parse(const char *text, const tn_schema_t *schema,
                                 const tn_types_t *types, tn_arena_t *arena,
                                 tn_gradient_t *out_gradient);
/* Calls `visit` for every operator named; stops at the first status that is not OK and returns
 * it. */
tenon_status_t tn_gradient_walk(const tn_gradient_t *gradient,
                                tenon_status_t (*visit)(void *context, const char *name),
                                void *context);

#endif
