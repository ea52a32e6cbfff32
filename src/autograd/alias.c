/* Bases and views; see alias.h. Called when views are created, when calls that write are recorded
 * on the tape, and by backward. Invariant: all tensors that share a memory know the history of its
 * base, even after the base tensor is gone. A base lives as long as one of these tensors. */
#include "autograd/alias.h"

#include <string.h>
#include <tenon/tenon.h>

#include "autograd/formula.h"
#include "autograd/tape.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/dtype.h"
#include "storage/device_memory.h"

typedef struct tn_base_t {
  tn_mutex_t lock;
  tn_alias_t *members;
  tn_history_t *history; /* holds a reference to its node; NULL: none */
  tn_node_t *fresh;      /* node prepared for the base, for when a view has been written to */
  char *begin;           /* of the base's memory */
  int64_t size;          /* of the memory, in elements */
  int64_t offset;        /* of the first element */
  tenon_dtype_t dtype;
  int32_t ndim;
  int64_t room[]; /* shape, then strides */
} tn_base_t;

struct tn_alias_t {
  tn_base_t *base;
  tn_tensor_t *tensor;
  tn_alias_t *next;
  tn_alias_t *before;
  tn_node_t *fresh; /* node prepared for a view, for when another tensor has been written to */
  bool is_base;     /* the base tensor itself */
  bool is_off_tape; /* created while recording was off */
  bool is_lost;     /* its memory was written to afterwards, so its history is unknown */
};

static bool is_leaf(const tn_history_t *history) {
  return history && history->node->kind == TN_NODE_LEAF;
}

static size_t base_size(int32_t ndim) {
  return sizeof(tn_base_t) + 2 * (size_t)ndim * sizeof(int64_t);
}

static void add_alias_member(tn_alias_t *alias, tn_base_t *base, tn_tensor_t *tensor) {
  *alias = (tn_alias_t){.base = base, .tensor = tensor, .next = base->members};
  if (base->members) base->members->before = alias;
  base->members = alias;
}

/* The caller holds the base's lock. */
static void set_history(tn_base_t *base, tn_history_t *history) {
  tn_history_t *before = base->history;
  base->history = history;
  if (history) tn_node_retain(history->node);
  if (before) tn_node_release(before->node);
}

static void free_base(tn_base_t *base) {
  if (base->history) tn_node_release(base->history->node);
  tn_node_release(base->fresh);
  tn_block_put(base, base_size(base->ndim));
}

static tenon_status_t create_base(tn_tensor_t *tensor, tn_alias_t **out_alias) {
  tenon_tensor_t *t = &tensor->view;
  char *begin = tn_address(t);
  char *end = begin;
  tn_base_t *base = tn_block_get(base_size(t->ndim));
  tn_alias_t *alias = tn_block_get(sizeof *alias);
  if (!base || !alias) {
    tn_block_put(base, base_size(t->ndim));
    tn_block_put(alias, sizeof *alias);
    return tn_no_memory("a view", base_size(t->ndim) + sizeof *alias);
  }
  int64_t item = t->dtype.bits * t->dtype.lanes / 8;
  (void)tn_tensor_span(t, &begin, &end);
  *base = (tn_base_t){.begin = begin,
                      .size = (end - begin) / item,
                      .offset = (tn_address(t) - begin) / item,
                      .dtype = t->dtype,
                      .ndim = t->ndim};
  for (int32_t i = 0; i < t->ndim; i++) {
    base->room[i] = t->shape[i];
    base->room[t->ndim + i] = t->strides[i];
  }
  set_history(base, tensor->history);
  add_alias_member(alias, base, tensor);
  alias->is_base = true;
  *out_alias = alias;
  return TENON_OK;
}

/* Returns the alias of a tensor, creating it for the tensor's first view. Several threads may do so
 * at once. */
static tenon_status_t alias_of(tn_tensor_t *tensor, tn_alias_t **out_alias) {
  tn_alias_t *found = __atomic_load_n(&tensor->alias, __ATOMIC_ACQUIRE);
  tn_alias_t *fresh;
  if ((*out_alias = found)) return TENON_OK;
  TN_TRY(create_base(tensor, &fresh));
  if (__atomic_compare_exchange_n(&tensor->alias, &found, fresh, false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE)) {
    *out_alias = fresh;
    return TENON_OK;
  }
  free_base(fresh->base);
  tn_block_put(fresh, sizeof *fresh);
  *out_alias = found;
  return TENON_OK;
}

