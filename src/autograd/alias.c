/* Bases and views, see alias.h.  Called when views are made, when calls that write are recorded,
 * and by backward. Invariant: the history of a base is known to all that look at its memory, also
 * when the base itself is gone; a base lives as long as one of them. */
#include "autograd/alias.h"

#include <string.h>
#include <tenon/tenon.h>

#include "autograd/rules.h"
#include "autograd/record.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/dtype.h"
#include "storage/place.h"

typedef struct tn_base_t {
  tn_mutex_t lock;
  tn_alias_t *members;
  tn_history_t *history; /* holds a reference to its node; NULL: none */
  tn_node_t *fresh;      /* that it gets when a view has been written to */
  char *begin;           /* of its memory */
  int64_t size;          /* in elements */
  int64_t offset;        /* of its first element */
  tenon_dtype_t dtype;
  int32_t ndim;
  int64_t room[]; /* shape, strides */
} tn_base_t;

struct tn_alias_t {
  tn_base_t *base;
  tn_tensor_t *tensor;
  tn_alias_t *next;
  tn_alias_t *before;
  tn_node_t *fresh;   /* that a view gets when another one has been written to */
  bool is_base;       /* the base itself */
  bool is_unrecorded; /* made while nothing was recorded */
  bool is_lost;       /* and its memory was written to since */
};

static bool is_leaf(const tn_history_t *history) {
  return history && history->node->kind == TN_NODE_LEAF;
}

/* who looks at a memory */

static size_t base_size(int32_t ndim) {
  return sizeof(tn_base_t) + 2 * (size_t)ndim * sizeof(int64_t);
}

static void join(tn_alias_t *alias, tn_base_t *base, tn_tensor_t *tensor) {
  *alias = (tn_alias_t){.base = base, .tensor = tensor, .next = base->members};
  if (base->members) base->members->before = alias;
  base->members = alias;
}

static void set_history(tn_base_t *base, tn_history_t *history) { /* under its lock */
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
  (void)tn_place_span(t, &begin, &end);
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
  join(alias, base, tensor);
  alias->is_base = true;
  *out_alias = alias;
  return TENON_OK;
}

/* The alias of a tensor that has views; made for the first of them, which several threads may make
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
  join(alias, base, b);
  alias->is_unrecorded = !tn_records();
  alias->is_lost = other->is_lost;
  if (base->history && alias->is_unrecorded)
    view->keys |= TN_KEY(TN_BIT_AUTOGRAD); /* writing to it is refused then */
  tn_mutex_unlock(&base->lock);
  b->alias = alias;
  return TENON_OK;
}

void tn_alias_follow(tn_alias_t *alias, tn_history_t *history) {
  bool was_held = tn_nodes_hold();
  tn_mutex_lock(&alias->base->lock);
  if (history) alias->is_unrecorded = alias->is_lost = false;
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

/* what is refused */

bool tn_alias_is_lost(const tenon_tensor_t *t) {
  const tn_alias_t *alias = tn_tensor_is_owned(t) ? ((const tn_tensor_t *)t)->alias : NULL;
  return alias && alias->is_lost;
}

static bool overlaps(const tenon_tensor_t *t) { /* surely: one of its axes stands still */
  for (int32_t i = 0; i < t->ndim; i++)
    if (t->shape[i] > 1 && t->strides[i] == 0) return true;
  return false;
}

static bool lies_in(const tn_base_t *base, const tenon_tensor_t *t) {
  char *begin, *end;
  if (!tn_dtype_same(t->dtype, base->dtype)) return false;
  return !tn_place_span(t, &begin, &end) ||
         (begin >= base->begin &&
          end <= base->begin + base->size * (t->dtype.bits * t->dtype.lanes / 8));
}

tenon_status_t tn_alias_check(const tenon_tensor_t *t, const char *op, const char *role,
                              const char *name) {
  const tn_alias_t *alias = ((const tn_tensor_t *)t)->alias;
  if (!alias) return TENON_OK;
  if (alias->is_unrecorded)
    return tn_fail(TENON_PRECONDITION,
                   "%s: %s %s is a view that was made while recording was off, and would be "
                   "written to while it is on, so that what it is a view of would not know: make "
                   "the view and write to it under the same mode (tenon_grad_mode_set)",
                   op, role, name);
  if (!alias->is_base && is_leaf(alias->base->history))
    return tn_fail(TENON_PRECONDITION,
                   "%s: %s %s is a view of a leaf that requires a gradient and would be written "
                   "to: use an operator that makes a new tensor, or switch recording off to update "
                   "it (tenon_grad_mode_set(0))",
                   op, role, name);
  if (overlaps(t))
    return tn_fail(TENON_PRECONDITION,
                   "%s: %s %s is written to, but several of its elements are at one place in "
                   "memory: write to a copy",
                   op, role, name);
  if (!alias->is_base && !lies_in(alias->base, t))
    return tn_fail(TENON_UNIMPLEMENTED,
                   "%s: %s %s is a view that reaches beyond what it is a view of, or has another "
                   "dtype, and would be written to: write to a copy",
                   op, role, name);
  return TENON_OK;
}

/* writing */

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
  bool is_write = kind == TN_NODE_WRITE;
  node->results[0] = (tn_history_t){.node = node,
                                    .shape = is_write ? room : own,
                                    .ndim = is_write ? base->ndim : t->ndim,
                                    .dtype = base->dtype,
                                    .is_float = 1};
  *out_node = node;
  return TENON_OK;
}

