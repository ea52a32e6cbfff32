/* The operator record: what a library's items became.  The first two cache lines are all that a call reads.  Made by
 * registry.c, constant afterwards except for kernels that other libraries add. */
#ifndef TN_DISPATCH_OP_H
#define TN_DISPATCH_OP_H

#include "base/arena.h"
#include "base/thread.h"
#include "core/gradient.h"
#include "core/pattern.h"
#include "core/rules.h"
#include "core/schema.h"
#include "core/types.h"
#include "core/upgrade.h"
#include "dispatch/key.h"

typedef struct tn_library_t tn_library_t;

enum { TN_KERNEL_DEVICE, TN_KERNEL_COMPOSITE, TN_KERNEL_LOOP, TN_KERNEL_ROW, TN_KERNEL_VIEW };

typedef struct tn_loop_t {
  tenon_loop_fn function;
  tn_loop_words_t words;
  void *context;
} tn_loop_t;

typedef struct tn_kernel_t {
  tenon_run_fn run; /* the kernel itself, or the driver of its loops */
  void *context;
  uint8_t kind;
  tn_kernel_words_t words;
  tn_loop_t loop;        /* LOOP, ROW */
  tenon_node_fn prepare; /* NULL: none */
  tenon_free_fn release;
  const tn_library_t *library;
  const char *text;
  struct tn_kernel_t *next; /* all kernels of the operator, in order of registration */
} tn_kernel_t;

typedef struct tn_slot_t { /* what the table leads to */
  tenon_run_fn run;
  void *context;
} tn_slot_t;

struct tenon_op_t {
  /* line 0 */
  uint64_t mask; /* keys that are not fallthrough */
  const tn_slot_t *slots;
  const tenon_value_t *defaults;
  const tenon_op_t *const *uses;
  uint32_t input_count, output_count;
  int32_t dispatch_input;   /* whose dtype chooses among kernels; -1: none */
  uint32_t needs_workspace; /* set once some infer asked for workspace */
  uint64_t traits;
  const tn_kernel_t *const *const
      *by_dtype; /* for each dtype candidates of the CPU, best first; NULL: `kernel` for all */
  /* line 1 */
  uint8_t index[TN_KEY_COUNT]; /* of slots, 0: missing */
  /* colder */
  const char *name; /* full */
  tn_schema_t schema;
  tn_types_t types;
  tn_patterns_t shapes, sharding;
  tn_gradient_t gradient;
  tn_batching_t batching;
  const uint8_t *where; /* TN_INPUT_... of each input, NULL: none */
  const int32_t *reuse; /* input of each result, -1: none */
  const char *doc, *where_text, *reuse_text;
  tenon_infer_fn infer;
  tenon_node_fn validate, create, prepare;
  tenon_free_fn destroy, release;
  void *context; /* of the library: infer, create, ... */
  const char *const *use_names;
  uint32_t use_count;
  int64_t version;
  tn_upgrades_t upgrades;
  const tn_kernel_t *kernel; /* of the CPU when by_dtype is NULL */
  tn_kernel_t *kernels;      /* all */
  const tn_library_t *library;
  tn_mutex_t serial;          /* held by calls of "serial" kernels */
  struct tn_states_t *states; /* of calls without a binding, by attribute values: state.c */
  tn_arena_t arena;
};

/* The kernel that the CPU uses for tensors of these dtypes; NULL: none (the caller reports tn_op_missing). */
const tn_kernel_t *tn_op_kernel(const tenon_op_t *op, tenon_tensor_t *const *inputs, tenon_tensor_t *const *outputs);
const tn_kernel_t *tn_op_kernel_of_dtype(const tenon_op_t *op, tenon_dtype_t dtype);
/* "ns::op has no kernel for f64 on cpu; it has: ..." */
tenon_status_t tn_op_missing(const tenon_op_t *op, int key, tenon_tensor_t *const *inputs);
/* "ns::op: input x is quantised, and no kernel says so" */
tenon_status_t tn_op_not_quantised(const tenon_op_t *op, tenon_tensor_t *const *inputs);

#endif
