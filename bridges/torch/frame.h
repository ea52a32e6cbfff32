/* One call from PyTorch: its arguments as Tenon's values, and its results as PyTorch's. Invariant:
 * the stack's arguments are the call's; all of them are freed before it gives results, or
 * throws. */
#ifndef BRIDGES_TORCH_FRAME_H
#define BRIDGES_TORCH_FRAME_H

#include "operator.h"
#include "place.h"

enum { FRAME_ROOM = 1024 };

typedef struct block_t {
  struct block_t *next;
  uint64_t unused; /* so that what follows is aligned */
} block_t;

typedef struct list_t { /* an argument that is a list of tensors */
  torch_value_t *handles;
  tenon_tensor_t **tensors;
  size_t count;
} list_t;

typedef struct frame_parts_t { /* what PyTorch tells of a tensor */
  int64_t ndim;
  int64_t *shape;
  int64_t *strides;
  int32_t type; /* of its device */
  tenon_dtype_t dtype;
  void *data; /* its first element, NULL if it has none */
} frame_parts_t;

typedef struct frame_t { /* counts say what of the arrays is set */
  const operator_t *self;
  const tenon_argument_t *argument; /* that is read; NULL: none */
  bool is_counted;                  /* tensors are on the heap, since the call may keep them */
  tenon_value_t values[OPERATOR_MOST];
  tenon_tensor_t views[OPERATOR_MOST];
  tenon_tensor_t *counted[OPERATOR_MOST];
  list_t tensor_lists[OPERATOR_MOST + 1];
  torch_tensor_t handles[OPERATOR_MOST]; /* by place; NULL: absent, or no tensor */
  torch_list_t lists[OPERATOR_MOST + 1];
  torch_string_t strings[OPERATOR_MOST];
  uint32_t counted_count;
  uint32_t tensor_list_count;
  uint32_t list_count;
  uint32_t string_count;
  struct quantised_t *quantised; /* arguments that are */
  const place_t
      *place; /* where the call runs; NULL: on the CPU, and none of the next four is set */
  tenon_stream_t *stream;
  tenon_stream_t *stream_before; /* PyTorch's there; what the thread used */
  tenon_allocator_t allocator;   /* PyTorch's there, and what the thread used */
  const tenon_allocator_t *allocator_before;
  block_t *blocks;
  size_t used;
  char why[700]; /* "": no failure */
  _Alignas(16) char room[FRAME_ROOM];
} frame_t;

void frame_open(frame_t *frame, const operator_t *self, bool is_counted);
/* Reads the arguments; false: `why` says what is wrong.  All that the stack held is the frame's
 * then. */
bool frame_arguments(frame_t *frame, const torch_value_t *stack);
/* A list of tensors that is no argument of the operator's own. */
const list_t *frame_tensors(frame_t *frame, torch_value_t value);
/* The call runs on that device of PyTorch's: its stream and its allocator are used until
 * frame_close. */
bool frame_place(frame_t *frame, int32_t type, int32_t index);
/* A tensor over the memory of one of another device than the CPU, whose parts are known; NULL:
 * `why` says why not. */
tenon_tensor_t *frame_placed(frame_t *frame, torch_tensor_t handle, const frame_parts_t *parts);
/* PyTorch's tensor of one that is dense and on a device; takes the reference over. */
bool frame_placed_result(frame_t *frame, tenon_tensor_t *tensor, torch_value_t *out);
/* Tensors of the host, those of `which` (NULL: all), go where the call runs; after a failure none
 * is there any more. */
bool frame_bring(frame_t *frame, tenon_tensor_t **tensors, size_t count, const bool *which);
void frame_leave(frame_t *frame);
/* Scale and zero point of a quantised argument, for its tensor. */
bool frame_quantised(frame_t *frame, torch_tensor_t handle, tenon_tensor_t *tensor);
void frame_quantised_close(frame_t *frame);
/* Makes PyTorch's results of Tenon's, whose references it takes over. */
bool frame_results(frame_t *frame, tenon_tensor_t **outputs, torch_value_t *out);
/* Gradients of these leaves (NULL: zeros) as a list, those of `away` (may be NULL) where the call
 * runs; takes the references over. */
bool frame_gradients(frame_t *frame, tenon_tensor_t **leaves, tenon_tensor_t **grads, size_t count,
                     const bool *away, torch_value_t *out);
/* A list of results; takes the references over. */
bool frame_list(frame_t *frame, tenon_tensor_t **tensors, size_t count, bool is_copy,
                torch_value_t *out);
bool frame_result(frame_t *frame, tenon_tensor_t *tensor, bool is_copy, torch_value_t *out);
/* Frees the arguments and all that was made of them. */
void frame_close(frame_t *frame);
bool frame_fail(frame_t *frame, const char *reason, const char *detail); /* false */
void *frame_take(frame_t *frame, size_t count, size_t size); /* memory until frame_close */

#endif
