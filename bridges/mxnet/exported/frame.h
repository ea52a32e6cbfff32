/* One call from MXNet, with its arrays as Tenon's tensors. frame_close frees everything that was
 * set, also after a failure. */
#ifndef BRIDGES_MXNET_EXPORTED_FRAME_H
#define BRIDGES_MXNET_EXPORTED_FRAME_H

#include "block.h"
#include "node.h"

enum { FRAME_ROOM = 2048 };

typedef struct frame_t {
  const node_t *node;
  tenon_tensor_t *inputs[OPERATOR_MOST];
  tenon_tensor_t *outputs[OPERATOR_MOST]; /* as Tenon takes them */
  tenon_tensor_t **owned;                 /* to be released */
  int32_t owned_count;
  int32_t owned_capacity;
  void *blocks; /* freed at the end */
  size_t used;
  _Alignas(64) char room[FRAME_ROOM];
} frame_t;

void frame_open(frame_t *frame, const node_t *node);
void frame_close(frame_t *frame);
void *frame_take(frame_t *frame, size_t size); /* memory until frame_close; NULL: a message */
/* Lets the frame release the tensor; false, and it is released at once, without memory. */
bool frame_own(frame_t *frame, tenon_tensor_t *tensor);
/* An array as a tensor: a view in the frame, or one that is counted, which calls may keep until
 * frame_close.  `rank` 0: as one without axes.  NULL: a message, with the argument's name. */
tenon_tensor_t *frame_tensor(frame_t *frame, const arrays_t *arrays, int at, int rank,
                             bool is_counted, const char *name);
/* What an argument or a result is: one array or a list.  ranks NULL: those of the arrays. */
bool frame_argument(frame_t *frame, const arrays_t *arrays, int first, const span_t *span,
                    const int *ranks, bool is_counted, const char *name,
                    tenon_tensor_t **out_tensor);
/* The ranks that Tenon gives the results, where they may be others than MXNet's: NULL in
 * *out_ranks: they are not. */
bool frame_ranks(frame_t *frame, const arrays_t *in, const arrays_t *results, int first,
                 const int **out_ranks);

#endif
