/* A kernel of TensorFlow: an operator with the attributes of one node, prepared once and called
 * often, by several threads at the same time. */
#ifndef BRIDGES_TENSORFLOW_KERNEL_H
#define BRIDGES_TENSORFLOW_KERNEL_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/model.h"
#include "operator.h"

enum { SITES_MOST = 16 };

/* The shapes of a call that was made before, with the views of its tensors, in one block. */
typedef struct site_t {
  int64_t *extents;        /* of all views */
  int *dtypes;             /* of the outputs, in TensorFlow */
  tenon_tensor_t *outputs; /* as many as the operator has; they follow the inputs */
  tenon_tensor_t inputs[]; /* the inputs that are present, in order */
} site_t;

/* What a call with known shapes reads is together at the beginning: a graph has many kernels. */
typedef struct kernel_t {
  const operator_t *self; /* of a graph: a name for messages, without op */
  const tenon_value_t *attr_values;
  uint32_t tensor_count; /* of all inputs */
  /* Single tensors only, and all results are tensors with memory of their own, so calls with known
   * shapes are kept. */
  bool is_plain;
  bool keeps; /* The call may keep its arguments, or owns lists of them. */
  _Atomic(const site_t *) sites[SITES_MOST];
  pthread_mutex_t lock; /* for adding a site */
  bool depends_on_data; /* Data determines shapes of results, so no sites are added. */
  model_t model;        /* the graph that the node runs */
  tenon_attrs_t *attrs;
  int32_t counts[OPERATOR_MOST];        /* tensors of each input; -1: the input is absent */
  int32_t output_counts[OPERATOR_MOST]; /* tensors of each result; 0: it is not wanted */
  uint64_t wanted;                      /* as for tenon_op_call */
  uint64_t given;                       /* gradients: the results that have one; 0: a call */
  uint64_t requested;                   /* gradients: the inputs that get one */
} kernel_t;

/* Creates a kernel without attributes and counts, which the caller fills in.
 * Returns: NULL without memory. */
kernel_t *kernel_new(const operator_t *self);
/* Completes a kernel whose operator, attributes, counts and gradients are set. */
tenon_status_t kernel_finish(kernel_t *kernel);
/* Makes the construction of a kernel fail. */
void kernel_fail(tf_construction_t *construction, tf_status_t *status, tenon_status_t code,
                 const char *message);

/* Returns this thread's status, which is reset to TF_OK. */
tf_status_t *status_of_thread(void);

/* ---- calls with known shapes (site.c) ---- */

/* Runs a plain call if its shapes are known from an earlier one. `handles` are the inputs.
 * Returns: false if they are not; nothing has happened then. */
bool site_run(kernel_t *kernel, tf_context_t *context, tf_tensor_t *const *handles,
              tf_status_t *status);
/* Notes the shapes of a plain call that was made. */
void site_remember(kernel_t *kernel, tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs);

#endif
