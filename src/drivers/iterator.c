/* Iterators over the arguments of a pointwise operator or a reduction: broadcasting, overlap, and
 * merged axes; and the parent kernel of stubs.  The table's entries and the driver of loops use
 * them.  Invariant: axes are merged only where every operand allows it, so that the number of an
 * element means the same for all operands. */
#include "drivers/iterator.h"

#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "base/status.h"
#include "core/dtype.h"
#include "storage/device_memory.h"

typedef struct making_t {
  tenon_call_t *call;
  const tenon_op_t *op;
  /* The tensor whose axes are iterated over: the first result, or the input of a reduction. */
  const tenon_tensor_t *over;
  uint64_t reduced; /* bit i: axis i of `over` is reduced */
  bool drops;       /* results lack the reduced axes instead of having them with extent 1 */
  uint32_t count;
  const tenon_tensor_t **tensors;
  int64_t *offsets;
  int64_t **strides;
  int64_t *shape;
} making_t;

bool tn_op_has_stub(const tenon_op_t *op) {
  for (uint32_t i = 0; i < op->input_count; i++)
    if (op->schema.inputs[i].kind == TENON_KIND_TENSORS) return false;
  for (uint32_t o = 0; o < op->output_count; o++)
    if (op->schema.outputs[o].kind == TENON_KIND_TENSORS) return false;
  return op->output_count && (op->reduces.text || op->traits & TENON_POINTWISE);
}

static const char *operand_name(const tenon_op_t *op, uint32_t i) {
  return i < op->input_count ? op->schema.inputs[i].name
                             : op->schema.outputs[i - op->input_count].name;
}

static int64_t size_of(const tenon_tensor_t *t) { return t->dtype.bits * t->dtype.lanes / 8; }

/* overlapping memory */

static inline bool is_same_list(const int64_t *a, const int64_t *b, int32_t count) {
  for (int32_t i = 0; i < count; i++)
    if (a[i] != b[i]) return false;
  return true;
}

static bool is_same_shape(const tenon_tensor_t *a, const tenon_tensor_t *b) {
  return a->ndim == b->ndim && is_same_list(a->shape, b->shape, a->ndim);
}

/* Returns whether element i of both tensors is in the same place, for every i. */
static bool is_same_memory(const tenon_tensor_t *a, const tenon_tensor_t *b) {
  return a->data == b->data && a->byte_offset == b->byte_offset && a->dtype.bits == b->dtype.bits &&
         is_same_shape(a, b) && is_same_list(a->strides, b->strides, a->ndim);
}

/* Copies inputs that a result would overwrite before they are read. An input of a pointwise
 * operator needs no copy if its elements are in the same places as those of the result. */
static tenon_status_t part_inputs(making_t *m) {
  const tenon_op_t *op = m->op;
  for (uint32_t o = op->input_count; o < m->count; o++) {
    if (!m->tensors[o]) continue;
    for (uint32_t i = 0; i < op->input_count; i++) {
      const tenon_tensor_t *input = m->tensors[i];
      tenon_tensor_t *copy;
      /* The input is absent, empty, or already a copy. */
      if (!input || input != m->call->inputs[i] || !tenon_count(input)) continue;
      if (!tn_tensors_overlap(input, m->tensors[o])) continue;
      if (!op->reduces.text && is_same_memory(input, m->tensors[o])) continue;
      TN_TRY(tn_device_tensor_create_like(input, true, &copy));
      TN_TRY(tn_frame_keep(tn_frame_of(m->call), copy));
      m->tensors[i] = copy;
    }
  }
  return TENON_OK;
}

/* operands */

static tenon_status_t find_operands(making_t *m) {
  tenon_call_t *call = m->call;
  const tenon_op_t *op = m->op;
  for (uint32_t i = 0; i < m->count; i++) {
    bool is_input = i < op->input_count;
    const tenon_tensor_t *t = is_input ? call->inputs[i] : call->outputs[i - op->input_count];
    m->tensors[i] = is_input && op->reduces.text && op->schema.inputs[i].is_host ? NULL : t;
    if (m->tensors[i] && !size_of(t))
      return tn_fail(TENON_UNIMPLEMENTED,
                     "%s: %s: elements of %s share bytes: no stub or loop can take them", op->name,
                     operand_name(op, i), tn_dtype_name(t->dtype));
  }
  return TENON_OK;
}

