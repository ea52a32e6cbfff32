/* A call of a node from TensorFlow: views of its inputs, and what sets its outputs. */
#ifndef BRIDGES_TENSORFLOW_CALL_H
#define BRIDGES_TENSORFLOW_CALL_H

#include "kernel.h"

enum { EXTENTS_MOST = 8192 };

typedef struct call_t {
  kernel_t *kernel;
  tf_context_t *context;
  tf_status_t *status;
  tf_tensor_t **handles;
  uint32_t handle_count;
  tenon_tensor_t *tensors[OPERATOR_TENSORS_MOST]; /* the inputs, in order */
  tenon_tensor_t views[OPERATOR_TENSORS_MOST];
  void *texts[OPERATOR_TENSORS_MOST]; /* the elements of string tensors */
  uint32_t counted_count;             /* tensors that are released at the end */
  tenon_value_t values[2 * OPERATOR_MOST];
  int next_output; /* the next output of the node that is not set */
  size_t extent_count;
  int64_t extents[EXTENTS_MOST];
} call_t;

/* Sets the message of a failure, and returns `status`. */
__attribute__((format(printf, 3, 4))) tenon_status_t
call_fail(const call_t *c, tenon_status_t status, const char *format, ...);
/* Makes a view on the stack over input k of the node; `name` is for messages. */
tenon_status_t call_view(call_t *c, uint32_t k, const char *name);
/* Replaces a view by a tensor that the call may keep. The tensors before it must have one, too. */
tenon_status_t call_count_tensor(call_t *c, uint32_t k);
/* Sets the next output of the node. Takes the reference to the result over. */
tenon_status_t call_set_result(call_t *c, tenon_tensor_t *t);
/* Makes tensors of the gradients that follow the inputs. */
tenon_status_t call_view_gradients(call_t *c, uint32_t count);
/* Sets an output for each gradient. Takes the references over. */
tenon_status_t call_set_gradients(call_t *c, tenon_tensor_t **grads, int32_t count);

#endif
