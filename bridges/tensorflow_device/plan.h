/* Plans: how operators of Tenon compute an operator of TensorFlow. A row of the table
 * (operators.c) is parsed once into a plan.
 *
 * A row:
 *   op         the operator of TensorFlow
 *   signature  its inputs, then "|" and its attributes.  "@x" is an input in host memory, "x*" a
 *              list of inputs, "^x" a variable, whose value is the input.  The results of an
 *              operator without outputs become the values of its first variables.  An attribute has
 *              its kind: "a:b" bool, i int, f float, s text, t dtype, l list of ints.
 *   types      the dtypes that kernels are registered for: "T=FL U=I".  F f32, D f64, H f16,
 *              B bf16, L i64, I i32, O bool.
 *   formula    statements "name = expression;", then the results, separated by commas.
 * An expression is a call of an operator, "core::add(x, y, key=value)", with "[1]" behind it for
 * its second result; a call of one of the functions of function.c; a name of the signature or of a
 * statement; a number, a text in quotes, true, false, or a list "[1, 2]". A number that stands for
 * a tensor becomes a tensor on the device, of the dtype of the first attribute of `types`. */
#ifndef BRIDGES_TENSORFLOW_DEVICE_PLAN_H
#define BRIDGES_TENSORFLOW_DEVICE_PLAN_H

#include <stdbool.h>
#include <tenon/tenon.h>

enum {
  PLAN_NAME_SIZE = 32,
  PLAN_TEXT_SIZE = 96, /* of attributes */
  PLAN_NODES_MOST = 120,
  PLAN_INPUTS_MOST = 12,
  PLAN_ATTRIBUTES_MOST = 12,
  PLAN_RESULTS_MOST = 6,
  PLAN_OPERANDS_MOST = 24,
  PLAN_PARAMETERS_MOST = 160, /* of all calls of a plan */
  PLAN_LIST_MOST = 16,
};

typedef struct row_t {
  const char *op;
  const char *signature;
  const char *types;
  const char *formula;
} row_t;

typedef struct frame_t frame_t;
typedef struct value_t value_t;
/* Computes one of the functions of formulas (function.c). */
typedef tenon_status_t (*function_t)(frame_t *frame, value_t *operands, int32_t count,
                                     value_t *out);

typedef enum node_kind_t {
  NODE_INPUT,
  NODE_ATTRIBUTE,
  NODE_NUMBER,
  NODE_REAL,
  NODE_TEXT,
  NODE_LIST,
  NODE_CALL,
  NODE_FUNCTION,
} node_kind_t;

typedef struct node_t {
  node_kind_t kind;
  int32_t index;  /* INPUT, ATTRIBUTE: of the signature; CALL: of the result */
  int64_t number; /* NUMBER */
  double real;    /* REAL */
  char text[PLAN_NAME_SIZE];
  const tenon_op_t *op;               /* CALL */
  const tenon_argument_t *parameters; /* CALL: inputs, then attributes */
  function_t function;
  int32_t operand_count;
  /* Nodes, for each parameter of the operator, inputs before attributes; -1: omitted. */
  int8_t operands[PLAN_OPERANDS_MOST];
} node_t;

typedef struct plan_input_t {
  char name[PLAN_NAME_SIZE];
  bool is_host;
  bool is_list;
  bool is_variable;
} plan_input_t;

typedef struct plan_attribute_t {
  char name[PLAN_NAME_SIZE];
  char kind;
} plan_attribute_t;

typedef struct plan_t {
  const row_t *row;
  int32_t index;                                     /* of the row */
  tenon_argument_t parameters[PLAN_PARAMETERS_MOST]; /* of all calls */
  int32_t parameter_count;
  int32_t input_count;
  int32_t attribute_count;
  int32_t node_count;
  int32_t result_count;
  plan_input_t inputs[PLAN_INPUTS_MOST];
  plan_attribute_t attributes[PLAN_ATTRIBUTES_MOST];
  node_t nodes[PLAN_NODES_MOST];
  int8_t results[PLAN_RESULTS_MOST]; /* nodes */
} plan_t;

/* Parses a row.
 *
 * Errors: TENON_INVALID names the place in the formula; TENON_NOT_FOUND: there is no such operator.
 * Ownership: the caller frees the plan with free. The row must outlive it. */
tenon_status_t plan_parse(const row_t *row, plan_t **out_plan);

/* Returns the rows of the table. */
const row_t *plan_rows(int32_t *out_count);

/* Finds a function of formulas by name; NULL: there is none. */
function_t function_find(const char *name);
/* Is it the function whose first operand says which of the others is computed? */
bool function_is_choice(function_t function);
/* Returns the operator that a device must have for a function, or NULL. */
const char *function_needs(function_t function);

#endif
