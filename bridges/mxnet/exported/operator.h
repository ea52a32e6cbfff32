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

/* What MXNet takes for a function of the library's author, and gives back with each call. */
typedef struct entry_t {
  struct operator_t *self;
} entry_t;

typedef struct operator_t {
  const tenon_op_t *op;
  char *name;       /* in MXNet */
  const char *full; /* "demo::gelu" */
  uint32_t traits;
  int32_t input_count;
  int32_t attr_count;
  int32_t output_count;
  tenon_argument_t *inputs;
  tenon_argument_t *attrs;
  tenon_argument_t *outputs;
  int32_t same[OPERATOR_MOST]; /* the input that a result is, since it is written to; -1: none */
  bool is_stateful;
  bool writes;
  bool has_open; /* some dtypes follow from shapes */
  bool
      /* the gradient is a rule that the operator states: backward runs no forward again */
      has_rule;
  uint64_t without;         /* inputs whose rule is `none` */
  char why[300];            /* "": else why backward always fails */
  struct direct_t *directs; /* rules that are single calls */
  int32_t direct_count;
  entry_t forward;
  entry_t backward;
  const entry_t *forwards[1];
  const entry_t *backwards[1]; /* lists, as MXNet takes them */
  struct node_t *nodes[OPERATOR_BUCKETS];
  int32_t node_count; /* that are kept */
} operator_t;

/* NULL: the message says why MXNet cannot have it. */
operator_t *operator_new(const tenon_op_t *op, const char *prefix);
void operator_free(operator_t *self);
/* Reads the rules of its gradient: which inputs have none, and what cannot be had in MXNet. */
void operator_rules(operator_t *self, const char *text);

/* MXNet's number of a dtype; -1: it has none, or the dtype is not known. */
int dtype_to(tenon_dtype_t dtype);
/* Of MXNet's number: no bits for -1, not known; false: it has no counterpart. */
bool dtype_from(int number, tenon_dtype_t *out_dtype);
const char *dtype_parse(const char *name,
                        size_t size); /* Tenon's name for MXNet's, NULL: it is none of these */

#endif
