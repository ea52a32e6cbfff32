/* One call from PyTorch: its arguments as Tenon's values, and its results as PyTorch's values. The
 * call owns the arguments on the stack: all of them are freed before it returns results or
 * throws. */
#ifndef BRIDGES_TORCH_FRAME_H
#define BRIDGES_TORCH_FRAME_H

#include "device.h"
#include "operator.h"

enum { FRAME_ROOM = 1024 };

typedef struct block_t {
  struct block_t *next;
  uint64_t unused; /* keeps the memory behind the structure aligned to 16 bytes */
} block_t;

typedef struct list_t { /* an argument that is a list of tensors */
  torch_value_t *handles;
  tenon_tensor_t **tensors;
  size_t count;
} list_t;

typedef struct frame_parts_t { /* the properties of a PyTorch tensor */
  int64_t ndim;
  int64_t *shape;
  int64_t *strides;
  int32_t type; /* the type of its device */
  tenon_dtype_t dtype;
  void *data; /* the first element; NULL for an empty tensor */
} frame_parts_t;

typedef struct frame_t { /* The counts say how many entries of the arrays are set. */
  const operator_t *self;
  const tenon_argument_t *argument; /* the argument that is being read; NULL: none */
  bool is_counted;                  /* tensors are on the heap, since the call may keep them */
  tenon_value_t values[OPERATOR_MOST];
  tenon_tensor_t views[OPERATOR_MOST];
  tenon_tensor_t *counted[OPERATOR_MOST];
  list_t tensor_lists[OPERATOR_MOST + 1];
  /* indexed as the arguments; NULL: absent, or not a tensor */
  torch_tensor_t handles[OPERATOR_MOST];
  torch_list_t lists[OPERATOR_MOST + 1];
  torch_string_t strings[OPERATOR_MOST];
  uint32_t counted_count;
  uint32_t tensor_list_count;
  uint32_t list_count;
  uint32_t string_count;
  struct quantised_t *quantised; /* the quantised arguments */
  /* the device that the call runs on; NULL: the CPU, and the next four members are not set */
  const torch_device_t *torch_device;
  tenon_stream_t *stream;
  /* PyTorch's stream on the device, and the stream that the thread used before */
  tenon_stream_t *stream_before;
  /* PyTorch's allocator for the device, and the one that the thread used before */
  tenon_allocator_t allocator;
  const tenon_allocator_t *allocator_before;
  block_t *blocks;
  size_t used;
  char why[700]; /* the reason of a failure; "": none */
  _Alignas(16) char room[FRAME_ROOM];
} frame_t;

void frame_open(frame_t *frame, const operator_t *self, bool is_counted);
/* Reads all arguments; the frame then owns everything that was on the stack. Returns false with the
 * reason in `why`. */
bool frame_arguments(frame_t *frame, const torch_value_t *stack);
/* Reads a list of tensors that is not an argument of the operator itself. */
const list_t *frame_tensors(frame_t *frame, torch_value_t value);
/* Makes the call run on a PyTorch device: its stream and allocator are used until frame_close. */
bool frame_use_device(frame_t *frame, int32_t type, int32_t index);
/* Returns a tensor over the memory of a PyTorch tensor outside the CPU. Returns NULL with the
 * reason in `why`. */
tenon_tensor_t *frame_device_tensor(frame_t *frame, torch_tensor_t handle,
                                    const frame_parts_t *parts);
/* Returns the PyTorch tensor for a dense result on a device; takes the reference over. */
bool frame_device_result(frame_t *frame, tenon_tensor_t *tensor, torch_value_t *out);
/* Copies host tensors (those selected by `which`; NULL: all) to the device that the call runs on.
 * After a failure all tensors are released. */
bool frame_bring(frame_t *frame, tenon_tensor_t **tensors, size_t count, const bool *which);
void frame_leave(frame_t *frame);
/* Attaches scale and zero point to the tensor of a quantised argument. */
bool frame_quantised(frame_t *frame, torch_tensor_t handle, tenon_tensor_t *tensor);
void frame_quantised_close(frame_t *frame);
/* Makes PyTorch's results from Tenon's; takes their references over. */
bool frame_results(frame_t *frame, tenon_tensor_t **outputs, torch_value_t *out);
/* Returns the gradients of leaves as a list (NULL entries become zeros), those selected by `away`
 * (may be NULL) on the device that the call runs on. Takes the references over. */
bool frame_gradients(frame_t *frame, tenon_tensor_t **leaves, tenon_tensor_t **grads, size_t count,
                     const bool *away, torch_value_t *out);
/* Makes a list of results; takes the references over. */
bool frame_list(frame_t *frame, tenon_tensor_t **tensors, size_t count, bool is_copy,
                torch_value_t *out);
bool frame_result(frame_t *frame, tenon_tensor_t *tensor, bool is_copy, torch_value_t *out);
/* Frees the arguments and everything that was made from them. */
void frame_close(frame_t *frame);
bool frame_fail(frame_t *frame, const char *reason, const char *detail); /* returns false */
/* allocates memory until frame_close */
void *frame_take(frame_t *frame, size_t count, size_t size);

#endif
