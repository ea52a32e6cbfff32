/* Plans one stage of a run: infers as many steps as possible with concrete shapes, then allocates
 * memory for their results. A stage ends where a step needs a shape or a value that only running
 * can tell. Called by run.c if no plan fits. Invariant: tensor headers keep their addresses while a
 * plan is in use, because actions point to them. */
#include <string.h>

#include "base/memory.h"
#include "base/scratch.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/sparse.h"
#include "dispatch/call.h"
#include "dispatch/infer.h"
#include "dispatch/result.h"
#include "dispatch/services.h"
#include "graph/concat_place.h"
#include "graph/executable.h"
#include "layers/trace.h"
#include "operator/kernel.h"

enum { KNOWN_COUNT = 64 }; /* at most this many elements are computed while planning */

typedef struct planner_t {
  tn_run_t *run;
  tn_stage_t *stage;
  int32_t index; /* of the stage among run->stages */
  int32_t edge_count;
} planner_t;

static tn_allocation_t *allocation_of(const planner_t *p, int32_t edge) {
  return &p->run->allocations[edge];
}

/* Headers */

static tenon_status_t set_header(tn_allocation_t *allocation, tenon_dtype_t dtype, int32_t ndim,
                                 const int64_t *shape, const int64_t *strides, int32_t room) {
  if (room < ndim) room = ndim;
  if (!allocation->tensor || allocation->room < room) {
    tenon_tensor_t *fresh;
    TN_TRY(tn_tensor_unset(dtype, room, &fresh));
    if (allocation->tensor) tenon_tensor_release(&allocation->tensor->view);
    allocation->tensor = (tn_tensor_t *)fresh;
    allocation->room = room;
  }
  tn_tensor_t *t = allocation->tensor;
  tn_storage_release(t->storage);
  t->storage = NULL;
  t->view.data = NULL;
  t->view.dtype = dtype;
  t->view.ndim = ndim;
  t->view.detail = NULL;
  t->view.shape = t->room;
  t->view.strides = t->room + t->room_ndim;
  if (ndim && shape) memcpy(t->view.shape, shape, (size_t)ndim * sizeof *shape);
  if (ndim && strides)
    memcpy(t->view.strides, strides, (size_t)ndim * sizeof *strides);
  else if (shape)
    tn_strides_dense(ndim, shape, t->view.strides);
  t->view.keys = TN_KEY_CPU | TN_TENSOR_OWNED | TN_TENSOR_LENT;
  if (shape) tn_tensor_mark(&t->view);
  return TENON_OK;
}

static tenon_status_t add_allocation(planner_t *p, int32_t edge) {
  tn_stage_t *s = p->stage;
  if (!tn_grow((void **)&s->edges, &s->planned_capacity, s->planned_count, sizeof *s->edges))
    return tn_no_memory("a plan", sizeof *s->edges);
  s->edges[s->planned_count++] = edge;
  return TENON_OK;
}

static tenon_status_t begin_allocation(planner_t *p, int32_t edge, uint8_t where) {
  tn_allocation_t *allocation = allocation_of(p, edge);
  TN_TRY(add_allocation(p, edge));
  allocation->where = where;
  allocation->root = edge;
  allocation->delta = 0;
  allocation->stage = p->index;
  allocation->is_pending = false;
  allocation->first = (int32_t)p->stage->action_count;
  allocation->last = allocation->first;
  allocation->size = 0;
  allocation->tile = 0;
  allocation->is_block = allocation->may_be_part = false;
  allocation->bound = NULL;
  allocation->source = edge;
  allocation->layout = 0;
  return TENON_OK;
}

/* A view or a copy is quantised as its source is. */
static void inherit_detail(planner_t *p, int32_t edge, int32_t source) {
  tn_allocation_t *allocation = allocation_of(p, edge);
  allocation->source = source;
  allocation->tensor->view.detail = allocation_of(p, source)->tensor->view.detail;
  tn_tensor_mark(&allocation->tensor->view);
}

static tenon_status_t add_action(planner_t *p, int32_t step, tn_action_t **out_action) {
  tn_stage_t *s = p->stage;
  if (!tn_grow((void **)&s->actions, &s->action_capacity, s->action_count, sizeof *s->actions))
    return tn_no_memory("a plan", s->action_capacity * sizeof *s->actions);
  *out_action = &s->actions[s->action_count++];
  memset(*out_action, 0, sizeof **out_action);
  (*out_action)->step = step;
  return TENON_OK;
}

/* Extends the lifetime of a value, and of the value that it is a view of, to the action that is
 * added next or was just added. */
static void extend_lifetime(planner_t *p, int32_t edge) {
  int32_t now = (int32_t)p->stage->action_count;
  tn_allocation_t *both[] = {allocation_of(p, edge),
                             allocation_of(p, allocation_of(p, edge)->root)};
  for (int i = 0; i < 2; i++)
    if (both[i]->stage == p->index && both[i]->last < now) both[i]->last = now;
}

/* What the plan depends on */

static uint32_t detail_of(const tenon_tensor_t *t) { return t->detail ? t->detail->kind : 0; }

