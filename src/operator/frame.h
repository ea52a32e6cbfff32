/* A call in progress: the structure that kernels get, and behind it what the host needs.  Every
 * tenon_call_t that the host passes out is the head of a frame, so that services find the rest. */
#ifndef TN_OPERATOR_FRAME_H
#define TN_OPERATOR_FRAME_H

#include "base/scratch.h"
#include "operator/op.h"

/* Memory that lives as long as the frame. */
typedef struct tn_temporary_t {
  struct tn_temporary_t *next;
  tenon_tensor_t *tensor; /* released, or NULL */
  void *block;            /* freed, or NULL */
} tn_temporary_t;

typedef struct tenon_layer_t tenon_layer_t;

typedef struct tn_frame_t {
  tenon_call_t call;
  const tn_kernel_t *kernel; /* NULL until one was chosen */
  tn_temporary_t *temporaries;
  /* Once the call has come past the layers, its outputs are inferred and checked, and unallocated
   * ones are created.  In a call that accumulates it is found there whether the kernel does. */
  uint64_t infers;
  const tn_table_entry_t *entry; /* that runs now */
  uint64_t keys; /* the highest is the entry's; those below are for passing the call on */
  /* The arguments with which the call began; inputs NULL: not all arguments are dense. */
  tenon_tensor_t *const *inputs;
  tenon_tensor_t *const *outputs;
  const tenon_layer_t *layer; /* a program's layer, while it runs */
  struct tn_mode_t *mode;     /* a mode, while it runs */
} tn_frame_t;

/* The services of dispatch/services.c, for nodes that are made without a call: set when the process
 * starts. */
extern const tenon_host_t *tn_host_services;

static inline tn_frame_t *tn_frame_of(tenon_call_t *call) { return (tn_frame_t *)call; }
static inline const tn_frame_t *tn_frame_of_const(const tenon_call_t *call) {
  return (const tn_frame_t *)call;
}
/* Frees what the frame's kernel left; the frame may be used for another call. */
void tn_frame_clean(tn_frame_t *frame);
static inline void tn_frame_close(tn_frame_t *frame) {
  if (frame->temporaries) tn_frame_clean(frame);
}
/* Lets the frame own a reference to the tensor. */
tenon_status_t tn_frame_keep(tn_frame_t *frame, tenon_tensor_t *tensor);
/* The same of a block of tn_allocate_aligned; if it fails, the block stays the caller's. */
tenon_status_t tn_frame_keep_block(tn_frame_t *frame, void *block);

/* Runs the graph of a call's body: src/graph sets it when the process starts. */
extern tenon_status_t (*tn_evaluate)(tenon_call_t *call, const tenon_graph_t *graph,
                                     uint32_t input_count, tenon_tensor_t *const *inputs,
                                     uint32_t output_count, tenon_tensor_t **outputs);

/* Autograd's part of a call, set when the process starts: what makes history of calls, what gives a
 * dense copy or an unallocated output the history of the tensor that it stands for, and what learns
 * of each view. */
typedef struct tn_autograd_t {
  tenon_run_fn record;
  tenon_status_t (*share)(tenon_tensor_t *from, tenon_tensor_t *copy);
  tenon_status_t (*view)(tenon_tensor_t *of, tenon_tensor_t *view);
} tn_autograd_t;
extern tn_autograd_t tn_autograd;

/* How deep calls may be nested in the calls that composites, layers and modes make.  Past that
 * depth one of them calls itself. */
enum { TN_NESTING_MOST = 200 };
tenon_status_t tn_nested_too_deep(const tenon_op_t *op);

#endif
