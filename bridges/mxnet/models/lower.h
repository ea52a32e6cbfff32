/* Lowerings translate MXNet's operators into core operators. Most lowerings are texts such as
 *   "LRN(x) = lrn(x, size=nsize, alpha=alpha?0.0001, beta=beta?0.75, bias=knorm?2.0)"
 * The left side names the node's inputs, and the right side calls core operators. Other lowerings
 * are functions. Failures are sticky: after the first one, or after lower_missing, every function
 * below does nothing and returns EDGE_NONE. */
#ifndef BRIDGES_MXNET_MODELS_LOWER_H
#define BRIDGES_MXNET_MODELS_LOWER_H

#include <tenon/tenon.h>

#include "params.h"
#include "symbol.h"

enum {
  EDGE_NONE = -1,    /* absent */
  EDGE_MISSING = -2, /* the value of an operator that is not supported */
};

typedef struct values_t { /* the values of a node or of an argument */
  tenon_edge_t *edges;
  int32_t count;
  bool is_list;
} values_t;

typedef struct missing_t { /* an operator that is not supported, with one reason */
  struct missing_t *next;
  const char *op;
  const char *reason;
  char nodes[160]; /* the names of the first nodes that have the operator */
  size_t count;
} missing_t;

typedef struct model_t {
  tn_arena_t arena;
  tenon_builder_t *builder;
  symbol_t symbol;
  params_t params;
  values_t *values; /* the values of each node */
  /* the rank of the results of each node, if symbol and parameters determine it; else -1 */
  int32_t *ranks;
  const struct lowering_t **lowerings; /* the lowering of each node; NULL: none */
  tenon_dtype_t *dtypes;               /* the dtypes of variables that do not state theirs */
  missing_t *missing;
  int32_t missing_count;
} model_t;
enum { MISSING_MAX = 100 };

typedef struct lower_t { /* a node that is being lowered */
  model_t *model;
  const symbol_node_t *node;
  const tenon_edge_t *inputs;
  int32_t input_count;
  bool *used; /* which attributes of the node were read */
  values_t outputs;
  bool is_missing;
  tenon_status_t status;
} lower_t;

/* clang-format off: a grammar, aligned by hand */
/* clang-format off */
/* The language of lowerings. A text begins with the names of the operators that it serves.
 *   text      = name {"|" name} "(" [parameter {"," parameter}] ")" ["=" {names "=" call ";"} results]
 *   parameter = name {mark}         an input
 *   mark      = "?"  may be absent              | "!"  a parameter, never an input of the model
 *             | "~"  never read                 | "#"  its dtype is independent of the others
 *             | "="  has the result's rank      | "+"  has one axis less than the result
 *             | "%"  has three axes             | "^"  has two axes more than `kernel` has items
 *             | "*" name {mark}     the remaining inputs, as a list
 *             | "-" name            an attribute that is ignored
 *   results   = value | "(" value {"," value} ")"
 *   value     = call | name | "_" (absent) | "[" value {"," value} "]" | constant
 *   call      = core operator "(" [argument {"," argument}] ")"       all of its results
 *   argument  = value | attribute "=" source
 *   source    = literal | ":" name          the dtype of a value
 *             | name ["?" literal]          an attribute of the node, and its default
 *   constant  = (number | "@" name ["?" number]) ":" (name | dtype)   a scalar; "@": an attribute of the node
 *             | "[" integer {"," integer} "]:i64"
 * A text without "=" belongs to a lowering that is a function. */
/* clang-format on */
typedef struct lowering_t {
  const char *text;
  void (*lower)(lower_t *lower);
} lowering_t;
typedef struct lowerings_t { /* the lowerings of one family */
  const lowering_t *items;
  size_t count;
} lowerings_t;
#define LOWERINGS(name) const lowerings_t name = {lowerings, sizeof lowerings / sizeof *lowerings}

/* lowering.c */
const lowering_t *lowering_find(const char *op); /* NULL: the operator has no lowering */
/* Returns whether the index-th input has this mark. */
bool lowering_has_mark(const lowering_t *lowering, int32_t index, char mark);
void lowering_run(const lowering_t *lowering, lower_t *lower);
/* Runs the right side of a lowering; the edges are its parameters a, b, c, and so on. lower_run_all
 * returns all results, lower_run the first one. */