static tenon_status_t watch_value(planner_t *p, int32_t edge, bool with_values) {
  tn_stage_t *s = p->stage;
  tn_allocation_t *allocation = allocation_of(p, edge);
  if (allocation->where == TN_ALLOCATION_CONSTANT ||
      (allocation->stage == p->index && allocation->where != TN_ALLOCATION_INPUT))
    return TENON_OK;
  if (allocation->watched >= (with_values ? TN_WATCHED_VALUES : TN_WATCHED_TYPE)) return TENON_OK;
  if (!tn_grow((void **)&s->watches, &s->watch_capacity, s->watch_count, sizeof *s->watches))
    return tn_no_memory("a plan", sizeof *s->watches);
  const tenon_tensor_t *t = &allocation->tensor->view;
  /* No plan depends on the items of a list, whose number may differ from run to run. */
  if (tn_dtype_is(t->dtype, TENON_LIST)) return TENON_OK;
  tn_watch_t w = {edge, detail_of(t), t->ndim, t->dtype, NULL, NULL, NULL, 0};
  int64_t *room = tn_arena_array(&s->memory, 2 * (size_t)t->ndim + 1, sizeof *room);
  if (!room) return tn_no_memory("a plan", 0);
  w.shape = room;
  w.strides = room + t->ndim;
  if (t->ndim) {
    memcpy(w.shape, t->shape, (size_t)t->ndim * sizeof *room);
    memcpy(w.strides, t->strides, (size_t)t->ndim * sizeof *room);
  }
  uint64_t bytes;
  if (with_values && t->data) {
    bool small = tn_dtype_bytes(t->dtype, tenon_count(t), &bytes) && bytes <= 4096 &&
                 !(t->keys & TN_KEY_STRIDED) && !tn_dtype_is(t->dtype, TENON_STRING);
    w.size = small ? bytes : UINT64_MAX;
    if (small && !(w.values = tn_arena_allocate(&s->memory, (size_t)bytes + 8)))
      return tn_no_memory("a plan", 0);
    if (small && bytes) memcpy(w.values, t->data, (size_t)bytes);
  }
  s->watches[s->watch_count++] = w;
  allocation->watched = w.values || w.size ? TN_WATCHED_VALUES : TN_WATCHED_TYPE;
  return TENON_OK;
}

bool tn_stage_fits(const tn_run_t *run, const tn_stage_t *stage) {
  if (stage->is_watched != tn_watch_is_on()) return false;
  for (size_t i = 0; i < stage->watch_count; i++) {
    const tn_watch_t *w = &stage->watches[i];
    const tenon_tensor_t *t = &run->allocations[w->edge].tensor->view;
    size_t size = (size_t)w->ndim * sizeof *w->shape;
    if (t->ndim != w->ndim || !tn_dtype_same(t->dtype, w->dtype) || detail_of(t) != w->detail)
      return false;
    if (size &&
        (memcmp(t->shape, w->shape, size) != 0 || memcmp(t->strides, w->strides, size) != 0))
      return false;
    if (w->size == UINT64_MAX || (w->size && memcmp(t->data, w->values, (size_t)w->size) != 0))
      return false;
  }
  return true;
}

/* Operands */

/* Whether the contents of a value can be read while its stage is planned. */
static bool is_readable(const tn_allocation_t *allocation, int32_t stage) {
  return allocation->where == TN_ALLOCATION_CONSTANT || allocation->where == TN_ALLOCATION_KNOWN ||
         allocation->stage != stage || allocation->where == TN_ALLOCATION_INPUT;
}

/* Whether the step needs something that this stage will make only when it runs. */
static bool is_blocked(const planner_t *p, const tn_node_t *node) {
  for (uint32_t i = 0; i < node->op->input_count; i++)
    for (int32_t k = 0; k < node->operands[i].count; k++) {
      int32_t edge = node->operands[i].edges[k];
      const tn_allocation_t *allocation = allocation_of(p, edge);
      if (allocation->stage != p->index) continue;
      if (allocation->is_pending || allocation_of(p, allocation->root)->is_pending) return true;
      if (node->op->where && node->op->where[i] & TN_INPUT_KNOWN &&
          !is_readable(allocation, p->index))
        return true;
    }
  return false;
}

/* Lists the headers of a step's inputs, in the stage's memory. A list of tensors gets a header of
 * its own. */
static tenon_status_t gather_inputs(planner_t *p, const tn_node_t *node,
                                    tenon_tensor_t ***out_inputs) {
  tn_arena_t *memory = &p->stage->memory;
  tenon_tensor_t **inputs = tn_arena_array(memory, node->op->input_count + 1, sizeof *inputs);
  if (!inputs) return tn_no_memory("a plan", 0);
  for (uint32_t i = 0; i < node->op->input_count; i++) {
    const tenon_operand_t *operand = &node->operands[i];
    for (int32_t k = 0; k < operand->count; k++)
      if (!allocation_of(p, operand->edges[k])->tensor) /* the absent result of a written input */
        return tn_fail(TENON_INVALID,
                       "input %s is an optional result that its node does not compute",
                       node->op->schema.inputs[i].name);
    if (node->op->schema.inputs[i].kind != TENON_KIND_TENSORS) {
      inputs[i] = operand->count ? &allocation_of(p, operand->edges[0])->tensor->view : NULL;
      continue;
    }
    tenon_tensor_t **items = tn_arena_array(memory, (size_t)operand->count + 1, sizeof *items);
    int64_t *axes = tn_arena_array(memory, 2, sizeof *axes);
    tenon_tensor_t *list = tn_arena_allocate(memory, sizeof *list);
    if (!items || !axes || !list) return tn_no_memory("a plan", 0);
    axes[0] = operand->count;
    axes[1] = 1;
    *list = (tenon_tensor_t){items, {1, 0},     1,   tenon_dtype(TENON_LIST), axes, axes + 1,
                             0,     TN_KEY_CPU, NULL};
    for (int32_t k = 0; k < operand->count; k++) {
      items[k] = &allocation_of(p, operand->edges[k])->tensor->view;
      list->keys |= items[k]->keys & (TN_KEY_STRIDED | TN_KEY_DETAIL);
    }
    inputs[i] = list;
  }
  *out_inputs = inputs;
  return TENON_OK;
}

/* Known values */

