/* Dtypes and shapes of results, computed by the library's own functions. */
#ifndef BRIDGES_MXNET_INFER_H
#define BRIDGES_MXNET_INFER_H

#include "state.h"

typedef struct shapes_t { /* the shapes of the results, in memory of the library */
  const hosted_t *library;
  int *new_ndims;
  int *ndims;
  unsigned **new_shapes;
  unsigned **shapes;
  int new_count;
  int count;
} shapes_t;

/* Calls inferShape. `extents` holds the extents of all inputs, one input after the other. The
 * caller must call shapes_free, also after a failure. */
bool infer_shapes(const state_t *state, const int *ndims, const int64_t *extents, shapes_t *out,
                  char *why, size_t capacity);
void shapes_free(shapes_t *shapes);

tenon_status_t infer_forward(tenon_infer_t *infer);
/* checks the number of inputs; the graph determines dtypes and shapes */
tenon_status_t infer_subgraph(tenon_infer_t *infer);
/* gradients have the dtypes and shapes of the inputs */
tenon_status_t infer_backward(tenon_infer_t *infer);

#endif
