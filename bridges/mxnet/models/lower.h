/* The model that is being read, the node that is being lowered, and what lowerings build with.
 * Failures are sticky: after the first one, or after lower_missing, the functions here and in
 * lowering.h add nothing to the graph and return EDGE_NONE.
 *
 * Each file calls only files that are listed before it:
 *   params.c          named arrays of a file
 *   symbol.c          the symbol of a file
 *   lower.c           what lowerings build with
 *   attribute.c       attributes of a node
 *   lowering.c        runs the texts that tell what an operator of MXNet becomes
 *   lower_*.c         these texts, by family
 *   lowering_table.c  finds the lowering of an operator
 *   custom.c          operators of loaded libraries
 *   node.c            one node
 *   rank.c            the ranks of variables
 *   files.c           the files of a model
 *   model.c           the model */
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

#endif