/* axes of reductions */

static tenon_status_t add_axis(making_t *m, int64_t axis) {
  int32_t ndim = m->over->ndim;
  if (axis < -(int64_t)ndim || axis >= ndim)
    return tn_fail(TENON_INVALID, "%s: axis %lld is outside [%d, %d) of a tensor of rank %d",
                   m->op->name, (long long)axis, (int)-ndim, (int)ndim, (int)ndim);
  m->reduced |= (uint64_t)1 << (axis < 0 ? axis + ndim : axis);
  return TENON_OK;
}

static tenon_status_t listed_axes(making_t *m) {
  const tn_reduces_t *r = &m->op->reduces;
  const tenon_tensor_t *t = r->axes_input >= 0 ? m->call->inputs[r->axes_input] : NULL;
  const tenon_value_t *v = r->axes_attr >= 0 ? &m->call->attrs[r->axes_attr] : NULL;
  if (v && v->kind == TENON_KIND_INT) TN_TRY(add_axis(m, v->as.i));
  for (uint32_t i = 0; v && v->kind == TENON_KIND_INTS && i < v->count; i++)
    TN_TRY(add_axis(m, v->as.ints[i]));
  int64_t step = t && t->ndim ? t->strides[0] : 1;
  for (int64_t i = 0, n = t ? tenon_count(t) : 0; i < n; i++)
    TN_TRY(add_axis(m, t->dtype.bits == 32 ? ((const int32_t *)t->data)[i * step]
                                           : ((const int64_t *)t->data)[i * step]));
  return TENON_OK;
}

/* Finds which axes of the input are reduced. These axes and the result's shape must agree. */
static tenon_status_t find_axes(making_t *m, const tenon_tensor_t *result) {
  const tn_reduces_t *r = &m->op->reduces;
  const tenon_tensor_t *x = m->over;
  int32_t missing = x->ndim - result->ndim;
  int32_t kept = 0;
  if (r->axes_input < 0 && r->axes_attr < 0) {
    for (int32_t i = 0; i < x->ndim; i++)
      if (i < missing || result->shape[i - missing] != x->shape[i]) m->reduced |= (uint64_t)1 << i;
    m->drops = false;
    if (missing >= 0) return TENON_OK;
  } else {
    TN_TRY(listed_axes(m));
    if (!m->reduced && !is_same_shape(x, result))
      m->reduced = x->ndim == 64 ? ~(uint64_t)0 : ((uint64_t)1 << x->ndim) - 1;
    m->drops = missing != 0;
    for (int32_t i = 0; i < x->ndim; i++)
      kept += !(m->reduced >> i & 1);
    if (!missing || result->ndim == kept) return TENON_OK;
  }
  return tn_fail(TENON_INVALID, "%s: result %s of rank %d does not fit input %s of rank %d",
                 m->op->name, m->op->schema.outputs[0].name, (int)result->ndim,
                 m->op->schema.inputs[r->input].name, (int)x->ndim);
}

/* Returns the position of an axis in a result; -1: the result does not move along that axis. */
static int32_t axis_in_result(const making_t *m, int32_t axis, const tenon_tensor_t *t) {
  if (m->reduced >> axis & 1) return -1;
  if (!m->drops) return axis - m->over->ndim + t->ndim;
  return axis - __builtin_popcountll(m->reduced & (((uint64_t)1 << axis) - 1));
}

/* merging */

/* Returns the bytes from one element to the next along an axis of `over`; 0 if the operand is
 * broadcast along that axis, or the axis is reduced. */