static tenon_status_t bind_known(planner_t *p, int32_t edge, tenon_tensor_t *tensor) {
  TN_TRY(begin_allocation(p, edge, TN_ALLOCATION_KNOWN));
  tn_allocation_t *allocation = allocation_of(p, edge);
  TN_TRY(set_header(allocation, tensor->dtype, tensor->ndim, tensor->shape, tensor->strides, 0));
  tn_storage_retain(((tn_tensor_t *)tensor)->storage);
  allocation->tensor->storage = ((tn_tensor_t *)tensor)->storage;
  allocation->tensor->view.data = tensor->data;
  return TENON_OK;
}

/* Whether to compute the step now: it is pure, its inputs are known to this plan, and its results
 * are small. */
static bool is_computable(const planner_t *p, const tn_node_t *node, tenon_meta_t *const *outputs) {
  const tenon_op_t *op = node->op;
  bool any = false;
  if (!(op->traits & TENON_PURE) || op->traits & TENON_RANDOM || op->create) return false;
  for (uint32_t i = 0; i < op->schema.attr_count; i++)
    if (node->attrs[i].kind == TENON_KIND_GRAPH) return false;
  for (uint32_t i = 0; i < op->input_count; i++)
    if (op->schema.inputs[i].is_written) return false;
  for (uint32_t i = 0; i < op->input_count; i++)
    for (int32_t k = 0; k < node->operands[i].count; k++) {
      uint8_t where = allocation_of(p, node->operands[i].edges[k])->where;
      if (where != TN_ALLOCATION_CONSTANT && where != TN_ALLOCATION_KNOWN) return false;
      any |= where == TN_ALLOCATION_KNOWN;
    }
  for (uint32_t o = 0; o < op->output_count; o++) {
    int64_t count = 1;
    if (!outputs[o]) continue;
    if (outputs[o]->items || outputs[o]->ndim < 0 || outputs[o]->layout) return false;
    if (tn_dtype_is(outputs[o]->dtype, TENON_LIST)) return false;
    for (int32_t d = 0; d < outputs[o]->ndim; d++)
      if (!tenon_is_known(outputs[o]->dims[d]) || !tn_mul(count, outputs[o]->dims[d].value, &count))
        return false;
    if (count > KNOWN_COUNT) return false;
  }
  return any;
}

static tenon_status_t compute_step(planner_t *p, const tn_step_t *step,
                                   tenon_tensor_t *const *inputs) {
  const tn_node_t *node = step->node;
  tenon_tensor_t **outputs = tn_scratch((node->op->output_count + 1) * sizeof *outputs);
  if (!outputs) return tn_no_memory("a plan", 0);
  memset(outputs, 0, node->op->output_count * sizeof *outputs);
  tenon_status_t status = tn_call(node->op, node->attrs, inputs, outputs, step->wanted, NULL);
  for (uint32_t o = 0; o < node->op->output_count && status == TENON_OK; o++)
    if (outputs[o]) status = bind_known(p, node->outputs[o], outputs[o]);
  for (uint32_t o = 0; o < node->op->output_count; o++)
    tenon_tensor_release(outputs[o]);
  return status;
}

/* Binds results whose values inference found, as those of shape and size. out_all: all results of
 * the node are bound. */
static tenon_status_t state_values(planner_t *p, const tn_node_t *node,
                                   tenon_meta_t *const *outputs, bool *out_all) {
  *out_all = node->op->output_count > 0 && node->op->traits & TENON_PURE;
  for (uint32_t o = 0; o < node->op->output_count && *out_all; o++) {
    const tenon_meta_t *m = outputs[o];
    if (!m) continue;
    *out_all = m->value_count > 0 && !m->items && m->ndim >= 0 && m->ndim <= 1 &&
               tn_dtype_is(m->dtype, TENON_I64);
    for (uint32_t i = 0; i < m->value_count && *out_all; i++)
      *out_all = tenon_is_known(m->values[i]) && m->values[i].value != TENON_DIM_LEAST;
  }
  for (uint32_t o = 0; o < node->op->output_count && *out_all; o++) {
    const tenon_meta_t *m = outputs[o];
    if (!m) continue;
    int64_t shape[1] = {m->value_count};
    tenon_tensor_t *tensor;
    TN_TRY(tenon_tensor_create(m->dtype, m->ndim, shape, &tensor));
    memcpy(tensor->data, m->values, m->value_count * sizeof(int64_t));
    tenon_status_t status = bind_known(p, node->outputs[o], tensor);
    tenon_tensor_release(tensor);
    TN_TRY(status);
  }
  return TENON_OK;
}

/* Results */

static bool is_output(const planner_t *p, int32_t edge) {
  return edge < p->edge_count && p->run->executable->last_use[edge] == INT32_MAX;
}

/* Whether a view operator states the strides of its result for an input with any strides. Otherwise
 * it sees a row-major input. */
static bool sees_strides(const tenon_op_t *op, uint32_t i) {
  return op->where && op->where[i] & TN_INPUT_STRIDED;
}

/* Finds strides with which the elements of t have another shape in the same row-major order. False:
 * there are none, or t has no elements. */
static bool find_regrouping(const tenon_tensor_t *t, int32_t ndim, const int64_t *shape,
                            int64_t *out_strides) {
  int32_t to = ndim - 1;
  int64_t run = 1;  /* elements of the axes of t that lie at equal distances, and of those */
  int64_t made = 1; /* of the result that regroup them */
  if (!tenon_count(t)) return false;
  int64_t step = t->ndim ? t->strides[t->ndim - 1] : 1;
  for (int32_t i = t->ndim - 1; i >= 0; i--) {
    run *= t->shape[i];
    if (i > 0 && (t->shape[i - 1] == 1 || t->strides[i - 1] == run * step)) continue;
    for (; to >= 0 && (made < run || shape[to] == 1); to--) {
      out_strides[to] = made * step;
      made *= shape[to];
    }
    if (made != run) return false;
    if (i > 0) step = t->strides[i - 1];
    run = 1;
    made = 1;
  }
  return to < 0;
}

