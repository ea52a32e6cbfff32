/* Runs one call in a special way; see run.h. Arguments lie in guarded memory, so reads and writes
 * outside them are detected. */
#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scratch.h"
#include "core/dtype.h"
#include "core/value.h"
#include "dispatch/infer.h"
#include "dispatch/overlap.h"
#include "guard.h"
#include "operator/state.h"
#include "probe.h"

enum {
  GAP = 0x7E,
  ITEMS = 64,
};

typedef struct passed_tensor_t { /* one tensor that is passed to the operator */
  tenon_tensor_t view;           /* used unless the tensor is an item of a list */
  tenon_tensor_t *tensor;
  guard_t *memory;
  guard_t *shape;
  char *before; /* previous contents of the memory */
  struct passed_tensor_t *items;
  int64_t item_count;
  int64_t strides[TENON_RANK_MAX];
  int64_t shape_before[TENON_RANK_MAX];
} passed_tensor_t;

static void choose_strides(const tenon_tensor_t *t, uint8_t layout, int64_t *out) {
  int64_t step = layout == LAYOUT_GAPS ? 2 : 1;
  if (layout == LAYOUT_TRANSPOSED)
    for (int32_t d = 0; d < t->ndim; d++) {
      out[d] = step;
      step *= t->shape[d] > 0 ? t->shape[d] : 1;
    }
  else
    for (int32_t d = t->ndim - 1; d >= 0; d--) {
      out[d] = step;
      step *= t->shape[d] > 0 ? t->shape[d] : 1;
    }
  if (layout == LAYOUT_REVERSED && t->ndim) out[t->ndim - 1] = -out[t->ndim - 1];
  if (layout == LAYOUT_ZERO_STRIDES)
    for (int32_t d = 0; d < t->ndim; d++)
      out[d] = t->shape[d] == 1 ? 0 : out[d];
}

/* Offset of element `index` (row-major) by strides. */
static int64_t offset_of(int32_t ndim, const int64_t *shape, const int64_t *strides,
                         int64_t index) {
  int64_t at = 0;
  for (int32_t d = ndim - 1; d >= 0; d--) {
    at += index % shape[d] * strides[d];
    index /= shape[d];
  }
  return at;
}

static bool lay_out_tensor(const char *name, uint8_t kind, const tenon_tensor_t *from,
                           const way_t *way, bool has_layout, bool needs_owned,
                           passed_tensor_t *out) {
  uint8_t layout = has_layout && from->dtype.bits >= 8 ? way->layout : LAYOUT_DENSE;
  int64_t low = 0;
  int64_t span = 1;
  int64_t count = tenon_count(from);
  size_t size = from->dtype.bits / 8u;
  size_t bytes;
  if (tn_dtype_is(from->dtype, TENON_STRING))
    return tenon_tensor_copy(from, &out->tensor) == TENON_OK;
  choose_strides(from, layout, out->strides);
  for (int32_t d = 0; d < from->ndim && count; d++) {
    int64_t reach = (from->shape[d] - 1) * out->strides[d];
    low += reach < 0 ? reach : 0;
    span += reach < 0 ? -reach : reach;
  }
  if (count == 0)
    bytes = 0;
  else if (from->dtype.bits < 8)
    bytes = ((size_t)count * from->dtype.bits + 7) / 8;
  else
    bytes = (size_t)span * size;
  /* LAYOUT_OFFSET: 48 bytes are a multiple of every element size and aligned to 16 bytes, but no
   * more. */
  size_t skip = 0;
  if (layout == LAYOUT_UNALIGNED) skip = size;
  if (layout == LAYOUT_OFFSET) skip = 48;
  size_t alignment = 64;
  if (way->place == AT_TAIL) alignment = size ? size : 1;
  out->memory = guard_make(kind, name, bytes + skip, alignment, way->place == AT_TAIL);
  if (!out->memory) return false;
  memset(out->memory->data, GAP, out->memory->length);
  char *first = out->memory->data + skip - low * (int64_t)size;
  if (from->dtype.bits < 8)
    memcpy(first, from->data, bytes);
  else
    for (int64_t i = 0; i < count; i++)
      memcpy(first + offset_of(from->ndim, from->shape, out->strides, i) * (int64_t)size,
             (char *)from->data + i * (int64_t)size, size);
  memcpy(out->shape_before, from->shape, (size_t)from->ndim * sizeof(int64_t));
  if ((out->before = malloc(out->memory->length + 1)))
    memcpy(out->before, out->memory->data, out->memory->length);
  if (needs_owned || way->place != AT_TAIL || from->ndim == 0)
    return tenon_tensor_borrow(first, from->dtype, from->ndim, from->shape, out->strides, NULL,
                               NULL, &out->tensor) == TENON_OK;
  /* Extents and strides end at an inaccessible page, too. */
  size_t axes = (size_t)from->ndim * sizeof(int64_t);
  out->shape = guard_make(kind, "the extents and strides", 2 * axes, 8, true);
  if (!out->shape) return false;
  int64_t *strides = (int64_t *)(void *)out->shape->data;
  int64_t *shape = strides + from->ndim;
  memcpy(shape, from->shape, axes);
  memcpy(strides, out->strides, axes);
  out->tensor = &out->view;
  return tenon_tensor_view(&out->view, first, from->dtype, from->ndim, shape, strides, NULL) ==
         TENON_OK;
}