static int64_t stride_of(const making_t *m, uint32_t operand, int32_t axis) {
  const tenon_tensor_t *t = m->tensors[operand];
  if (!t) return 0;
  int32_t at =
      operand < m->op->input_count ? axis - m->over->ndim + t->ndim : axis_in_result(m, axis, t);
  return at < 0 || (t->shape[at] == 1 && m->over->shape[axis] != 1) ? 0
                                                                    : t->strides[at] * size_of(t);
}

static int64_t magnitude(int64_t stride) { return stride < 0 ? -stride : stride; }

/* Adds these axes from position `first` on, in the order of memory (`by_memory`) or as they are.
 * Axes that continue each other in every operand are merged, and axes of extent 1 are left out.
 * Returns the number of axes, at least 1. */
static int32_t add_axes(making_t *m, uint64_t axes, int32_t first, bool by_memory) {
  const tenon_tensor_t *over = m->over;
  int32_t order[TENON_RANK_MAX];
  int32_t count = 0;
  int32_t last = first - 1;
  for (int32_t i = 0; i < over->ndim; i++) {
    if (!(axes >> i & 1) || over->shape[i] == 1) continue;
    int32_t at = count++;
    for (; by_memory && at > 0 &&
           magnitude(over->strides[order[at - 1]]) < magnitude(over->strides[i]);
         at--)
      order[at] = order[at - 1];
    order[at] = i;
  }
  for (int32_t k = 0; k < count; k++) {
    int64_t extent = over->shape[order[k]];
    bool continues = last >= first;
    for (uint32_t i = 0; i < m->count && continues; i++)
      continues = m->strides[i][last] == stride_of(m, i, order[k]) * extent;
    if (continues)
      m->shape[last] *= extent;
    else
      m->shape[++last] = extent;
    for (uint32_t i = 0; i < m->count; i++)
      m->strides[i][last] = stride_of(m, i, order[k]);
  }
  if (last >= first) return last - first + 1;
  m->shape[first] = 1;
  for (uint32_t i = 0; i < m->count; i++)
    m->strides[i][first] = m->tensors[i] ? size_of(m->tensors[i]) : 0;
  return 1;
}

/* Returns whether every operand has the result's shape and layout or is one element, so that one
 * axis serves for all without looking at each axis. */
static bool is_one_run(const making_t *m, bool by_memory) {
  const tenon_tensor_t *like = m->over;
  for (uint32_t i = 0; i < m->count; i++) {
    const tenon_tensor_t *t = m->tensors[i];
    if (!t) continue;
    bool is_plain = !(t->keys & TN_KEY_STRIDED) && !(like->keys & TN_KEY_STRIDED);
    if (is_same_shape(t, like) && (is_plain || is_same_list(t->strides, like->strides, t->ndim)))
      continue;
    if (i >= m->op->input_count || tenon_count(t) != 1) return false;
  }
  return !(like->keys & TN_KEY_STRIDED) || (by_memory && tn_is_packed(like));
}

static tenon_dtype_t common_dtype(const making_t *m) {
  const tenon_tensor_t *t = m->op->dispatch_input >= 0 ? m->tensors[m->op->dispatch_input] : NULL;
  for (uint32_t i = 0; i < m->count && !t; i++)
    t = m->tensors[i];
  return t->dtype;
}

/* making and splitting iterators */

static tenon_status_t make_room(making_t *m, int32_t ndim) {
  uint32_t n = m->count;
  /* All parts of the room are arrays whose elements have 8 bytes. */
  size_t axes = (size_t)ndim + 2;
  size_t places = 3 * (size_t)n + (n + 1) * axes;
  int64_t *room = tn_scratch(places * sizeof *room);
  if (!room) return tn_no_memory("an iterator", places * sizeof *room);
  m->tensors = (const tenon_tensor_t **)(void *)room;
  m->strides = (int64_t **)(void *)(room + n);
  m->offsets = room + 2 * (size_t)n;
  m->shape = m->offsets + n;
  for (uint32_t i = 0; i < n; i++)
    m->strides[i] = m->shape + (i + 1) * axes;
  return TENON_OK;
}

