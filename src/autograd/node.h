/* History: a node is one call that was recorded, or a leaf; a tensor's history is its place among
 * the results of a node. Nodes live as long as tensors have history in them or later nodes lead to
 * them; the whole is one block of memory. */
#ifndef TN_AUTOGRAD_NODE_H
#define TN_AUTOGRAD_NODE_H

#include "core/tensor.h"
#include "operator/op.h"

typedef struct tn_node_t tn_node_t;
typedef struct tenon_hook_t tenon_hook_t;

enum {
  TN_NODE_LEAF,     /* gradients accumulate here */
  TN_NODE_RULES,    /* an operator with GRADIENT text */
  TN_NODE_FUNCTION, /* forward and backward of a program */
  TN_NODE_ERROR,    /* an operator without a gradient: backward fails */
  TN_NODE_WARN,     /* the same: backward says so once, and gives nothing */
  TN_NODE_VIEW,     /* a view, of what its base is since that was written to: alias.c */
  TN_NODE_WRITE,    /* a base, since one of its views was written to */
};

typedef struct tn_history_t { /* of a tensor: one result of a node */
  tn_node_t *node;
  tenon_hook_t *hooks;
  tenon_tensor_t *grad; /* leaf: the sum; others: kept if `retains` */
  const int64_t *shape; /* of the tensor */
  int32_t ndim;
  tenon_dtype_t dtype;
  uint8_t retains;
  uint8_t is_float; /* else no gradient comes */
} tn_history_t;

typedef struct
    tn_edge_t {     /* from an input to the result that it was; NULL: nothing is wanted there */
  tn_history_t *to; /* holds a reference to its node */
} tn_edge_t;

/* What is kept of a tensor for backward: its memory and what it looks like, never the tensor
 * itself, whose history may become one that leads here. */
typedef struct tn_saved_t {
  tn_storage_t
      *storage; /* NULL: absent, not needed, or only shape and dtype are, or it is `tensor` */
  tenon_tensor_t
      *tensor; /* in place of the following: one of our own, without history, or a list of such */
  tn_history_t *history; /* holds a reference to its node, unless is_own; NULL: none */
  void *data;
  uint64_t byte_offset;
  const tenon_detail_t *detail;
  const int64_t *shape;
  const int64_t *strides; /* strides NULL: dense */
  uint64_t keys;
  uint64_t version; /* version: of its memory when it was saved */
  tenon_device_t device;
  tenon_dtype_t dtype;
  int32_t ndim;
  uint8_t is_shape; /* only shape and dtype are needed */
  uint8_t is_own;   /* a result of the node that saves it */
} tn_saved_t;

typedef struct tn_geometry_t { /* how a view lies in the memory of its base; counts elements */
  int64_t size;                /* of that memory */
  int64_t base_offset;
  int64_t offset; /* of the first element of each */
  const int64_t *base_shape;
  const int64_t *base_strides;
  const int64_t *shape;
  const int64_t *strides;
  int32_t base_ndim;
  int32_t ndim;
} tn_geometry_t;

struct tn_node_t {
  int64_t references; /* atomic */
  uint64_t sequence;  /* greater than that of every node it leads to; leaves: 0 */
  uint8_t kind;
  uint8_t is_released;  /* backward was here and did not keep it */
  uint8_t uses_library; /* its library cannot go meanwhile */
  uint8_t owns_attrs;
  const tenon_op_t *op; /* NULL: leaf, function */
  const char *label;    /* the node of a graph whose run it is of; NULL: none */
  void *state;
  struct tenon_bound_t *bound; /* that owns the state, if @state is read; NULL: the operator does */
  const tenon_value_t *attrs;
  uint32_t attr_count;
  uint32_t edge_count;
  uint32_t result_count;
  uint32_t saved_count;
  tn_edge_t *edges;      /* of each input; of lists, each item */
  tn_history_t *results; /* of each result; of lists, each item */
  tn_saved_t *saved;     /* of an operator: inputs, then results, lists whole */
  const uint32_t
      *starts; /* where inputs' edges begin, one more, then results' and one more; NULL: no lists */
  struct tn_function_t *function;
  tn_geometry_t *geometry; /* VIEW, WRITE */
  size_t size;             /* of its block */
  tn_arena_t arena;        /* of attributes that are lists */
  tn_node_t *next;         /* among those to be freed */
};

typedef struct tn_node_shape_t { /* what a node needs room for */
  uint32_t edge_count;
  uint32_t result_count;
  uint32_t saved_count;
  uint32_t attr_count;
  uint32_t start_count;
  uint32_t geometry_count;
  size_t extents; /* of shapes */
} tn_node_shape_t;

/* A node with one reference and nothing in it; *out_extents: the room for shapes. */
tenon_status_t tn_node_create(int kind, const tn_node_shape_t *shape, tn_node_t **out_node,
                              int64_t **out_extents);
static inline void tn_node_retain(tn_node_t *node) {
  __atomic_fetch_add(&node->references, 1, __ATOMIC_RELAXED);
}
/* Frees what goes with it without recursion, however long the history is. */
void tn_node_release(tn_node_t *node);
/* Between the two nothing is freed on this thread, which holds a lock that freeing may want:
 * tn_nodes_free does it then. */
bool tn_nodes_hold(void);
void tn_nodes_free(bool was_held);
/* Lets go of what backward needs: the node cannot be gone through again. */
void tn_node_clear(tn_node_t *node);
/* What to call it in messages. */
const char *tn_node_name(const tn_node_t *node);

static inline tn_history_t *tn_history_of(const tenon_tensor_t *tensor) {
  return tensor && tn_tensor_is_owned(tensor) ? ((const tn_tensor_t *)tensor)->history : NULL;
}
static inline bool
tn_is_differentiable(tenon_dtype_t dtype) { /* floats of any width, and complex numbers */
  return dtype.code >= 2 && dtype.code != 3 && dtype.code != 6 && dtype.code < 18;
}
/* Gives the tensor (owned, not a list) that history; what it had goes.  `put` does not tell what it
 * is a view of. */
void tn_history_set(tenon_tensor_t *tensor, tn_history_t *history);
void tn_history_put(tenon_tensor_t *tensor, tn_history_t *history);
/* Fills in a result's place from its tensor; *extents moves on. */
void tn_history_describe(tn_history_t *history, tn_node_t *node, const tenon_tensor_t *tensor,
                         int64_t **extents);

/* Saves a tensor; one that is a view on a caller's stack is copied.  `own` is the place that it has
 * among the results of the node that saves it, or NULL.  *extents moves on past the shape; NULL:
 * there is no room in the node. */
tenon_status_t tn_saved_set(tn_saved_t *saved, tenon_tensor_t *tensor, tn_history_t *own,
                            int64_t **extents);
/* The saved tensor with its history, a new reference.  Fails when its memory was written to since:
 * the message names `owner` and `argument`. */
tenon_status_t tn_saved_get(const tn_saved_t *saved, const char *owner, const char *argument,
                            tenon_tensor_t **out_tensor);
static inline bool tn_saved_is_set(const tn_saved_t *saved) {
  return saved->storage || saved->tensor;
}
void tn_saved_clear(tn_saved_t *saved);

struct tenon_hook_t {
  int64_t references; /* atomic: the history and the handle */
  tenon_status_t (*function)(void *context, tenon_tensor_t *grad,
                             tenon_tensor_t **out_grad); /* NULL: it is off */
  void *context;
  tenon_free_fn destroy;
  bool is_after; /* sees the sum at a leaf */
  struct tenon_hook_t *next;
};
void tn_hook_release(tenon_hook_t *hook);

#endif