/* Finds the strides of a result that has the elements of a strided input in row-major order, as
 * those of reshape, so that no dense copy is needed. False: the result is something else, or no
 * strides do. */
static bool find_view_strides(const planner_t *p, const tn_node_t *node, const tenon_meta_t *meta,
                              int64_t *out_strides) {
  int64_t shape[TENON_RANK_MAX];
  int64_t count = 1;
  if (!node->op->is_view || !meta || meta->items || !meta->alias || meta->strided ||
      meta->offset.value != 0 || meta->ndim < 0 || sees_strides(node->op, meta->alias - 1))
    return false;
  const tn_allocation_t *from = allocation_of(p, node->operands[meta->alias - 1].edges[0]);
  const tenon_tensor_t *t = &from->tensor->view;
  if (!(t->keys & TN_KEY_STRIDED) || from->dense || !tn_dtype_same(t->dtype, meta->dtype))
    return false;
  for (int32_t d = 0; d < meta->ndim; d++) {
    shape[d] = meta->dims[d].value;
    if (!tenon_is_known(meta->dims[d]) || !tn_mul(count, shape[d], &count)) return false;
  }
  return count == tenon_count(t) && find_regrouping(t, meta->ndim, shape, out_strides);
}

/* Plans a sparse result, whose parts the kernel makes. Its readers need only its shape and layout,
 * so the stage continues unless these are known only after running. */
static tenon_status_t allocate_sparse(planner_t *p, const tenon_meta_t *meta, int32_t edge) {
  TN_TRY(begin_allocation(p, edge, TN_ALLOCATION_OWN));
  tn_allocation_t *allocation = allocation_of(p, edge);
  allocation->bound =
      tn_arena_array(&p->stage->memory, (size_t)meta->ndim + 1, sizeof *allocation->bound);
  if (!allocation->bound) return tn_no_memory("a plan", 0);
  for (int32_t d = 0; d < meta->ndim; d++) {
    bool is_known = tenon_is_known(meta->dims[d]);
    allocation->bound[d] = is_known ? meta->dims[d].value : -1;
    allocation->is_pending |= !is_known;
  }
  TN_TRY(set_header(allocation, meta->dtype, meta->ndim, allocation->bound, NULL, 0));
  allocation->layout = meta->layout;
  allocation->tensor->view.detail = tn_sparse_unset(meta->layout);
  tn_tensor_mark(&allocation->tensor->view);
  return TENON_OK;
}

/* Plans the result of a view operator, which is in the memory of an input or of its dense copy. */
static tenon_status_t allocate_view(planner_t *p, const tn_node_t *node,
                                    const tn_inference_t *inference, const tenon_meta_t *meta,
                                    const int64_t *shape, const int64_t *strides, int32_t edge) {
  const tenon_operand_t *operand = &node->operands[meta->alias - 1];
  const int32_t copy = allocation_of(p, operand->edges[0])->dense;
  const int32_t from = !sees_strides(node->op, meta->alias - 1) && copy ? copy : operand->edges[0];
  int64_t regrouped[TENON_RANK_MAX];
  int64_t dense[TENON_RANK_MAX];
  int64_t delta;
  /* That of a part of an earlier stage says where it is in its block, not in its own memory. */
  const int64_t begin = allocation_of(p, from)->root == from ? 0 : allocation_of(p, from)->delta;
  if (find_view_strides(p, node, meta, regrouped)) strides = regrouped;
  tn_strides_dense(meta->ndim, shape, dense);
  TN_TRY(tn_view_place(inference, meta, shape, strides ? strides : dense,
                       &allocation_of(p, from)->tensor->view, &delta));
  TN_TRY(begin_allocation(p, edge, TN_ALLOCATION_VIEW));
  tn_allocation_t *allocation = allocation_of(p, edge);
  allocation->root = allocation_of(p, from)->root;
  allocation->delta = begin + delta;
  TN_TRY(set_header(allocation, meta->dtype, meta->ndim, shape, strides, 0));
  inherit_detail(p, edge, from);
  return TENON_OK;
}

/* Strides that leave gaps need more memory than the elements alone. */
static tenon_status_t enlarge_for_strides(const tn_inference_t *inference, const tenon_meta_t *meta,
                                          const int64_t *shape, uint64_t *size) {
  int64_t count;
  uint64_t room;
  TN_TRY(tn_strides_room(inference, meta, shape, &count));
  if (!tn_dtype_bytes(meta->dtype, count, &room) || room > (uint64_t)1 << 48)
    return tn_fail(TENON_INVALID, "the strides of a result are too large: its size exceeds 2^48 "
                                  "bytes");
  if (room > *size) *size = room;
  return TENON_OK;
}