/* is_apart: no result shares memory with an input. */
static tenon_status_t make_iterator(tenon_call_t *call, bool is_apart, tenon_iterator_t *it) {
  const tenon_op_t *op = call->op;
  const tenon_tensor_t *result = NULL;
  making_t m = {.call = call, .op = op, .count = op->input_count + op->output_count};
  for (uint32_t o = 0; o < op->output_count && !result; o++)
    result = call->outputs[o];
  *it = (tenon_iterator_t){.size = sizeof *it,
                           .phase = TENON_PHASE_LOOP,
                           .host = call->host,
                           .op = op,
                           .attrs = call->attrs,
                           .context = call->context,
                           .state = call->state,
                           .call = call,
                           .inner = 1,
                           .count = m.count};
  it->end = result ? tenon_count(result) : 0;
  if (!it->end) return TENON_OK;
  m.over = op->reduces.text ? call->inputs[op->reduces.input] : result;
  TN_TRY(make_room(&m, m.over->ndim));
  TN_TRY(find_operands(&m));
  if (!is_apart) TN_TRY(part_inputs(&m));
  if (op->reduces.text) m.over = m.tensors[op->reduces.input];
  if (op->reduces.text) TN_TRY(find_axes(&m, result));
  /* Random numbers belong to positions, whatever the layout is. */
  bool by_memory = !(op->traits & TENON_RANDOM);
  if (!op->reduces.text && is_one_run(&m, by_memory)) {
    it->ndim = 1;
    m.shape[0] = it->end;
    for (uint32_t i = 0; i < m.count; i++) {
      const tenon_tensor_t *t = m.tensors[i];
      bool moves = t && (it->end == 1 || i >= op->input_count || is_same_shape(t, result));
      m.strides[i][0] = moves ? size_of(t) : 0;
    }
  } else {
    it->ndim = add_axes(&m, ~m.reduced, 0, by_memory);
    if (op->reduces.text) it->reduced = add_axes(&m, m.reduced, it->ndim, by_memory);
    for (int32_t i = 0; i < it->reduced; i++)
      it->inner *= m.shape[it->ndim + i];
  }
  for (uint32_t i = 0; i < m.count; i++)
    m.offsets[i] = m.tensors[i] ? (int64_t)m.tensors[i]->byte_offset : 0;
  it->dtype = common_dtype(&m);
  it->shape = m.shape;
  it->tensors = m.tensors;
  it->offsets = m.offsets;
  it->strides = (const int64_t *const *)m.strides;
  return TENON_OK;
}

tenon_status_t tn_iterator_make(tenon_call_t *call, tenon_iterator_t *it) {
  return make_iterator(call, false, it);
}

tenon_status_t tn_iterator_make_apart(tenon_call_t *call, tenon_iterator_t *it) {
  return make_iterator(call, true, it);
}

tenon_status_t tn_stub_run(tenon_call_t *call) {
  const tn_kernel_t *kernel = tn_frame_of(call)->kernel;
  tenon_iterator_t it;
  tn_scratch_mark_t mark = tn_scratch_mark();
  tenon_status_t status = tn_iterator_make(call, &it);
  if (status == TENON_OK && it.begin < it.end) status = kernel->stub(&it);
  tn_scratch_reset(mark);
  return status;
}

typedef struct split_t {
  const tenon_iterator_t *whole;
  tenon_stub_fn part;
  void *context;
} split_t;

static tenon_status_t run_part(void *argument, int64_t begin, int64_t end) {
  const split_t *split = argument;
  tenon_iterator_t part = *split->whole;
  part.context = split->context;
  part.begin = split->whole->begin + begin;
  part.end = split->whole->begin + end;
  return split->part(&part);
}

tenon_status_t tn_iterator_split(const tenon_iterator_t *it, int64_t grain, tenon_stub_fn part,
                                 void *context) {
  split_t split = {it, part, context};
  if (it->inner > 1) grain /= it->inner;
  return tn_parallel(it->end - it->begin, grain > 0 ? grain : 1, run_part, &split);
}
