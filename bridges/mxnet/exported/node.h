/* An operator with the attributes of a node, which are parsed once, however often MXNet asks. Nodes
 * with the same texts share one object. A limited number of them stay with the operator and are
 * found again without a lock. */
#ifndef BRIDGES_MXNET_EXPORTED_NODE_H
#define BRIDGES_MXNET_EXPORTED_NODE_H

#include "operator.h"

typedef struct span_t { /* of MXNet's arrays: what one argument or result is */
  int32_t first;
  int32_t count; /* 0: absent, or an empty list */
  bool is_list;
  bool is_absent;
} span_t;

typedef struct setting_t { /* attributes of a call */
  tenon_attrs_t *attrs;    /* NULL: they do not fit */
  const tenon_value_t *values;
} setting_t;

typedef struct node_t {
  struct node_t *next; /* of its bucket */
  operator_t *self;
  bool is_kept; /* by the operator; else it goes with node_release */
  uint64_t hash;
  tenon_attrs_t *attrs;
  const tenon_value_t *values;
  int32_t input_count;
  int32_t output_count; /* of MXNet's arrays */
  span_t *inputs;
  span_t *outputs;
  setting_t *directs; /* of each rule that is a single call; NULL: they are recorded */
  int32_t *
      /* shapes of the inputs that MXNet asked about last: rank, extents; of operators with open
       * dtypes, under a lock */
      seen;
  size_t size; /* of text */
  char *text;  /* keys and values, each ended by 0 */
} node_t;

/* NULL: the message says what is wrong with the attributes.  Keys of MXNet's own, "__so__", are
 * passed by. */
node_t *node_get(operator_t *self, const char *const *keys, const char *const *values,
                 int32_t count);
void node_release(node_t *node);

/* Reads how many arrays each argument takes and each result gives; the texts NULL: not given.
 * false: the message says why not. */
typedef struct arity_t {
  const char *num_args;
  const char *operand_counts;
  const char *num_outputs;
} arity_t;
bool node_arity_set(node_t *node, const arity_t *arity);

#endif