static tenon_status_t allocate_result(planner_t *p, const tn_node_t *node,
                                      const tn_inference_t *inference, const tenon_meta_t *meta,
                                      bool may_stride, int32_t edge) {
  int64_t shape[TENON_RANK_MAX];
  bool pending = false;
  bool bounded = meta->ndim >= 0;
  if (meta->layout) return allocate_sparse(p, meta, edge);
  for (int32_t d = 0; d < meta->ndim; d++) {
    pending |= !tenon_is_known(meta->dims[d]);
    shape[d] = tn_extent_bound(inference, meta->dims[d]);
    bounded &= shape[d] >= 0;
  }
  const bool is_list = tn_dtype_is(meta->dtype, TENON_LIST);
  if (!bounded || is_list || (pending && tn_dtype_is(meta->dtype, TENON_STRING))) {
    TN_TRY(begin_allocation(p, edge, TN_ALLOCATION_OWN));
    tn_allocation_t *allocation = allocation_of(p, edge);
    TN_TRY(set_header(allocation, meta->dtype, 0, NULL, NULL,
                      meta->ndim < 0 ? TENON_RANK_MAX : meta->ndim));
    allocation->is_pending = true;
    return TENON_OK;
  }
  uint64_t size;
  int64_t count = tn_shape_count(meta->ndim, shape);
  if (count < 0 || !tn_dtype_bytes(meta->dtype, count, &size) || size > (uint64_t)1 << 48) {
    char text[160];
    return tn_fail(TENON_INVALID, "a result of shape %s is too large: its size exceeds 2^48 bytes",
                   tn_shape_print(meta->ndim, shape, text, sizeof text));
  }
  const bool is_view = meta->alias && node->op->is_view;
  const int64_t *strides = meta->strided && (may_stride || is_view)
                               ? (const int64_t *)(const void *)meta->strides
                               : NULL;
  if (is_view) return allocate_view(p, node, inference, meta, shape, strides, edge);
  if (strides) TN_TRY(enlarge_for_strides(inference, meta, shape, &size));
  bool strings = tn_dtype_is(meta->dtype, TENON_STRING);
  uint8_t where =
      is_output(p, edge) && !strides && !pending ? TN_ALLOCATION_OUTPUT : TN_ALLOCATION_ARENA;
  TN_TRY(begin_allocation(p, edge, strings ? TN_ALLOCATION_OWN : where));
  tn_allocation_t *allocation = allocation_of(p, edge);
  TN_TRY(set_header(allocation, meta->dtype, meta->ndim, shape, strides, 0));
  allocation->size = size;
  allocation->is_pending = pending;
  if (!pending && !strings) return TENON_OK;
  allocation->bound =
      tn_arena_array(&p->stage->memory, (size_t)meta->ndim + 1, sizeof *allocation->bound);
  if (!allocation->bound) return tn_no_memory("a plan", 0);
  if (meta->ndim) memcpy(allocation->bound, shape, (size_t)meta->ndim * sizeof *shape);
  return TENON_OK;
}

/* Copies */

static tenon_status_t add_copy(planner_t *p, int32_t step, int32_t from, int32_t to) {
  tn_action_t *action;
  extend_lifetime(p, from);
  extend_lifetime(p, to);
  TN_TRY(add_action(p, step, &action));
  action->inputs = tn_arena_array(&p->stage->memory, 2, sizeof *action->inputs);
  if (!action->inputs) return tn_no_memory("a plan", 0);
  action->outputs = action->inputs + 1;
  action->inputs[0] = &allocation_of(p, from)->tensor->view;
  action->outputs[0] = &allocation_of(p, to)->tensor->view;
  return TENON_OK;
}

/* Returns the allocation of an edge's dense copy, which is made once in a stage. */
static tenon_status_t dense_copy(planner_t *p, int32_t step, int32_t edge,
                                 int32_t *out_allocation) {
  tn_run_t *run = p->run;
  if (allocation_of(p, edge)->dense) {
    *out_allocation = allocation_of(p, edge)->dense;
    return TENON_OK;
  }
  if (run->allocation_count >= INT32_MAX ||
      !tn_grow((void **)&run->allocations, &run->allocation_capacity, run->allocation_count,
               sizeof *run->allocations))
    return tn_no_memory("a plan", 0);
  int32_t extra = (int32_t)run->allocation_count++;
  run->allocations[extra] = (tn_allocation_t){.stage = -1};
  const tenon_tensor_t *t = &allocation_of(p, edge)->tensor->view;
  bool strings = tn_dtype_is(t->dtype, TENON_STRING);
  TN_TRY(begin_allocation(p, extra, strings ? TN_ALLOCATION_OWN : TN_ALLOCATION_ARENA));
  tn_allocation_t *allocation = allocation_of(p, extra);
  TN_TRY(set_header(allocation, t->dtype, t->ndim, t->shape, NULL, 0));
  if (strings && !(allocation->bound = tn_arena_array(&p->stage->memory, (size_t)t->ndim + 1,
                                                      sizeof *allocation->bound)))
    return tn_no_memory("a plan", 0);
  if (strings && t->ndim) memcpy(allocation->bound, t->shape, (size_t)t->ndim * sizeof *t->shape);
  if (!tn_dtype_bytes(t->dtype, tenon_count(t), &allocation->size))
    return tn_fail(TENON_INVALID, "a dense copy is too large: its size exceeds the address range");
  inherit_detail(p, extra, edge);
  TN_TRY(add_copy(p, step, edge, extra));
  allocation_of(p, edge)->dense = extra;
  *out_allocation = extra;
  return TENON_OK;
}

/* Replaces strided inputs by dense copies, for a kernel that takes dense inputs only or a view
 * operator that needs them. */
static tenon_status_t densify(planner_t *p, int32_t s, const tn_node_t *node, bool is_view,
                              tenon_tensor_t **inputs) {
  for (uint32_t i = 0; i < node->op->input_count; i++) {
    const tenon_operand_t *operand = &node->operands[i];
    if (!inputs[i] || !(inputs[i]->keys & TN_KEY_STRIDED) || (is_view && sees_strides(node->op, i)))
      continue;
    bool list = node->op->schema.inputs[i].kind == TENON_KIND_TENSORS;
    for (int32_t k = 0; k < operand->count; k++) {
      int32_t copy = 0;
      if (!(allocation_of(p, operand->edges[k])->tensor->view.keys & TN_KEY_STRIDED)) continue;
      TN_TRY(dense_copy(p, s, operand->edges[k], &copy));
      if (list)
        ((tenon_tensor_t **)inputs[i]->data)[k] = &allocation_of(p, copy)->tensor->view;
      else
        inputs[i] = &allocation_of(p, copy)->tensor->view;
      extend_lifetime(p, copy);
    }
    if (list) inputs[i]->keys &= ~TN_KEY_STRIDED;
  }
  return TENON_OK;
}

/* Steps */

/* Plans the result of a written input: it begins as a copy of the input, and the kernel writes to
 * this copy. */
