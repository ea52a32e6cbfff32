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
  tenon_tensor_t *outputs[OPERATOR_MOST]; /* in the form that Tenon's calls take */
  tenon_tensor_t **owned;                 /* released by frame_close */
  int32_t owned_count;
  int32_t owned_capacity;
  void *blocks; /* freed by frame_close */
  size_t used;
  _Alignas(64) char room[FRAME_ROOM];
} frame_t;

void frame_open(frame_t *frame, const node_t *node);
void frame_close(frame_t *frame);
/* allocates memory until frame_close; NULL: out of memory, with a message */
void *frame_take(frame_t *frame, size_t size);
/* Makes the frame release the tensor. If memory runs out, the tensor is released at once and the
 * result is false. */
bool frame_own(frame_t *frame, tenon_tensor_t *tensor);
/* Makes a tensor over an array: a view in the frame or, if `is_counted`, a counted tensor, which
 * calls may keep until frame_close. With `rank` 0 the tensor has no axes. Returns NULL with a
 * message that has the argument's name. */
tenon_tensor_t *frame_tensor(frame_t *frame, const arrays_t *arrays, int at, int rank,
                             bool is_counted, const char *name);
/* Makes the tensor of an argument or a result, which is one array or a list. Without `ranks`, the
 * arrays' own ranks are used. */
bool frame_argument(frame_t *frame, const arrays_t *arrays, int first, const span_t *span,
                    const int *ranks, bool is_counted, const char *name,
                    tenon_tensor_t **out_tensor);
/* Finds the ranks that the results have in Tenon. *out_ranks is NULL if they are the ranks that
 * MXNet states. */
bool frame_ranks(frame_t *frame, const arrays_t *in, const arrays_t *results, int first,
                 const int **out_ranks);

#endif
