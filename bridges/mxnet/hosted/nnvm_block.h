/* The constants of a graph, as the named parameters that libraries receive. */
#ifndef BRIDGES_MXNET_NNVM_BLOCK_H
#define BRIDGES_MXNET_NNVM_BLOCK_H

#include "nnvm_write.h"

typedef struct nnvm_block_t { /* named tensors in the form that libraries receive */
  const char **names;
  const char **devices;
  void **data;
  const int64_t **shapes;
  int *ndims;
  int *dtypes;
  int *ids;
  int count;
  size_t *versions;
} nnvm_block_t;
/* Collects the constants that libraries can take. `out_args` receives arguments; `out_aux` receives
 * auxiliary states, which MXNet's operators write to (running statistics). */
tenon_status_t nnvm_blocks(const nnvm_t *nnvm, tn_arena_t *arena, nnvm_block_t *out_args,
                           nnvm_block_t *out_aux);

#endif