static tenon_status_t allocate_written(planner_t *p, int32_t s, const tn_node_t *node,
                                       int32_t input, int32_t edge, tenon_tensor_t **inputs) {
  if (!node->operands[input].count) /* The optional input is absent, so it has no result. */
    return TENON_OK;
  int32_t from = node->operands[input].edges[0];
  const tenon_tensor_t *t = &allocation_of(p, from)->tensor->view;
  bool strings = tn_dtype_is(t->dtype, TENON_STRING);
  uint8_t where = is_output(p, edge) ? TN_ALLOCATION_OUTPUT : TN_ALLOCATION_ARENA;
  TN_TRY(begin_allocation(p, edge, strings ? TN_ALLOCATION_OWN : where));
  tn_allocation_t *allocation = allocation_of(p, edge);
  TN_TRY(set_header(allocation, t->dtype, t->ndim, t->shape, NULL, 0));
  inherit_detail(p, edge, from);
  if (!tn_dtype_bytes(t->dtype, tenon_count(t), &allocation->size))
    return tn_fail(TENON_INVALID,
                   "the copy of a written input is too large: its size exceeds the address range");
  TN_TRY(add_copy(p, s, from, edge));
  inputs[input] = &allocation_of(p, edge)->tensor->view;
  return TENON_OK;
}

static tenon_status_t plan_outputs(planner_t *p, int32_t s, const tn_step_t *step,
                                   const tn_inference_t *inference, tenon_meta_t *const *metas,
                                   const tn_kernel_t *kernel, tenon_tensor_t **inputs,
                                   tenon_tensor_t **outputs) {
  const tn_node_t *node = step->node;
  bool may_stride =
      !kernel || kernel->kind == TN_KIND_LOOP || kernel->words.flags & TN_KERNEL_STRIDED;
  int32_t at = 0;
  for (uint32_t o = 0; o < node->op->output_count; o++) {
    const tenon_meta_t *meta = metas[o];
    int32_t same = tn_op_result_input(node->op, o);
    outputs[o] = NULL;
    if (!meta) {
      bool list = node->op->schema.outputs[o].kind == TENON_KIND_TENSORS;
      at = list ? node->output_count - (int32_t)(node->op->output_count - o - 1) : at + 1;
      continue;
    }
    if (!meta->items) {
      int32_t edge = node->outputs[at++];
      if (same >= 0)
        TN_TRY(allocate_written(p, s, node, same, edge, inputs));
      else
        TN_TRY(allocate_result(p, node, inference, meta, may_stride, edge));
      outputs[o] = &allocation_of(p, edge)->tensor->view;
      continue;
    }
    int32_t rest = (int32_t)(node->op->output_count - o - 1);
    int32_t count = node->output_count - at - rest;
    if (count != (int32_t)meta->count)
      return tn_fail(TENON_INVALID, "result %s has %u tensors, but the graph expects %d",
                     node->op->schema.outputs[o].name, meta->count, (int)count);
    tenon_tensor_t **items = tn_arena_array(&p->stage->memory, (size_t)count + 1, sizeof *items);
    int64_t *axes = tn_arena_array(&p->stage->memory, 2, sizeof *axes);
    tenon_tensor_t *list = tn_arena_allocate(&p->stage->memory, sizeof *list);
    if (!items || !axes || !list) return tn_no_memory("a plan", 0);
    for (int32_t k = 0; k < count; k++) {
      int32_t edge = node->outputs[at++];
      TN_TRY(allocate_result(p, node, inference, meta->items[k], may_stride, edge));
      items[k] = &allocation_of(p, edge)->tensor->view;
    }
    axes[0] = count;
    axes[1] = 1;
    *list = (tenon_tensor_t){items, {1, 0},     1,   tenon_dtype(TENON_LIST), axes, axes + 1,
                             0,     TN_KEY_CPU, NULL};
    outputs[o] = list;
  }
  for (int32_t k = 0, i; (i = tn_op_written(node->op, k)) >= 0 && at < node->output_count; k++)
    TN_TRY(allocate_written(p, s, node, i, node->outputs[at++], inputs));
  return TENON_OK;
}

static tenon_status_t choose_kernel(const tenon_op_t *op, tenon_tensor_t *const *inputs,
                                    tenon_meta_t *const *metas, const tn_kernel_t **out_kernel) {
  /* Stand-ins for the results: choosing a kernel reads only their dtypes. */
  tenon_tensor_t *types = tn_scratch((op->output_count + 1) * sizeof *types);
  tenon_tensor_t **outputs = tn_scratch((op->output_count + 1) * sizeof *outputs);
  if (!types || !outputs) return tn_no_memory("a plan", 0);
  for (uint32_t o = 0; o < op->output_count; o++) {
    outputs[o] = metas[o] ? &types[o] : NULL;
    if (metas[o]) types[o] = (tenon_tensor_t){.dtype = metas[o]->dtype};
  }
  const tn_kernel_t *kernel = tn_op_kernel(op, inputs, outputs);
  *out_kernel = kernel;
  if (!kernel) return tn_op_missing(op, "cpu", inputs);
  return tn_op_check_details(op, kernel, inputs, NULL);
}

/* Hides the contents of values that may differ in the next run: the plan depends on those of inputs
 * that are marked as known only, which are watched. Those that this stage makes do not exist yet.
 * `meta` describes the operand: a tensor, or a list with its items. */
static void hide_contents(planner_t *p, const tenon_operand_t *operand, bool is_list,
                          tenon_meta_t *meta) {
  if (meta->items && !is_list) { /* a list as a value */
    meta->items = NULL;
    meta->count = 0;
  }
  for (int32_t k = 0; k < operand->count; k++) {
    const uint8_t where = allocation_of(p, operand->edges[k])->where;
    tenon_meta_t *of = meta->items ? meta->items[k] : meta;
    if (where == TN_ALLOCATION_CONSTANT || where == TN_ALLOCATION_KNOWN) continue;
    of->values = NULL;
    of->value_count = 0;
    of->value = NULL;
  }
}