static bool lay_out(const char *name, const tenon_tensor_t *from, const way_t *way, bool has_layout,
                    bool needs_owned, passed_tensor_t *out) {
  memset(out, 0, sizeof *out);
  if (!tn_dtype_is(from->dtype, TENON_LIST))
    return lay_out_tensor(name, GUARD_INPUT, from, way, has_layout, needs_owned, out);
  tenon_tensor_t *items[ITEMS];
  out->item_count = from->shape[0] < ITEMS ? from->shape[0] : ITEMS;
  out->items = calloc((size_t)out->item_count + 1, sizeof *out->items);
  bool good = out->items != NULL;
  for (int64_t i = 0; i < out->item_count && good; i++) {
    good = lay_out_tensor(name, GUARD_INPUT, tenon_item(from, i), way, has_layout, true,
                          &out->items[i]);
    items[i] = out->items[i].tensor;
  }
  return good && tenon_tensor_list(items, (int32_t)out->item_count, &out->tensor) == TENON_OK;
}

static void release_layout(passed_tensor_t *l) {
  for (int64_t i = 0; i < l->item_count && l->items; i++)
    release_layout(&l->items[i]);
  if (l->tensor != &l->view) tenon_tensor_release(l->tensor);
  free(l->items);
  free(l->before);
  guard_free(l->memory);
  guard_free(l->shape);
  memset(l, 0, sizeof *l);
}

static void check_guard(const example_t *t, const guard_t *g, const char *what) {
  int64_t far = g ? guard_damage(g) : 0;
  const long long offset = far > 0 ? far - 1 : -far;
  const char *where = far > 0 ? "past the end of" : "before";
  size_t over = far > 0 ? guard_overrun(g) : 0;
  bool is_wider = over && g->kind == GUARD_OUTPUT && g->length > 8 &&
                  (over == g->length || over == 3 * g->length);
  if (is_wider)
    finding(t, "types.infer", "the elements have the dtype that infer states",
            "compare the element type of the kernel with the dtype of the result",
            "%s %s: %zu bytes were written to a buffer of %zu bytes: %zu times as many", what,
            g->name, over + g->length, g->length, over / g->length + 1);
  else if (far)
    finding_by_the_way(t, "write.outside", "nothing outside the results is written",
                       "compare the bounds of the loop with the number of elements, and the "
                       "pointer steps with the strides",
                       "%s %s: the byte %lld %s its memory was overwritten", what, g->name, offset,
                       where);
}

static void check_input(const example_t *t, const char *name, bool is_written,
                        const passed_tensor_t *l) {
  for (int64_t i = 0; i < l->item_count; i++)
    check_input(t, name, is_written, &l->items[i]);
  if (!l->memory) return;
  check_guard(t, l->memory, "input");
  if (!is_written && l->before && memcmp(l->before, l->memory->data, l->memory->length) != 0) {
    size_t at = 0;
    while (l->before[at] == l->memory->data[at])
      at++;
    finding_by_the_way(t, "alias.inplace",
                       "inputs are not modified unless the schema marks them, as in `Tensor(a!)`",
                       "write to results only, or mark the input in the schema",
                       "input %s: byte %zu was %02x before the call and is %02x after it", name, at,
                       (unsigned char)l->before[at], (unsigned char)l->memory->data[at]);
  }
  if (!is_written && l->tensor && l->tensor->ndim &&
      memcmp(l->tensor->shape, l->shape_before, (size_t)l->tensor->ndim * sizeof(int64_t)) != 0)
    finding_by_the_way(t, "alias.inplace", "a kernel does not modify the extents of a tensor",
                       "write to results only", "the extents of input %s were modified", name);
}

/* Makes the results that the caller can provide: their extents and dtypes are known in advance, and
 * they are not lists, strings or views. */
