/* Dtypes and shapes of results, computed by the library's own functions. */
#ifndef BRIDGES_MXNET_INFER_H
#define BRIDGES_MXNET_INFER_H

#include "state.h"

typedef struct shapes_t { /* of outputs: the library's memory */
  const hosted_t *library;
  int *new_ndims;
  int *ndims;
  unsigned **new_shapes;
  unsigned **shapes;
  int new_count;
  int count;
} shapes_t;

/* inferShape for inputs of these extents, which lie one behind the other; shapes_free follows,
 * after a failure too. */
bool infer_shapes(const state_t *state, const int *ndims, const int64_t *extents, shapes_t *out,
                  char *why, size_t capacity);
void shapes_free(shapes_t *shapes);

tenon_status_t infer_forward(tenon_infer_t *infer);
tenon_status_t infer_subgraph(tenon_infer_t *infer); /* what its graph does not say */
tenon_status_t infer_backward(tenon_infer_t *infer); /* gradients are as the inputs are */

#endif