/* Infers the results of a step with the concrete shapes of its inputs. The metas are in scratch
 * memory. */
static tenon_status_t infer_step(planner_t *p, const tn_step_t *step, tenon_tensor_t *const *inputs,
                                 tn_inference_t *inference, tenon_meta_t ***out_metas) {
  const tn_node_t *node = step->node;
  const tenon_op_t *op = node->op;
  tenon_meta_t **in;
  TN_TRY(tn_metas_of_inputs(op, inputs, &in));
  for (uint32_t i = 0; i < op->input_count; i++)
    if (in[i] && !(op->where && op->where[i] & TN_INPUT_KNOWN))
      hide_contents(p, &node->operands[i], op->schema.inputs[i].kind == TENON_KIND_TENSORS, in[i]);
  /* View operators that need row-major inputs get dense copies, so inference must not see strides.
   */
  for (uint32_t i = 0; i < op->input_count && op->is_view; i++)
    if (in[i] && !sees_strides(op, i)) in[i]->strides = NULL;
  TN_TRY(tn_metas_of_results(op, node->attrs, step->wanted, out_metas));
  return tn_infer(inference, op, node->attrs, step->state, in, *out_metas);
}

/* Extends the lifetimes of the values that a kernel call reads and makes to this call, which is the
 * action that is added next. */
static void use_operands(planner_t *p, const tn_node_t *node, bool wants_dense) {
  const tenon_op_t *op = node->op;
  for (uint32_t i = 0; i < op->input_count; i++)
    for (int32_t k = 0; k < node->operands[i].count; k++)
      extend_lifetime(p, node->operands[i].edges[k]);
  for (uint32_t i = 0; i < op->input_count; i++)
    for (int32_t k = 0; wants_dense && k < node->operands[i].count; k++)
      if (allocation_of(p, node->operands[i].edges[k])->dense)
        extend_lifetime(p, allocation_of(p, node->operands[i].edges[k])->dense);
  int32_t now = (int32_t)p->stage->action_count;
  for (int32_t o = 0; o < node->output_count; o++) {
    tn_allocation_t *allocation = allocation_of(p, node->outputs[o]);
    if (allocation->stage == p->index && allocation->last < now) allocation->last = now;
  }
}

/* Appends the call of a step's kernel to the stage's actions. */
static tenon_status_t add_kernel_action(planner_t *p, int32_t s, const tn_kernel_t *kernel,
                                        const tn_inference_t *inference, tenon_tensor_t **inputs,
                                        tenon_tensor_t **outputs) {
  const tn_step_t *step = &p->run->executable->steps[s];
  const tn_node_t *node = step->node;
  const tenon_op_t *op = node->op;
  tn_action_t *action;
  /* A kernel that was registered after the compilation reads what its predecessor had packed. */
  if (step->prepared && step->prepared != kernel) TN_TRY(tn_executable_recall(p->run->executable));
  TN_TRY(tn_op_check_details(op, kernel, inputs, outputs));
  TN_TRY(add_action(p, s, &action));
  for (uint32_t o = 0; o < op->output_count; o++)
    action->makes_sparse |= outputs[o] && tn_layout(outputs[o]);
  action->kernel = kernel;
  action->inputs = inputs;
  action->outputs = outputs;
  action->workspace_size = (uint64_t)inference->infer.workspace.value;
  action->draws = inference->infer.draws.value;
  for (int32_t o = 0; o < node->output_count && op->traits & TENON_RANDOM; o++) {
    const tn_allocation_t *allocation = allocation_of(p, node->outputs[o]);
    bool is_wanted = allocation->stage == p->index;
    int64_t count = is_wanted ? tenon_count(&allocation->tensor->view) : 0;
    if (count > action->draws && inference->infer.draws.value < 0) action->draws = count;
  }
  action->frame.kernel = kernel;
  action->frame.call = (tenon_call_t){.size = sizeof(tenon_call_t),
                                      .phase = TENON_PHASE_RUN,
                                      .host = &tn_host,
                                      .op = op,
                                      .attrs = node->attrs,
                                      .context = kernel->context,
                                      .state = step->state,
                                      .inputs = inputs,
                                      .outputs = outputs,
                                      .plan = step->prepared == kernel ? step->plan : NULL,
                                      .uses = op->uses};
  return TENON_OK;
}

/* Plans one step: computes it now if its inputs are known and it is small, else chooses its kernel,
 * allocates its results and adds the call. */
static tenon_status_t plan_step(planner_t *p, int32_t s) {
  tn_step_t *step = &p->run->executable->steps[s];
  const tn_node_t *node = step->node;
  const tenon_op_t *op = node->op;
  tenon_tensor_t **inputs = NULL;
  tenon_meta_t **out;
  tn_inference_t inference = {0};
  bool all_known;
  TN_TRY(gather_inputs(p, node, &inputs));
  for (uint32_t i = 0; i < op->input_count; i++)
    for (int32_t k = 0; k < node->operands[i].count; k++)
      TN_TRY(
          watch_value(p, node->operands[i].edges[k], op->where && op->where[i] & TN_INPUT_KNOWN));
  TN_TRY(infer_step(p, step, inputs, &inference, &out));
  TN_TRY(state_values(p, node, out, &all_known));
  if (all_known) return TENON_OK;
  if (is_computable(p, node, out)) return compute_step(p, step, inputs);
  const tn_kernel_t *kernel = NULL;
  if (!op->is_view) TN_TRY(choose_kernel(op, inputs, out, &kernel));
  if (kernel) TN_TRY(tn_executable_use(p->run->executable, kernel, op));
  bool wants_dense =
      kernel && kernel->kind != TN_KIND_LOOP && !(kernel->words.flags & TN_KERNEL_STRIDED);
  int64_t strides[TENON_RANK_MAX];
  const bool is_regrouped = !kernel && find_view_strides(p, node, out[0], strides);
  if (wants_dense || (!kernel && !is_regrouped)) TN_TRY(densify(p, s, node, !kernel, inputs));
  tenon_tensor_t **outputs =
      tn_arena_array(&p->stage->memory, op->output_count + 1, sizeof *outputs);
  if (!outputs) return tn_no_memory("a plan", 0);
  TN_TRY(plan_outputs(p, s, step, &inference, out, kernel, inputs, outputs));
  if (!kernel) return TENON_OK;
  use_operands(p, node, wants_dense);
  return add_kernel_action(p, s, kernel, &inference, inputs, outputs);
}

