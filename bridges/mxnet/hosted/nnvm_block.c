/* Passes the constants of a graph to libraries as named parameters. Called by partition.c and
 * pass.c. */
#include "nnvm_block.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "state.h"

/* Returns whether libraries can take the tensor: a row-major tensor of a dtype that they
 * support. */
static bool is_fit(const tenon_tensor_t *t) {
  int64_t stride = 1;
  if (!t || dtype_to(t->dtype) < 0 || t->detail) return false;
  for (int32_t d = t->ndim - 1; d >= 0; d--) {
    if (t->shape[d] != 1 && t->strides[d] != stride) return false;
    stride *= t->shape[d];
  }
  return true;
}

static bool open_block(nnvm_block_t *b, tn_arena_t *arena, size_t count) {
  *b = (nnvm_block_t){.names = tn_arena_array(arena, count, sizeof *b->names),
                      .devices = tn_arena_array(arena, count, sizeof *b->devices),
                      .data = tn_arena_array(arena, count, sizeof *b->data),
                      .shapes = tn_arena_array(arena, count, sizeof *b->shapes),
                      .ndims = tn_arena_array(arena, count, sizeof *b->ndims),
                      .dtypes = tn_arena_array(arena, count, sizeof *b->dtypes),
                      .ids = tn_arena_array(arena, count, sizeof *b->ids),
                      .versions = tn_arena_array(arena, count, sizeof *b->versions)};
  return b->names && b->devices && b->data && b->shapes && b->ndims && b->dtypes && b->ids &&
         b->versions;
}

tenon_status_t nnvm_blocks(const nnvm_t *nnvm, tn_arena_t *arena, nnvm_block_t *args,
                           nnvm_block_t *aux) {
  if (!open_block(args, arena, (size_t)nnvm->count + 1) ||
      !open_block(aux, arena, (size_t)nnvm->count + 1))
    return tn_no_memory("parameters of a graph", 0);
  for (int32_t i = 0; i < nnvm->count; i++) {
    tenon_graph_edge_t edge = {.size = sizeof edge};
    if (nnvm->nodes[i] >= 0) continue;
    TENON_TRY(tenon_graph_edge(nnvm->graph, nnvm->values[i], &edge, NULL));
    const tenon_tensor_t *t = edge.constant;
    if (!is_fit(t)) continue;
    nnvm_block_t *to = nnvm_is_aux(nnvm->graph, nnvm->values[i]) ? aux : args;
    const int k = to->count++;
    to->names[k] = nnvm->names[i];
    to->devices[k] = "cpu";
    to->ids[k] = 0;
    to->versions[k] = 0;
    to->data[k] = (char *)t->data + t->byte_offset;
    to->shapes[k] = t->shape;
    to->ndims[k] = t->ndim;
    to->dtypes[k] = dtype_to(t->dtype);
  }
  return TENON_OK;
}