static void lead(tn_node_t *node, uint32_t edge, tn_history_t *to) {
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

/* Views that get a new history: not what is leaf itself, nor what was made unrecorded. */
static bool follows(const tn_alias_t *m, const tn_alias_t *written) {
  return m != written && !m->is_base && !m->is_unrecorded && !is_leaf(m->tensor->history) &&
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
    if (follows(m, alias)) status = create_node(base, &m->tensor->view, TN_NODE_VIEW, &m->fresh);
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
    lead(write, 0, base->history);
    lead(write, 1, history);
    history = &write->results[0];
  }
  set_history(base, history);
  for (tn_alias_t *m = base->members; m; m = m->next) {
    if (m->is_base && m != alias) {
      tn_history_put(&m->tensor->view, history);
    } else if (m->fresh) {
      if (history) lead(m->fresh, 0, history);
      tn_history_put(&m->tensor->view, history ? &m->fresh->results[0] : NULL);
    } else if (m != alias && m->is_unrecorded && history) {
      m->is_lost = true;
      m->tensor->view.keys |= TN_KEY(TN_BIT_AUTOGRAD);
    }
  }
  drop_fresh(base);
  tn_mutex_unlock(&base->lock);
  tn_nodes_free(was_held);
}

/* backward */

/* core::strided_...: elements of x at these strides, see ops/strided.c. */
static tenon_status_t strided(const char *name, tenon_tensor_t *x, int32_t ndim,
                              const int64_t *shape, int32_t stride_count, const int64_t *strides,
                              int64_t offset, tenon_tensor_t **out) {
  tenon_value_t attrs[2] = {{TENON_KIND_INTS, (uint32_t)stride_count, {.ints = strides}},
                            {TENON_KIND_INT, 0, {.i = offset}}};
  tenon_tensor_t *extents;
  TN_TRY(tn_extents(ndim, shape, &extents));
  tenon_status_t status = tn_core_call(name, attrs, x, extents, out);
  tenon_tensor_release(extents);
  return status;
}

static bool is_dense(const tn_geometry_t *g) {
  return tn_is_dense(g->base_ndim, g->base_shape, g->base_strides);
}

/* The base's gradient as its memory lies; a new reference. */
static tenon_status_t to_memory(const tn_geometry_t *g, tenon_tensor_t *grad,
                                tenon_tensor_t **out) {
  if (is_dense(g)) {
    tenon_tensor_retain(*out = grad);
    return TENON_OK;
  }
  return strided("core::strided_sum", grad, 1, &g->size, g->base_ndim, g->base_strides,
                 g->base_offset, out);
}

/* From there to the base; what is given goes. */
static tenon_status_t from_memory(const tn_geometry_t *g, tenon_tensor_t *memory,
                                  tenon_tensor_t **out) {
  if (is_dense(g)) {
    *out = memory;
    return TENON_OK;
  }
  tenon_status_t status = strided("core::strided_copy", memory, g->base_ndim, g->base_shape,
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
    int32_t ndim = is_dense(g) ? g->base_ndim : 1;
    TN_TRY(strided("core::strided_sum", grad, ndim, is_dense(g) ? g->base_shape : &g->size, g->ndim,
                   g->strides, g->offset, &memory));
    return from_memory(g, memory, &out_grads[0]);
  }
  TN_TRY(to_memory(g, grad, &memory));
  tenon_status_t status = TENON_OK;
  if (needs[1])
    status = strided("core::strided_copy", memory, g->ndim, g->shape, g->ndim, g->strides,
                     g->offset, &out_grads[1]);
  if (needs[0] && status == TENON_OK)
    status = strided("core::strided_zero", memory, g->ndim, g->shape, g->ndim, g->strides,
                     g->offset, &rest);
  if (needs[0] && status == TENON_OK) status = from_memory(g, rest, &out_grads[0]);
  tenon_tensor_release(memory);
  return status;
}