tenon_status_t tn_alias_add(tenon_tensor_t *of, tenon_tensor_t *view) {
  tn_tensor_t *a = (tn_tensor_t *)of;
  tn_tensor_t *b = (tn_tensor_t *)view;
  tn_alias_t *other, *alias;
  if (!tn_tensor_is_owned(of) || !tn_tensor_is_owned(view) || a == b || !a->storage ||
      a->storage != b->storage)
    return TENON_OK;
  if (b->alias || !of->data || a->storage->is_inference || of->keys & TN_TENSOR_COPY ||
      !tn_is_differentiable(of->dtype) || of->dtype.bits < 8)
    return TENON_OK;
  TN_TRY(alias_of(a, &other));
  if (!(alias = tn_block_get(sizeof *alias))) return tn_no_memory("a view", sizeof *alias);
  tn_base_t *base = other->base;
  tn_mutex_lock(&base->lock);
  add_alias_member(alias, base, b);
  alias->is_off_tape = !tn_tape_is_on();
  alias->is_lost = other->is_lost;
  /* Autograd then sees writes to the view, and refuses them. */
  if (base->history && alias->is_off_tape) view->keys |= TN_KEY(TN_BIT_AUTOGRAD);
  tn_mutex_unlock(&base->lock);
  b->alias = alias;
  return TENON_OK;
}

void tn_alias_follow(tn_alias_t *alias, tn_history_t *history) {
  bool was_held = tn_nodes_hold();
  tn_mutex_lock(&alias->base->lock);
  if (history) alias->is_off_tape = alias->is_lost = false;
  if (alias->is_base) set_history(alias->base, history);
  tn_mutex_unlock(&alias->base->lock);
  tn_nodes_free(was_held);
}

static void release_alias(tn_alias_t *alias) {
  tn_base_t *base = alias->base;
  tn_mutex_lock(&base->lock);
  *(alias->before ? &alias->before->next : &base->members) = alias->next;
  if (alias->next) alias->next->before = alias->before;
  bool is_last = !base->members;
  tn_mutex_unlock(&base->lock);
  tn_node_release(alias->fresh);
  tn_block_put(alias, sizeof *alias);
  if (is_last) free_base(base);
}

void tn_alias_start(void) { tn_alias_release = release_alias; }

bool tn_alias_is_lost(const tenon_tensor_t *t) {
  const tn_alias_t *alias = tn_tensor_is_owned(t) ? ((const tn_tensor_t *)t)->alias : NULL;
  return alias && alias->is_lost;
}

/* Certain for an axis with stride 0; other overlaps are not detected. */
static bool overlaps(const tenon_tensor_t *t) {
  for (int32_t i = 0; i < t->ndim; i++)
    if (t->shape[i] > 1 && t->strides[i] == 0) return true;
  return false;
}

static bool lies_in(const tn_base_t *base, const tenon_tensor_t *t) {
  char *begin, *end;
  if (!tn_dtype_same(t->dtype, base->dtype)) return false;
  return !tn_tensor_span(t, &begin, &end) ||
         (begin >= base->begin &&
          end <= base->begin + base->size * (t->dtype.bits * t->dtype.lanes / 8));
}

tenon_status_t tn_alias_check(const tenon_tensor_t *t, const char *op, const char *role,
                              const char *name) {
  const tn_alias_t *alias = ((const tn_tensor_t *)t)->alias;
  if (!alias) return TENON_OK;
  if (alias->is_off_tape)
    return tn_fail(TENON_PRECONDITION,
                   "%s: %s %s is a view that was created while recording was off and would be "
                   "written to while recording is on, so its base would not know of the write: "
                   "create the view and write to it in the same mode (tenon_grad_mode_set)",
                   op, role, name);
  if (!alias->is_base && is_leaf(alias->base->history))
    return tn_fail(TENON_PRECONDITION,
                   "%s: %s %s is a view of a leaf that requires a gradient and would be written "
                   "to: use an operator that returns a new tensor, or switch recording off to "
                   "update the leaf (tenon_grad_mode_set(0))",
                   op, role, name);
  if (overlaps(t))
    return tn_fail(TENON_PRECONDITION,
                   "%s: %s %s would be written to, but several of its elements share one address: "
                   "write to a copy",
                   op, role, name);
  if (!alias->is_base && !lies_in(alias->base, t))
    return tn_fail(TENON_UNIMPLEMENTED,
                   "%s: %s %s is a view that would be written to, but it reaches beyond its base "
                   "or has another dtype: write to a copy",
                   op, role, name);
  return TENON_OK;
}

