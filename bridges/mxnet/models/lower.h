/* Lowering: what an operator of MXNet's becomes.  Most are a rule, a text such as
 *   "LRN(x) = lrn(x, size=nsize, alpha=alpha?0.0001, beta=beta?0.75, bias=knorm?2.0)" whose left
 *   side names the node's inputs and whose right side is calls of core's operators; the others are
 *   functions. Failures are sticky: after the first one, or after lower_missing, every function
 *   below does nothing and gives EDGE_NONE. */
#ifndef BRIDGES_MXNET_MODELS_LOWER_H
#define BRIDGES_MXNET_MODELS_LOWER_H

#include <tenon/tenon.h>

#include "params.h"
#include "symbol.h"

enum { EDGE_NONE = -1 /* absent */, EDGE_MISSING = -2, /* of an operator that is not covered */ };

typedef struct values_t { /* of a node, or of an argument */
  tenon_edge_t *edges;
  int32_t count;
  bool is_list;
} values_t;

typedef struct missing_t { /* an operator that is not covered, for one reason */
  struct missing_t *next;
  const char *op;
  const char *reason;
  char nodes[160]; /* the first of them, by name */
  size_t count;
} missing_t;

typedef struct model_t {
  tn_arena_t arena;
  tenon_builder_t *builder;
  symbol_t symbol;
  params_t params;
  values_t *values; /* of each node */
  int32_t *ranks;   /* of the results of each node, as far as symbol and parameters tell; -1 */
  const struct rule_t **rules; /* of each node; NULL: none */
  tenon_dtype_t *dtypes;       /* of variables that state none */
  missing_t *missing;
  int32_t missing_count;
} model_t;
enum { MISSING_MAX = 100 };

typedef struct lower_t { /* a node on its way */
  model_t *model;
  const symbol_node_t *node;
  const tenon_edge_t *inputs;
  int32_t input_count;
  bool *used; /* which attributes were looked at */
  values_t outputs;
  bool is_missing;
  tenon_status_t status;
} lower_t;

/* clang-format off: a grammar, aligned by hand */
/* clang-format off */
/* A rule.  What stands before "(" are the operator's names.
 *   text      = name {"|" name} "(" [parameter {"," parameter}] ")" ["=" {names "=" call ";"} results]
 *   parameter = name {mark}         an input
 *   mark      = "?"  may be absent              | "!"  a parameter, which no input of the model is
 *             | "~"  not looked at              | "#"  of a dtype that says nothing of the others
 *             | "="  has the result's rank      | "+"  has one axis less
 *             | "%"  has three axes             | "^"  has two more than the attribute `kernel` has items
 *             | "*" name {mark}     the remaining inputs, as a list
 *             | "-" name            an attribute without meaning here
 *   results   = value | "(" value {"," value} ")"
 *   value     = call | name | "_" (absent) | "[" value {"," value} "]" | constant
 *   call      = operator of core "(" [argument {"," argument}] ")"       all of its results
 *   argument  = value | attribute "=" source
 *   source    = literal | ":" name          the dtype of a value
 *             | name ["?" literal]          an attribute of the node, and its default
 *   constant  = (number | "@" name ["?" number]) ":" (name | dtype)   a scalar; "@": an attribute of the node
 *             | "[" integer {"," integer} "]:i64"
 * Without "=" the rule is a function. */
/* clang-format on */
typedef struct rule_t {
  const char *text;
  void (*lower)(lower_t *lower);
} rule_t;
typedef struct rules_t { /* one family */
  const rule_t *items;
  size_t count;
} rules_t;
#define RULES(name) const rules_t name = {rules, sizeof rules / sizeof *rules}

/* rule.c */
const rule_t *rule_find(const char *op); /* NULL: there is none */
/* The mark of the index-th input, 0: it has none. */
bool rule_has_mark(const rule_t *rule, int32_t index, char mark);
void rule_run(const rule_t *rule, lower_t *lower);
/* Runs a right side whose parameters a, b, c, ... are these edges; its results, of which lower_run
 * gives the first. */
