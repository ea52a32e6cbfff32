/* Dtypes and shapes of results, each inferred without the other, as MXNet asks for them. */
#ifndef BRIDGES_MXNET_EXPORTED_INFER_H
#define BRIDGES_MXNET_EXPORTED_INFER_H

#include "node.h"

/* MXNet's numbers; -1: not known.  What is known of the inputs is filled in.  false: the message
 * names operator and argument. */
bool infer_types(node_t *node, int *in, int in_count, int *out, int out_count);

typedef struct shapes_t { /* of arrays: blocks that _opCallFree frees */
  unsigned **extents;
  int *ranks;
} shapes_t;
/* ranks -1 and extents 0xffffffff are not known, which is an error; results without axes have one
 * of extent 1, as MXNet has it. */
bool infer_shapes(node_t *node, unsigned *const *in, const int *in_ranks, int in_count,
                  int out_count, shapes_t *out_in, shapes_t *out_results);

/* Ranks of the results for inputs that a call has, one for each of MXNet's arrays. */
bool infer_ranks(const node_t *node, const int64_t *const *in, const int *in_ranks,
                 const int *in_types, int *out_ranks);

#endif
