/* One call of a kernel: its tensors, the memory that Tenon asks TensorFlow for, and the stream. A
 * frame serves operators of the table (run.c) and operators of Tenon (own.c). */
#ifndef BRIDGES_TENSORFLOW_DEVICE_FRAME_H
#define BRIDGES_TENSORFLOW_DEVICE_FRAME_H

#include "plan.h"
#include "plugin.h"
#include "value.h"

struct frame_t {
  const char *name; /* of the operator of TensorFlow */
  tf_context_t *context;
  device_t *device;
  /* Of the table only: the plan, and the values of its nodes. */
  const struct kernel_t *kernel;
  bool is_update; /* the operator has no outputs: results become values of variables */
  bool is_done[PLAN_NODES_MOST];
  value_t values[PLAN_NODES_MOST];
  /* Each of the lists below has this number of entries. */
  int32_t capacity;
  int32_t held_count;
  tenon_tensor_t **held;
  int32_t list_count;
  tenon_tensor_t **lists; /* the items of lists */
  /* Tensors of TensorFlow: inputs, and memory that Tenon asked for. */
  int32_t tensor_count;
  tf_tensor_t **tensors;
  char why[256]; /* why TensorFlow gave no memory */
};

/* Runs work in the stream of a call. A failure is reported to TensorFlow.
 *
 * `name` is the operator; `is_update` says that the work changes variables. */
void frame_run(tf_context_t *context, const char *name, bool is_update,
               tenon_status_t (*work)(frame_t *frame, void *argument), void *argument);

/* Keeps a tensor until the frame ends. Takes it over, also after an error. */
tenon_status_t frame_hold(frame_t *frame, tenon_tensor_t *tensor, value_t *out);
/* Keeps a tensor of TensorFlow until the frame ends. Takes it over, also after an error. */
tenon_status_t frame_keep(frame_t *frame, tf_tensor_t *tensor);
/* Takes room for the items of a list. */
tenon_status_t frame_list(frame_t *frame, int32_t count, value_t *out);
/* Allocates a tensor on the device in TensorFlow's memory. */
tenon_status_t frame_allocate(frame_t *frame, tenon_dtype_t dtype, const int64_t *shape,
                              int32_t ndim, value_t *out);
/* Creates a tensor on the host that holds integers. */
tenon_status_t frame_host_ints(frame_t *frame, const value_t *ints, tenon_tensor_t **out);

/* Gets an input as TensorFlow's tensor, which the frame owns. */
tenon_status_t frame_input(frame_t *frame, int index, tf_tensor_t **out);
/* Views a tensor of TensorFlow. `is_host`: it is in host memory. */
tenon_status_t frame_view(frame_t *frame, const tf_tensor_t *tensor, bool is_host, value_t *out);
/* Reads an input as a tensor. */
tenon_status_t frame_read(frame_t *frame, int index, bool is_host, value_t *out);
/* Finds the tensor of TensorFlow whose memory a result is; -1: there is none. */
int32_t frame_find(const frame_t *frame, const tenon_tensor_t *result);
/* Sets an output of the kernel. */
tenon_status_t frame_set_result(frame_t *frame, int32_t index, const tenon_tensor_t *result);

#endif
