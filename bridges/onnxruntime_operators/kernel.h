/* A kernel of ONNX Runtime: an operator with the attributes of one node, prepared once and called
 * often, by several threads at the same time. */
#ifndef BRIDGES_ONNXRUNTIME_OPERATORS_KERNEL_H
#define BRIDGES_ONNXRUNTIME_OPERATORS_KERNEL_H

#include <pthread.h>
#include <stdatomic.h>

#include "operator.h"

enum { SITES_MOST = 16 };

/* The views of the lists of a call. */
typedef struct lists_t {
  tenon_tensor_t views[LISTS_MOST];
  int64_t counts[LISTS_MOST];
  int64_t strides[LISTS_MOST];
} lists_t;

/* The shapes of a call that was made before, with the views of its tensors, in one block. */
typedef struct site_t {
  tenon_tensor_t *outputs; /* they follow the inputs */
  tenon_tensor_t inputs[]; /* the tensors that are present, in order */
} site_t;

/* A tensor of the node: its place among the inputs or outputs, and what it belongs to. */
typedef struct port_t {
  uint16_t index;    /* in the node */
  uint16_t argument; /* in the schema */
  tenon_dtype_t dtype;
} port_t;

/* What a call with known shapes reads is together at the beginning: a model has many kernels. */
typedef struct kernel_t {
  const operator_t *of;
  tenon_bound_t *bound;
  int32_t in_count;  /* tensors that are present */
  int32_t out_count; /* outputs that are wanted */
  /* No strings, no lists of results, and all results have memory of their own, so calls with known
   * shapes are kept. */
  bool is_plain;
  bool keeps; /* the call may keep its arguments, so they are tensors of their own */
  atomic_bool depends_on_data; /* data determines shapes of results, so no sites are added */
  _Atomic(const site_t *) sites[SITES_MOST];
  port_t *in;                       /* in_count of them */
  port_t *out;                      /* out_count of them */
  int32_t counts[SIDE_MOST];        /* tensors of each input; -1: the input is absent */
  int32_t out_counts[OUTPUTS_MOST]; /* tensors of each result; -1: it is not wanted */
  uint64_t wanted;                  /* as for tenon_bound_call */
  pthread_mutex_t lock;             /* for adding a site */
  const tenon_value_t *attr_values;
  tenon_attrs_t *attrs;
  tenon_generator_t *generator;       /* of the node's seed; NULL: that of the thread */
  tenon_detail_t *details[SIDE_MOST]; /* of inputs that the node states to be quantised */
  port_t places[];
} kernel_t;

/* What a call knows about an input: the memory and the shape are ONNX Runtime's. */
typedef struct given_t {
  const OrtValue *value;
  void *data;
  const int64_t *shape;
  size_t rank;
} given_t;

/* Runs a plain call if its shapes are known from an earlier one. `*out_done` is false if they are
 * not; nothing has happened then. */
OrtStatus *site_run(kernel_t *kernel, OrtKernelContext *context, const given_t *given,
                    bool *out_done);
/* Notes the shapes of a plain call, which depend on the shapes of the inputs alone. `tensors` are
 * the inputs that are present, `outputs` those of the schema. */
void site_remember(kernel_t *kernel, tenon_tensor_t *const *tensors,
                   tenon_tensor_t *const *outputs);
/* Arranges the tensors that are present as the inputs of the schema. */
void kernel_arrange(const kernel_t *kernel, tenon_tensor_t **tensors, lists_t *lists,
                    tenon_tensor_t **inputs);
/* Runs any call. */
OrtStatus *call_run(kernel_t *kernel, OrtKernelContext *context, const given_t *given);

#endif