static void lay_outputs(const example_t *t, const tenon_op_t *op, const tenon_value_t *attrs,
                        const way_t *way, tenon_tensor_t *const *inputs, passed_tensor_t *laid,
                        tenon_tensor_t **outputs) {
  tn_inference_t inference = {.extents = NULL};
  tenon_meta_t **metas, **results;
  void *state = NULL;
  tn_scratch_mark_t mark = tn_scratch_mark();
  bool knows = (op->infer || op->shapes.text || op->traits & TENON_POINTWISE) && !op->is_view;
  if (op->create) knows = knows && tn_state_get(op, attrs, &state) == TENON_OK;
  knows = knows && tn_metas_of_inputs(op, inputs, &metas) == TENON_OK &&
          tn_metas_of_results(op, attrs, way->wanted, &results) == TENON_OK &&
          tn_infer(&inference, op, attrs, state, metas, results) == TENON_OK;
  for (uint32_t o = 0; o < op->output_count && knows; o++) {
    const tenon_meta_t *m = results[o];
    int64_t shape[TENON_RANK_MAX], strides[TENON_RANK_MAX];
    bool is_fit = m && !m->items && m->ndim >= 0 && !m->alias && !m->strided && !m->layout &&
                  tn_result_input(op, o) < 0 && tn_dtype_index(m->dtype) >= 0 &&
                  !tn_dtype_is(m->dtype, TENON_STRING) && !tn_dtype_is(m->dtype, TENON_LIST);
    for (int32_t d = 0; is_fit && d < m->ndim; d++) {
      is_fit = tenon_is_known(m->dims[d]);
      shape[d] = m->dims[d].value;
    }
    if (!is_fit || !tn_strides_dense(m->ndim, shape, strides)) continue;
    uint64_t size;
    if (!tn_dtype_bytes(m->dtype, tn_shape_count(m->ndim, shape), &size)) continue;
    tenon_tensor_t like = {
        .dtype = m->dtype, .ndim = m->ndim, .shape = shape, .strides = strides, .device = {1, 0}};
    if (!(like.data = calloc(1, size + 1))) continue;
    memset(like.data, way->poison, size);
    if (lay_out_tensor(t->op->schema.outputs[o].name, GUARD_OUTPUT, &like, way,
                       way->outputs_have_layout, true, &laid[o])) {
      outputs[o] = laid[o].tensor;
    }
    free(like.data);
  }
  tn_scratch_reset(mark);
}

tenon_tensor_t *tensor_dense(const tenon_tensor_t *t) {
  tenon_tensor_t *out = NULL;
  if (t && tenon_tensor_copy(t, &out) != TENON_OK) out = NULL;
  return out;
}

static void check_sharing(const example_t *t, const tenon_op_t *op, const passed_tensor_t *inputs,
                          tenon_tensor_t *const *outputs) {
  bool is_composite = false;
  for (const tn_kernel_t *k = op->kernels; k; k = k->next)
    is_composite |= k->kind == TN_KIND_COMPOSITE;
  for (uint32_t o = 0; o < op->output_count && !op->is_view && !is_composite; o++)
    for (uint32_t i = 0; outputs[o] && i < op->input_count; i++) {
      const guard_t *g = inputs[i].memory;
      const char *data = outputs[o]->data;
      if (op->schema.outputs[o].mark || !g || data < g->data || data >= g->data + g->length)
        continue;
      finding_by_the_way(
          t, "alias.undeclared",
          "a result has memory of its own, unless the schema marks it, as in `Tensor(a)`",
          "copy the elements, or mark input and result in the schema",
          "result %s lies in the memory of input %s", op->schema.outputs[o].name,
          op->schema.inputs[i].name);
    }
}

static void check_attrs(const example_t *t, const tenon_op_t *op, const tenon_value_t *before,
                        const tenon_value_t *after) {
  for (uint32_t i = 0; i < op->schema.attr_count; i++)
    if (!tn_value_equal(&before[i], &after[i]))
      finding_by_the_way(t, "attrs.changed", "attributes are only read",
                         "copy the attribute before changing it",
                         "attribute %s was modified by the call", op->schema.attrs[i].name);
}

