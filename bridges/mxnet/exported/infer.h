/* Dtypes and shapes of results, each inferred without the other, as MXNet asks for them. */
#ifndef BRIDGES_MXNET_EXPORTED_INFER_H
#define BRIDGES_MXNET_EXPORTED_INFER_H

#include "node.h"

/* Infers dtypes as MXNet's numbers; -1: unknown. Input dtypes that can be inferred are filled in.
 * Returns false with a message that names operator and argument. */
bool infer_types(node_t *node, int *in, int in_count, int *out, int out_count);

typedef struct shapes_t { /* the shapes of arrays, in blocks that _opCallFree frees */
  unsigned **extents;
  int *ranks;
} shapes_t;
/* Infers the shapes of the results. It is an error if the shape of an input is unknown (rank -1 or
 * extent 0xffffffff). A result without axes is reported to MXNet with one axis of extent 1. */
bool infer_shapes(node_t *node, unsigned *const *in, const int *in_ranks, int in_count,
                  int out_count, shapes_t *out_in, shapes_t *out_results);

/* Infers the ranks of the results, one for each of MXNet's arrays, for the inputs of a call. */
bool infer_ranks(const node_t *node, const int64_t *const *in, const int *in_ranks,
                 const int *in_types, int *out_ranks);

#endif
