/* A Tenon operator as MXNet sees it. It is created when the library is loaded; afterwards only its
 * nodes change. */
#ifndef BRIDGES_MXNET_EXPORTED_OPERATOR_H
#define BRIDGES_MXNET_EXPORTED_OPERATOR_H

#include "host.h"

enum {
  OPERATOR_MOST = 64,
  OPERATOR_BUCKETS = 64,
};

struct operator_t;
struct node_t;

/* MXNet takes a pointer to an entry for a function of the library's author and passes it back with
 * each call. */
typedef struct entry_t {
  struct operator_t *self;
} entry_t;

typedef struct operator_t {
  const tenon_op_t *op;
  char *name;       /* the name in MXNet */
  const char *full; /* the name in Tenon, such as "demo::gelu" */
  uint32_t traits;
  int32_t input_count;
  int32_t attr_count;
  int32_t output_count;
  tenon_argument_t *inputs;
  tenon_argument_t *attrs;
  tenon_argument_t *outputs;
  /* for each result the input that it is, because the call writes to it; -1: none */
  int32_t same[OPERATOR_MOST];
  bool is_stateful;
  bool writes;
  bool has_open; /* some dtypes follow only from shapes */
  /* The operator has a gradient formula, so backward does not run forward again. */
  bool has_formula;
  uint64_t without;         /* bit i: the gradient formula of input i is `none` */
  char why[300];            /* why backward always fails; "": it does not */
  struct direct_t *directs; /* gradient formulas that are single calls */
  int32_t direct_count;
  entry_t forward;
  entry_t backward;
  const entry_t *forwards[1];
  const entry_t *backwards[1]; /* lists of one entry, in the form that MXNet takes */
  struct node_t *nodes[OPERATOR_BUCKETS];
  int32_t node_count; /* the number of nodes that the operator keeps */
} operator_t;

/* Returns NULL if MXNet cannot have the operator; the message says why. */
operator_t *operator_new(const tenon_op_t *op, const char *prefix);
void operator_free(operator_t *self);
/* Reads the gradient formulas: finds the inputs without a gradient and the values that MXNet cannot
 * provide. */
void operator_formulas(operator_t *self, const char *text);

/* Returns MXNet's number of a dtype; -1: the dtype is unknown, or MXNet does not have it. */
int dtype_to(tenon_dtype_t dtype);
/* Converts MXNet's number of a dtype; -1, an unknown dtype, gives a dtype of 0 bits. Returns false
 * if Tenon does not have the dtype. */
bool dtype_from(int number, tenon_dtype_t *out_dtype);
/* Returns Tenon's name for MXNet's name of a dtype; NULL: there is no such name. */
const char *dtype_parse(const char *name, size_t size);

#endif