void run_way(example_t *t, const way_t *way, ran_t *ran) {
  const tenon_op_t *op = way->op ? way->op : t->op;
  static passed_tensor_t in[EXAMPLE_ARGUMENTS], out[EXAMPLE_ARGUMENTS];
  tenon_tensor_t *inputs[EXAMPLE_ARGUMENTS] = {NULL};
  const tenon_value_t *attrs = way->attrs ? way->attrs : t->attrs;
  if (way->no_attrs) attrs = NULL;
  tn_arena_t arena = {NULL};
  bool good = true;
  memset(ran, 0, sizeof *ran);
  memset(in, 0, sizeof in);
  memset(out, 0, sizeof out);
  /* An operator that writes to inputs may change tensor headers, so its tensors belong to the
   * host. */
  bool writes = false;
  for (uint32_t i = 0; i < op->input_count; i++)
    writes |= op->schema.inputs[i].is_written;
  for (uint32_t i = 0; i < op->input_count && good; i++) {
    bool has_layout = !way->which || way->which >> i & 1;
    if (t->inputs[i]) {
      good = lay_out(op->schema.inputs[i].name, t->inputs[i], way, has_layout, writes, &in[i]);
      inputs[i] = in[i].tensor;
    }
  }
  tenon_value_t *before = tn_arena_array(&arena, op->schema.attr_count + 1, sizeof *before);
  tenon_value_t *now;
  guard_t *attr_guard = guard_attributes(op->schema.attr_count, &now);
  for (uint32_t i = 0; attrs && i < op->schema.attr_count && good; i++)
    good = before && now && tn_value_copy(&attrs[i], &arena, &before[i]) &&
           tn_value_copy(&attrs[i], &arena, &now[i]);
  if (!good) {
    snprintf(ran->error, sizeof ran->error, "the check ran out of memory");
    ran->status = TENON_MEMORY;
  }
  if (good && way->provides_outputs)
    lay_outputs(t, op, attrs ? attrs : op->defaults, way, inputs, out, ran->outputs);
  for (uint32_t o = 0; o < op->output_count; o++)
    if (ran->outputs[o]) ran->outputs_given |= (uint64_t)1 << o;
  if (good) {
    char text[1400];
    example_describe(t, inputs, text, sizeof text);
    doing(t, way->crash_id, text);
    probe.guards = !way->is_unguarded;
    probe.at_end = way->place == AT_TAIL;
    probe.poison = way->inside;
    tenon_random_seed(t->seed + 7);
    uint64_t all = (op->output_count < 64 ? (uint64_t)1 << op->output_count : 0) - 1;
    const tenon_value_t *passed = attrs ? now : NULL;
    if (way->uses_op_run && ran->outputs_given == all)
      ran->status = tenon_op_run(op, passed, inputs, ran->outputs);
    else
      ran->status = tenon_op_call(op, passed, inputs, ran->outputs, way->wanted);
    if (ran->status != TENON_OK) snprintf(ran->error, sizeof ran->error, "%s", tenon_error());
    probe.guards = false;
    for (uint32_t i = 0; i < op->input_count; i++)
      check_input(t, op->schema.inputs[i].name, op->schema.inputs[i].is_written, &in[i]);
    for (uint32_t o = 0; o < op->output_count; o++)
      check_guard(t, out[o].memory, "result");
    if (attrs) check_attrs(t, op, before, now);
    if (ran->status == TENON_OK) check_sharing(t, op, in, ran->outputs);
  }
  for (uint32_t o = 0; o < op->output_count; o++) {
    tenon_tensor_t *result = ran->outputs[o];
    bool is_ours = ran->outputs_given >> o & 1;
    ran->outputs[o] = ran->status == TENON_OK ? tensor_dense(result) : NULL;
    if (!is_ours && ran->status == TENON_OK) tenon_tensor_release(result);
  }
  for (uint32_t i = 0; i < op->input_count; i++)
    if (op->schema.inputs[i].is_written && inputs[i]) ran->written[i] = tensor_dense(inputs[i]);
  for (uint32_t i = 0; i < op->input_count; i++)
    release_layout(&in[i]);
  for (uint32_t o = 0; o < op->output_count; o++)
    release_layout(&out[o]);
  guard_free(attr_guard);
  tn_arena_clear(&arena);
}

void run_plainly(example_t *t, ran_t *ran) { run_way(t, &(way_t){0}, ran); }

void ran_free(ran_t *ran) {
  for (int i = 0; i < EXAMPLE_ARGUMENTS; i++) {
    tenon_tensor_release(ran->outputs[i]);
    tenon_tensor_release(ran->written[i]);
    ran->outputs[i] = ran->written[i] = NULL;
  }
}

bool plain_works(const subject_t *subject) {
  examples_t all = examples(subject, false);
  example_t *t = examples_next(&all);
  ran_t ran = {.status = TENON_INVALID};
  if (t) run_plainly(t, &ran);
  ran_free(&ran);
  example_free(&all.now);
  return ran.status == TENON_OK;
}

bool run_and_compare(example_t *t, const way_t *way, const ran_t *expected, const char *id,
                     const char *what, const char *advice) {
  ran_t ran;
  run_way(t, way, &ran);
  const char *differs = ran.status != TENON_OK ? ran.error : ran_differs(t, expected, &ran, 1);
  if (differs) finding(t, id, what, advice, "%s", differs);
  ran_free(&ran);
  return !differs;
}