static tenon_status_t create_node(const tn_base_t *base, const tenon_tensor_t *t, int kind,
                                  tn_node_t **out_node) {
  tn_node_t *node;
  int64_t *room;
  tn_node_shape_t shape = {.edge_count = kind == TN_NODE_WRITE ? 2 : 1,
                           .result_count = 1,
                           .geometry_count = 1,
                           .extents = 2 * (size_t)(base->ndim + t->ndim)};
  TN_TRY(tn_node_create(kind, &shape, &node, &room));
  int64_t *own = room + 2 * (size_t)base->ndim;
  int64_t item = t->dtype.bits * t->dtype.lanes / 8;
  memcpy(room, base->room, 2 * (size_t)base->ndim * sizeof *room);
  for (int32_t i = 0; i < t->ndim; i++) {
    own[i] = t->shape[i];
    own[t->ndim + i] = t->strides[i];
  }
  *node->geometry = (tn_geometry_t){.size = base->size,
                                    .base_offset = base->offset,
                                    .offset = (tn_address(t) - base->begin) / item,
                                    .base_shape = room,
                                    .base_strides = room + base->ndim,
                                    .shape = own,
                                    .strides = own + t->ndim,
                                    .base_ndim = base->ndim,
                                    .ndim = t->ndim};
  node->results[0] = (tn_history_t){
      .node = node, .shape = own, .ndim = t->ndim, .dtype = base->dtype, .is_float = 1};
  if (kind == TN_NODE_WRITE) {
    node->results[0].shape = room;
    node->results[0].ndim = base->ndim;
  }
  *out_node = node;
  return TENON_OK;
}

static void set_edge(tn_node_t *node, uint32_t edge, tn_history_t *to) {
  if (!(node->edges[edge].to = to)) return;
  tn_node_retain(to->node);
  if (node->sequence <= to->node->sequence) node->sequence = to->node->sequence + 1;
}

static void drop_fresh(tn_base_t *base) {
  tn_node_release(base->fresh);
  base->fresh = NULL;
  for (tn_alias_t *m = base->members; m; m = m->next) {
    tn_node_release(m->fresh);
    m->fresh = NULL;
  }
}

/* Views that get a new history: neither leaves nor views created while recording was off. */
static bool gets_history(const tn_alias_t *m, const tn_alias_t *written) {
  return m != written && !m->is_base && !m->is_off_tape && !is_leaf(m->tensor->history) &&
         lies_in(m->base, &m->tensor->view);
}

tenon_status_t tn_alias_begin_write(tenon_tensor_t *tensor) {
  const tn_alias_t *alias = ((tn_tensor_t *)tensor)->alias;
  tn_base_t *base = alias->base;
  tenon_status_t status = TENON_OK;
  bool was_held = tn_nodes_hold();
  tn_mutex_lock(&base->lock);
  drop_fresh(base);
  if (!alias->is_base) status = create_node(base, tensor, TN_NODE_WRITE, &base->fresh);
  for (tn_alias_t *m = base->members; m && status == TENON_OK; m = m->next)
    if (gets_history(m, alias))
      status = create_node(base, &m->tensor->view, TN_NODE_VIEW, &m->fresh);
  if (status != TENON_OK) drop_fresh(base);
  tn_mutex_unlock(&base->lock);
  tn_nodes_free(was_held);
  return status;
}

void tn_alias_cancel_write(tenon_tensor_t *tensor) {
  tn_base_t *base = ((tn_tensor_t *)tensor)->alias->base;
  bool was_held = tn_nodes_hold();
  tn_mutex_lock(&base->lock);
  drop_fresh(base);
  tn_mutex_unlock(&base->lock);
  tn_nodes_free(was_held);
}

