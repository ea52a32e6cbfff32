/* An operator with the attributes of a node, which are parsed once, however often MXNet asks. Nodes
 * with the same texts share one object. A limited number of them stay with the operator and are
 * found again without a lock. */
#ifndef BRIDGES_MXNET_EXPORTED_NODE_H
#define BRIDGES_MXNET_EXPORTED_NODE_H

#include "operator.h"

typedef struct span_t { /* the arrays of MXNet that one argument or result consists of */
  int32_t first;
  int32_t count; /* 0: the argument is absent, or an empty list */
  bool is_list;
  bool is_absent;
} span_t;

typedef struct setting_t { /* the attributes of a call */
  tenon_attrs_t *attrs;    /* NULL: they do not fit */
  const tenon_value_t *values;
} setting_t;

typedef struct node_t {
  struct node_t *next; /* the next node of the bucket */
  operator_t *self;
  bool is_kept; /* by the operator; otherwise node_release frees the node */
  uint64_t hash;
  tenon_attrs_t *attrs;
  const tenon_value_t *values;
  int32_t input_count;
  int32_t output_count; /* the numbers of MXNet's arrays */
  span_t *inputs;
  span_t *outputs;
  setting_t *directs; /* for each formula that is a single call; NULL: the tape is used */
  /* The shapes of the inputs that MXNet asked about last: rank and extents of each. They are kept
   * for operators with open dtypes, under a lock. */
  int32_t *seen;
  size_t size; /* the size of `text` */
  char *text;  /* keys and values, each terminated by a zero byte */
} node_t;

/* Returns the node of an operator with these attributes. Returns NULL if the attributes are wrong;
 * the message says why. Keys of MXNet's own, such as "__so__", are ignored. */
node_t *node_get(operator_t *self, const char *const *keys, const char *const *values,
                 int32_t count);
void node_release(node_t *node);

/* Determines how many arrays each argument takes and each result gives, from attributes of the call
 * (NULL: not given). Returns false with the reason in the message. */
typedef struct arity_t {
  const char *num_args;
  const char *operand_counts;
  const char *num_outputs;
} arity_t;
bool node_arity_set(node_t *node, const arity_t *arity);

#endif