values_t lower_run_all(lower_t *lower, const tenon_edge_t *edges, size_t count, const char *format,
                       ...) TENON_FORMAT(4, 5);
tenon_edge_t lower_run(lower_t *lower, const tenon_edge_t *edges, size_t count, const char *format,
                       ...) TENON_FORMAT(4, 5);
#define EDGES(...)                                                                                 \
  (tenon_edge_t[]){__VA_ARGS__}, sizeof((tenon_edge_t[]){__VA_ARGS__}) / sizeof(tenon_edge_t)

/* rank.c */
/* Sets model->ranks. Ranks are propagated forwards and backwards through the marks of the inputs,
 * so that the ranks of variables become known. */
tenon_status_t rank_find(model_t *model);

/* node.c */
tenon_status_t node_lower(model_t *model, int32_t index);
void lower_fail(lower_t *lower, const char *format, ...) TENON_FORMAT(2, 3);
void lower_missing(lower_t *lower, const char *format, ...) TENON_FORMAT(2, 3);
bool lower_stopped(const lower_t *lower);
/* memory of the arena; NULL: the lowering has failed */
void *lower_take(lower_t *lower, size_t count, size_t size);
void lower_give(lower_t *lower, tenon_edge_t edge); /* adds an output */
/* EDGE_NONE if there is no such input */
tenon_edge_t lower_input(const lower_t *lower, int32_t index);
values_t lower_call(lower_t *lower, const tenon_op_t *op, tenon_attrs_t *attrs,
                    const values_t *operands, int32_t operand_count, int32_t wanted);
/* Adds a constant. Takes the tensor over. */
tenon_edge_t lower_tensor(lower_t *lower, tenon_tensor_t *tensor);
tenon_edge_t lower_ints(lower_t *lower, const int64_t *values, size_t count);
tenon_edge_t lower_scalar(lower_t *lower, tenon_dtype_t dtype, double value);
/* Returns the rank, or -1 if it is unknown. */
int32_t lower_rank_of(lower_t *lower, tenon_edge_t edge);
/* an unknown rank makes the operator unsupported */
int32_t lower_rank(lower_t *lower, tenon_edge_t edge);
/* Returns the extent of an axis (counted from the end if negative), or -1 if it is unknown. */
int64_t lower_extent(lower_t *lower, tenon_edge_t edge, int32_t axis);
tenon_dtype_t lower_dtype(lower_t *lower, tenon_edge_t edge); /* fails if the dtype is unknown */
bool lower_is_float(lower_t *lower, tenon_edge_t edge);
/* Checks an axis and counts it from the front. A negative axis requires a known rank. */
int64_t lower_axis(lower_t *lower, tenon_edge_t edge, int64_t axis);

/* attribute.c: attributes of the node, which these functions mark as read. `None` counts as
 * absent. */
const char *attr_text(lower_t *lower, const char *name, const char *otherwise);
int64_t attr_int(lower_t *lower, const char *name, int64_t otherwise);
double attr_float(lower_t *lower, const char *name, double otherwise);
bool attr_bool(lower_t *lower, const char *name, bool otherwise);
tenon_dtype_t attr_dtype(lower_t *lower, const char *name, tenon_dtype_t otherwise);
bool attr_is(lower_t *lower, const char *name, const char *value, const char *otherwise);
enum { INTS_MAX = 64 };
/* Reads "(1, None, 3)", "[2]" or "2" and returns the number of items; None becomes INT64_MIN.
 * Returns -1 if the attribute is absent. */
int32_t attr_ints(lower_t *lower, const char *name, int64_t values[INTS_MAX]);
/* Returns the text of such a list in the schema language. */
const char *attr_list(lower_t *lower, const int64_t *values, int32_t count);
/* Passes an attribute of the node to an argument of an operator. Returns false if the attribute is
 * absent or does not fit. */
bool attr_give(lower_t *lower, const char *name, const tenon_op_t *op, tenon_attrs_t *attrs,
               const char *argument);

/* custom.c */
/* Finds the operator of a loaded library that has this name in any namespace. Returns NULL if there
 * is none. If there are several, the lowering fails. */
const tenon_op_t *custom_find(lower_t *lower, const char *name);
void custom_lower(lower_t *lower, const tenon_op_t *op);

#endif