void tn_alias_finish_write(tenon_tensor_t *tensor, tn_history_t *history) {
  tn_alias_t *alias = ((tn_tensor_t *)tensor)->alias;
  tn_base_t *base = alias->base;
  bool was_held = tn_nodes_hold();
  tn_mutex_lock(&base->lock);
  tn_node_t *write = base->fresh;
  tn_history_put(tensor, history);
  if (!alias->is_base && write && (base->history || history)) {
    set_edge(write, 0, base->history);
    set_edge(write, 1, history);
    history = &write->results[0];
  }
  set_history(base, history);
  for (tn_alias_t *m = base->members; m; m = m->next) {
    if (m->is_base && m != alias) {
      tn_history_put(&m->tensor->view, history);
    } else if (m->fresh) {
      if (history) set_edge(m->fresh, 0, history);
      tn_history_put(&m->tensor->view, history ? &m->fresh->results[0] : NULL);
    } else if (m != alias && m->is_off_tape && history) {
      m->is_lost = true;
      m->tensor->view.keys |= TN_KEY(TN_BIT_AUTOGRAD);
    }
  }
  drop_fresh(base);
  tn_mutex_unlock(&base->lock);
  tn_nodes_free(was_held);
}

/* Calls core::strided_...: reads elements of x at these strides; see ops/strided.c. */
static tenon_status_t call_strided(const char *name, tenon_tensor_t *x, int32_t ndim,
                                   const int64_t *shape, int32_t stride_count,
                                   const int64_t *strides, int64_t offset, tenon_tensor_t **out) {
  tenon_value_t attrs[2] = {{TENON_KIND_INTS, (uint32_t)stride_count, {.ints = strides}},
                            {TENON_KIND_INT, 0, {.i = offset}}};
  tenon_tensor_t *extents;
  TN_TRY(tn_extents(ndim, shape, &extents));
  tenon_status_t status = tn_core_call(name, attrs, x, extents, out);
  tenon_tensor_release(extents);
  return status;
}

static bool is_dense_base(const tn_geometry_t *g) {
  return tn_is_dense(g->base_ndim, g->base_shape, g->base_strides);
}

/* Converts the base's gradient to the layout of its memory. `*out` is a new reference. */
static tenon_status_t to_memory(const tn_geometry_t *g, tenon_tensor_t *grad,
                                tenon_tensor_t **out) {
  if (is_dense_base(g)) {
    tenon_tensor_retain(*out = grad);
    return TENON_OK;
  }
  return call_strided("core::strided_sum", grad, 1, &g->size, g->base_ndim, g->base_strides,
                      g->base_offset, out);
}

/* Converts such a gradient back to the base's shape. Consumes `memory`. */
static tenon_status_t from_memory(const tn_geometry_t *g, tenon_tensor_t *memory,
                                  tenon_tensor_t **out) {
  if (is_dense_base(g)) {
    *out = memory;
    return TENON_OK;
  }
  tenon_status_t status = call_strided("core::strided_copy", memory, g->base_ndim, g->base_shape,
                                       g->base_ndim, g->base_strides, g->base_offset, out);
  tenon_tensor_release(memory);
  return status;
}

tenon_status_t tn_geometry_run(const tn_node_t *node, tenon_tensor_t *grad, const bool *needs,
                               tenon_tensor_t **out_grads) {
  const tn_geometry_t *g = node->geometry;
  tenon_tensor_t *memory = NULL;
  tenon_tensor_t *rest = NULL;
  if (node->kind == TN_NODE_VIEW) {
    int32_t ndim = is_dense_base(g) ? g->base_ndim : 1;
    TN_TRY(call_strided("core::strided_sum", grad, ndim,
                        is_dense_base(g) ? g->base_shape : &g->size, g->ndim, g->strides, g->offset,
                        &memory));
    return from_memory(g, memory, &out_grads[0]);
  }
  TN_TRY(to_memory(g, grad, &memory));
  tenon_status_t status = TENON_OK;
  if (needs[1])
    status = call_strided("core::strided_copy", memory, g->ndim, g->shape, g->ndim, g->strides,
                          g->offset, &out_grads[1]);
  if (needs[0] && status == TENON_OK)
    status = call_strided("core::strided_zero", memory, g->ndim, g->shape, g->ndim, g->strides,
                          g->offset, &rest);
  if (needs[0] && status == TENON_OK) status = from_memory(g, rest, &out_grads[0]);
  tenon_tensor_release(memory);
  return status;
}
