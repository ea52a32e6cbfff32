/* The tape: a tape node is one recorded call, or a leaf. The history of a tensor says which result
 * of which node it is. A node lives as long as a tensor has its history in it or a later node
 * depends on it. All parts of a node are one block of memory. */
#ifndef TN_AUTOGRAD_NODE_H
#define TN_AUTOGRAD_NODE_H

#include "core/dtype.h"
#include "core/tensor.h"
#include "operator/op.h"

typedef struct tn_node_t tn_node_t;
typedef struct tenon_hook_t tenon_hook_t;

enum {
  TN_NODE_LEAF,     /* gradients accumulate here */
  TN_NODE_FORMULAS, /* an operator with a GRADIENT text */
  TN_NODE_FUNCTION, /* forward and backward of a program */
  TN_NODE_ERROR,    /* an operator without a gradient: backward fails */
  TN_NODE_WARN,     /* the same: backward warns once and passes no gradient */
  TN_NODE_VIEW,     /* a view whose base has been written to since: alias.c */
  TN_NODE_WRITE,    /* a base one of whose views has been written to */
};

typedef struct tn_history_t { /* of a tensor: one result of a node */
  tn_node_t *node;
  tenon_hook_t *hooks;
  tenon_tensor_t *grad; /* of a leaf: the sum; of other results: kept if `retains` */
  const int64_t *shape; /* of the tensor */
  int32_t ndim;
  tenon_dtype_t dtype;
  uint8_t retains;
  uint8_t is_float; /* the dtype can have a gradient */
} tn_history_t;

/* From an input to the result that it was; `to` is NULL if no gradient is wanted there. */
typedef struct tn_edge_t {
  tn_history_t *to; /* holds a reference to its node */
} tn_edge_t;

/* What backward needs of a tensor: its memory and its header. Never the tensor itself, whose
 * history may later lead to this node. */
typedef struct tn_saved_t {
  /* NULL: absent, not needed, only shape and dtype needed, or `tensor` is used. */
  tn_storage_t *storage;
  /* Used in place of the fields below: a tensor of our own without history, or a list of such
   * tensors. */
  tenon_tensor_t *tensor;
  /* Holds a reference to its node unless `is_own`; NULL: none. */
  tn_history_t *history;
  void *data;
  uint64_t byte_offset;
  const tenon_detail_t *detail;
  const int64_t *shape;
  const int64_t *strides; /* NULL: dense */
  uint64_t keys;
  uint64_t version; /* of the memory when it was saved */
  tenon_device_t device;
  tenon_dtype_t dtype;
  int32_t ndim;
  uint8_t is_shape; /* only shape and dtype are needed */
  uint8_t is_own;   /* a result of the node that saves it */
} tn_saved_t;

typedef struct tn_geometry_t { /* how a view lies in the memory of its base; counted in elements */
  int64_t size;                /* of the base's memory */
  int64_t base_offset;
  int64_t offset; /* of the first element */
  const int64_t *base_shape;
  const int64_t *base_strides;
  const int64_t *shape;
  const int64_t *strides;
  int32_t base_ndim;
  int32_t ndim;
} tn_geometry_t;

struct tn_node_t {
  int64_t references; /* atomic */
  uint64_t sequence;  /* greater than the sequence of every node it depends on; leaves: 0 */
  uint8_t kind;
  uint8_t is_released;  /* a backward pass has released the saved tensors */
  uint8_t uses_library; /* keeps the library from being unloaded */
  uint8_t owns_attrs;
  const tenon_op_t *op; /* NULL: leaf or function */
  const char *label;    /* the graph node whose execution it is; NULL: none */
  void *state;
  /* Owner of the state if the formula reads @state; NULL: the operator owns it. */
  struct tenon_bound_t *bound;
  const tenon_value_t *attrs;
  uint32_t attr_count;
  uint32_t edge_count;
  uint32_t result_count;
  uint32_t saved_count;
  tn_edge_t *edges;      /* of each input; of a list, of each item */
  tn_history_t *results; /* of each result; of a list, of each item */
  tn_saved_t *saved;     /* of an operator: inputs, then results; a list is one entry */
  /* First edge of each input and the end, then first result of each output and the end; NULL: no
   * lists. */
  const uint32_t *starts;
  struct tn_function_t *function;
  tn_geometry_t *geometry; /* of VIEW and WRITE */
  size_t size;             /* of the block */
  tn_arena_t arena;        /* of attributes that are lists */
  tn_node_t *next;         /* in the list of nodes to be freed */
};

typedef struct tn_node_shape_t { /* counts of the parts of a node */
  uint32_t edge_count;
  uint32_t result_count;
  uint32_t saved_count;
  uint32_t attr_count;
  uint32_t start_count;
  uint32_t geometry_count;
  size_t extents; /* for shapes */
} tn_node_shape_t;

/* Creates an empty node with one reference. *out_extents points to the space for shapes. */
tenon_status_t tn_node_create(int kind, const tn_node_shape_t *shape, tn_node_t **out_node,
                              int64_t **out_extents);
static inline void tn_node_retain(tn_node_t *node) {
  __atomic_fetch_add(&node->references, 1, __ATOMIC_RELAXED);
}
/* Frees everything that only this node holds, without recursion, however long the history is. */
void tn_node_release(tn_node_t *node);
/* Between the two calls nothing is freed on this thread, which holds a lock that freeing may need.
 * tn_nodes_free then frees it. */
bool tn_nodes_hold(void);
void tn_nodes_free(bool was_held);
/* Releases what backward needs. No further pass can visit the node. */
void tn_node_clear(tn_node_t *node);
/* Returns: the node's name for messages. */
const char *tn_node_name(const tn_node_t *node);

static inline tn_history_t *tn_history_of(const tenon_tensor_t *tensor) {
  return tensor && tn_tensor_is_owned(tensor) ? ((const tn_tensor_t *)tensor)->history : NULL;
}
/* Replaces the history of a tensor (owned, not a list). `put` does not inform the tensor's base or
 * views. */
void tn_history_set(tenon_tensor_t *tensor, tn_history_t *history);
void tn_history_put(tenon_tensor_t *tensor, tn_history_t *history);
/* Fills in a result's history from its tensor and advances *extents. */
void tn_history_describe(tn_history_t *history, tn_node_t *node, const tenon_tensor_t *tensor,
                         int64_t **extents);

/* Saves a tensor. A view on a caller's stack is copied. `own` is its history if the tensor is a
 * result of the saving node, otherwise NULL. Advances *extents past the shape; NULL: the node has
 * no space for it. */
tenon_status_t tn_saved_set(tn_saved_t *saved, tenon_tensor_t *tensor, tn_history_t *own,
                            int64_t **extents);
/* Returns the saved tensor with its history, as a new reference. Errors: PRECONDITION if its memory
 * was written to since; the message names `owner` and `argument`. */
tenon_status_t tn_saved_get(const tn_saved_t *saved, const char *owner, const char *argument,
                            tenon_tensor_t **out_tensor);
static inline bool tn_saved_is_set(const tn_saved_t *saved) {
  return saved->storage || saved->tensor;
}
void tn_saved_clear(tn_saved_t *saved);

struct tenon_hook_t {
  int64_t references; /* atomic: the history and the handle */
  /* NULL: removed. */
  tenon_status_t (*function)(void *context, tenon_tensor_t *grad, tenon_tensor_t **out_grad);
  void *context;
  tenon_free_fn destroy;
  bool is_after; /* sees the sum at a leaf */
  struct tenon_hook_t *next;
};
void tn_hook_release(tenon_hook_t *hook);

#endif