values_t lower_run_all(lower_t *lower, const tenon_edge_t *edges, size_t count, const char *format,
                       ...) TENON_FORMAT(4, 5);
tenon_edge_t lower_run(lower_t *lower, const tenon_edge_t *edges, size_t count, const char *format,
                       ...) TENON_FORMAT(4, 5);
#define EDGES(...)                                                                                 \
  (tenon_edge_t[]){__VA_ARGS__}, sizeof((tenon_edge_t[]){__VA_ARGS__}) / sizeof(tenon_edge_t)

/* rank.c */
/* Finds model->ranks: forwards and backwards through what rules say of inputs, so that those of
 * variables are known. */
tenon_status_t rank_find(model_t *model);

/* node.c */
tenon_status_t node_lower(model_t *model, int32_t index);
void lower_fail(lower_t *lower, const char *format, ...) TENON_FORMAT(2, 3);
void lower_missing(lower_t *lower, const char *format, ...) TENON_FORMAT(2, 3);
bool lower_stopped(const lower_t *lower);
void *lower_take(lower_t *lower, size_t count, size_t size);   /* of the arena; NULL: failed */
void lower_give(lower_t *lower, tenon_edge_t edge);            /* adds an output */
tenon_edge_t lower_input(const lower_t *lower, int32_t index); /* EDGE_NONE past the last */
values_t lower_call(lower_t *lower, const tenon_op_t *op, tenon_attrs_t *attrs,
                    const values_t *operands, int32_t operand_count, int32_t wanted);
tenon_edge_t lower_tensor(lower_t *lower,
                          tenon_tensor_t *tensor); /* a constant; takes the tensor over */
tenon_edge_t lower_ints(lower_t *lower, const int64_t *values, size_t count);
tenon_edge_t lower_scalar(lower_t *lower, tenon_dtype_t dtype, double value);
/* The rank, or -1. */
int32_t lower_rank_of(lower_t *lower, tenon_edge_t edge);
int32_t lower_rank(lower_t *lower, tenon_edge_t edge); /* not covered when it is not known */
/* The extent of an axis (from the end if < 0), -1 if it is not known. */
int64_t lower_extent(lower_t *lower, tenon_edge_t edge, int32_t axis);
tenon_dtype_t lower_dtype(lower_t *lower, tenon_edge_t edge); /* fails when it is not known */
bool lower_is_float(lower_t *lower, tenon_edge_t edge);
/* The axis from the front, checked; needs the rank if axis < 0. */
int64_t lower_axis(lower_t *lower, tenon_edge_t edge, int64_t axis);

/* attribute.c: attributes of the node, marked as looked at; `None` is as if they were absent. */
const char *attr_text(lower_t *lower, const char *name, const char *otherwise);
int64_t attr_int(lower_t *lower, const char *name, int64_t otherwise);
double attr_float(lower_t *lower, const char *name, double otherwise);
bool attr_bool(lower_t *lower, const char *name, bool otherwise);
tenon_dtype_t attr_dtype(lower_t *lower, const char *name, tenon_dtype_t otherwise);
bool attr_is(lower_t *lower, const char *name, const char *value, const char *otherwise);
enum { INTS_MAX = 64 };
/* "(1, None, 3)", "[2]", "2": how many, None is INT64_MIN; -1: absent. */
int32_t attr_ints(lower_t *lower, const char *name, int64_t values[INTS_MAX]);
/* The text of such a list in the schema's language. */
const char *attr_list(lower_t *lower, const int64_t *values, int32_t count);
/* Gives an attribute of the node to an argument of an operator; false: it is absent, or that
 * failed. */
bool attr_give(lower_t *lower, const char *name, const tenon_op_t *op, tenon_attrs_t *attrs,
               const char *argument);

/* custom.c */
/* The operator of a loaded library that has this name in whatever namespace; NULL: none, or
 * several, which fails. */
const tenon_op_t *custom_find(lower_t *lower, const char *name);
void custom_lower(lower_t *lower, const tenon_op_t *op);

#endif
