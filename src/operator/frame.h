/* A call in progress: the structure that kernels get, followed by what the host needs.  Every
 * tenon_call_t that the host passes out is the head of a frame, so that services find the rest. */
#ifndef TN_OPERATOR_FRAME_H
#define TN_OPERATOR_FRAME_H

#include "base/scratch.h"
#include "operator/op.h"

/* Memory that lives as long as the frame. */
typedef struct tn_temporary_t {
  struct tn_temporary_t *next;
  tenon_tensor_t *tensor; /* released with the frame; NULL: none */
  void *block;            /* freed with the frame; NULL: none */
} tn_temporary_t;

typedef struct tenon_layer_t tenon_layer_t;

typedef struct tn_frame_t {
  tenon_call_t call;
  const tn_kernel_t *kernel; /* NULL until a kernel is chosen */
  tn_temporary_t *temporaries;
  /* Not 0: when the call has passed the layers, its outputs are inferred and checked, and
   * unallocated ones are created. A call that accumulates then finds out whether its kernel
   * does. */
  uint32_t infers;
  uint32_t owned;                /* 0: `temporaries` is NULL; else TN_FRAME_OWNS */
  const tn_table_entry_t *entry; /* the entry that runs now */
  /* The highest key is that of the entry; lower ones serve to pass the call on. */
  uint64_t keys;
  /* The arguments with which the call began. `inputs` is NULL if not all arguments are dense. */
  tenon_tensor_t *const *inputs;
  tenon_tensor_t *const *outputs;
  const tenon_layer_t *layer; /* the layer of a program that runs now */
  struct tn_mode_t *mode;     /* the mode that runs now */
} tn_frame_t;

/* The services of dispatch/services.c, for nodes that are created without a call. Set when the
 * process starts. */
extern const tenon_host_t *tn_host_services;

static inline tn_frame_t *tn_frame_of(tenon_call_t *call) { return (tn_frame_t *)call; }
static inline const tn_frame_t *tn_frame_of_const(const tenon_call_t *call) {
  return (const tn_frame_t *)call;
}
#define TN_FRAME_OWNS 0x7e4a51e1u
/* Frees what the frame's kernel left. The frame may then be used for another call. */
void tn_frame_clean(tn_frame_t *frame);
/* Closes the frame of a call that has failed or left something; see reason.h. */
tenon_status_t __attribute__((cold)) tn_frame_fail(tn_frame_t *frame, tenon_status_t status);
/* Closes the frame of a call that returned `status`. Returns the status of the call, which has a
 * reason. One comparison finds both failures and temporaries, so that successful calls pay nothing
 * for the former: usually both sides are 0. TN_FRAME_OWNS is no status. */
static inline tenon_status_t tn_frame_close(tn_frame_t *frame, tenon_status_t status) {
  if (__builtin_expect(frame->owned != (uint32_t)status, 0)) return tn_frame_fail(frame, status);
  return status;
}
/* Makes the frame own a reference to the tensor, which it releases even if it fails. */
tenon_status_t tn_frame_keep(tn_frame_t *frame, tenon_tensor_t *tensor);
/* Does the same for a block of tn_allocate_aligned. If it fails, the caller still owns the
 * block. */
tenon_status_t tn_frame_keep_block(tn_frame_t *frame, void *block);
/* Gives up the newest reference to the tensor that the frame owns. Does nothing if it owns none. */
void tn_frame_release(tn_frame_t *frame, const tenon_tensor_t *tensor);

/* Runs the graph of a call's body: src/graph sets it when the process starts. */
extern tenon_status_t (*tn_evaluate)(tenon_call_t *call, const tenon_graph_t *graph,
                                     uint32_t input_count, tenon_tensor_t *const *inputs,
                                     uint32_t output_count, tenon_tensor_t **outputs);

/* Autograd's part of a call, set when the process starts. `record` records the history of calls,
 * `share` gives a dense copy or an unallocated output the history of the tensor that it stands for,
 * and `view` is told of each view. */
typedef struct tn_autograd_t {
  tenon_run_fn record;
  tenon_status_t (*share)(tenon_tensor_t *from, tenon_tensor_t *copy);
  tenon_status_t (*view)(tenon_tensor_t *of, tenon_tensor_t *view);
} tn_autograd_t;
extern tn_autograd_t tn_autograd;

/* How deeply composites, layers and modes may nest calls. At a greater depth, one of them calls
 * itself. */
enum { TN_NESTING_MOST = 200 };
tenon_status_t tn_nested_too_deep(const tenon_op_t *op);

#endif