/* Memory */

/* A view keeps the memory of its root alive. */
static void extend_roots(planner_t *p) {
  const tn_stage_t *s = p->stage;
  for (size_t i = 0; i < s->planned_count; i++) {
    const tn_allocation_t *view = allocation_of(p, s->edges[i]);
    bool beyond =
        s->edges[i] < p->edge_count && p->run->executable->last_use[s->edges[i]] >= s->end;
    int32_t last = beyond ? INT32_MAX : view->last;
    tn_allocation_t *root = allocation_of(p, view->root);
    if (root->stage == p->index && root->last < last) root->last = last;
  }
}

static tenon_status_t allocate_arena(planner_t *p) {
  tn_stage_t *s = p->stage;
  size_t most = s->planned_count + s->action_count;
  size_t count = 0;
  tn_lifetime_t *lifetimes = tn_allocate((most + 1) * sizeof *lifetimes);
  uint64_t **offsets = tn_allocate((most + 1) * sizeof *offsets);
  tenon_status_t status = lifetimes && offsets ? TENON_OK : tn_no_memory("a memory plan", most);
  for (size_t i = 0; i < s->planned_count && status == TENON_OK; i++) {
    tn_allocation_t *allocation = allocation_of(p, s->edges[i]);
    if (allocation->where != TN_ALLOCATION_ARENA) continue;
    offsets[count] = &allocation->offset;
    lifetimes[count++] = (tn_lifetime_t){allocation->size ? allocation->size : 1, 0,
                                         allocation->first, allocation->last};
  }
  for (size_t i = 0; i < s->action_count && status == TENON_OK; i++) {
    if (!s->actions[i].workspace_size) continue;
    offsets[count] = &s->actions[i].workspace_offset;
    lifetimes[count++] = (tn_lifetime_t){s->actions[i].workspace_size, 0, (int32_t)i, (int32_t)i};
  }
  if (status == TENON_OK)
    status = tn_memory_plan(lifetimes, count, &s->arena_size, &s->arena_bound);
  for (size_t i = 0; i < count && status == TENON_OK; i++)
    *offsets[i] = lifetimes[i].offset;
  tn_release_memory(lifetimes);
  tn_release_memory(offsets);
  if (status != TENON_OK) return status;
  s->arena = s->arena_size ? tn_allocate_aligned((size_t)s->arena_size) : NULL;
  if (s->arena_size && !s->arena) return tn_no_memory("the values of a run", (size_t)s->arena_size);
  for (size_t i = 0; i < s->action_count; i++)
    if (s->actions[i].workspace_size)
      s->actions[i].frame.call.workspace = (char *)s->arena + s->actions[i].workspace_offset;
  return TENON_OK;
}

/* Clears what is marked in allocations while a stage is planned. */
static void forget_marks(planner_t *p) {
  const tn_stage_t *s = p->stage;
  for (size_t i = 0; i < s->watch_count; i++)
    allocation_of(p, s->watches[i].edge)->watched = 0;
  for (size_t i = 0; i < s->planned_count; i++)
    if (s->edges[i] >= p->edge_count)
      allocation_of(p, allocation_of(p, s->edges[i])->source)->dense = 0;
}

tenon_status_t tn_stage_plan(tn_run_t *run, int32_t begin) {
  if (!tn_grow((void **)&run->stages, &run->stage_capacity, run->stage_count, sizeof *run->stages))
    return tn_no_memory("a plan", sizeof *run->stages);
  tn_stage_t *stage = &run->stages[run->stage_count++];
  *stage = (tn_stage_t){.begin = begin, .end = begin};
  planner_t p = {run, stage, (int32_t)run->stage_count - 1,
                 (int32_t)run->executable->graph->edge_count};
  int32_t count = (int32_t)run->executable->graph->node_count;
  tenon_status_t status = TENON_OK;
  tn_scratch_mark_t mark = tn_scratch_mark();
  for (int32_t s = begin; s < count && status == TENON_OK; s++) {
    const tn_node_t *node = run->executable->steps[s].node;
    if (is_blocked(&p, node)) break;
    tn_scratch_mark_t inner = tn_scratch_mark();
    status = plan_step(&p, s);
    tn_scratch_reset(inner);
    if (status != TENON_OK)
      status = tn_prefix(status, "node '%s' (%s): ", node->name, node->op->name);
    stage->end = s + 1;
  }
  extend_roots(&p);
  stage->is_watched = tn_watch_is_on();
  bool is_plain = run->executable->options.flags & TENON_COMPILE_PLAIN;
  if (status == TENON_OK && !stage->is_watched && !is_plain) {
    status = tn_stage_place_parts(run, stage);
    if (status == TENON_OK) status = tn_stage_make_regions(run, stage);
    if (status == TENON_OK) status = tn_stage_settle_parts(run, stage);
  }
  if (status == TENON_OK) status = allocate_arena(&p);
  forget_marks(&p);
  tn_scratch_reset(mark);
  if (status != TENON_OK) tn_stages_drop(run, run->stage_count - 1);
  return status;
}
