/* Shapes that this thread inferred recently. MXNet asks for shapes in each call of mx.nd, and
 * inference allocates more memory than the rest of a call: occasional large blocks make later small
 * allocations slow, also those of MXNet and Python. */
#ifndef BRIDGES_MXNET_EXPORTED_MEMO_H
#define BRIDGES_MXNET_EXPORTED_MEMO_H

#include "node.h"

enum { MEMO_NUMBERS = 28 };

/* Shapes as numbers: the rank and the extents of each array. */
typedef struct numbers_t {
  uint32_t count; /* MEMO_NUMBERS + 1: the shapes do not fit */
  uint32_t all[MEMO_NUMBERS];
} numbers_t;

void numbers_add(numbers_t *numbers, uint32_t rank, const unsigned *extents);
/* Returns the shapes of the results for those of the inputs; NULL: unknown. The result is valid
 * until the thread's next memo_put. */
const numbers_t *memo_get(const node_t *node, const numbers_t *in);
void memo_put(const node_t *node, const numbers_t *in, const numbers_t *out);

#endif
