/* Lowerings of sequences. Graphs of this runtime contain tensors only, so a sequence whose length
 * can be told from the file is taken apart during the import. Positions in sequences must be
 * constants. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "import/onnx/lower.h"

enum { ITEMS_MAX = 256 };

static bool has_stopped(const tn_lower_t *lower) {
  return lower->status != TENON_OK || lower->is_missing;
}

/* Creates a sequence with room for `count` items; NULL if the import has stopped. */
static tn_ref_t *create_sequence(tn_lower_t *lower, int32_t count) {
  if (count > ITEMS_MAX)
    tn_lower_missing(lower, "a sequence has more than %d items", (int)ITEMS_MAX);
  if (has_stopped(lower)) return NULL;
  tn_ref_t *edge = tn_ref_new(lower->import, lower->scope->site, lower->name);
  if (edge)
    edge->items = tn_arena_array(&lower->import->arena, (size_t)count + 1, sizeof *edge->items);
  if (edge && edge->items) {
    edge->item_count = count;
    return edge;
  }
  if (lower->status == TENON_OK) lower->status = tn_no_memory("a sequence", (size_t)count);
  return NULL;
}

/* Input `index` as a sequence; NULL if it is not a sequence. */
static tn_ref_t *input_sequence(tn_lower_t *lower, int32_t index) {
  tn_ref_t *edge = lower->inputs[index];
  if (edge->items) return edge;
  if (edge->is_missing)
    lower->is_missing = true;
  else
    tn_lower_fail(lower, "'%.200s' is not a sequence whose items are known", edge->name);
  return NULL;
}

/* Reads a position from 0 to `last` in a sequence of `count` items. A negative one counts from the
 * end; an absent one is `otherwise`. */
static int32_t read_position(tn_lower_t *lower, int32_t index, int32_t count, int32_t last,
                             int32_t otherwise) {
  int64_t value = 0;
  int32_t values = 0;
  if (index >= lower->input_count || !lower->inputs[index]) return otherwise;
  if (!tn_lower_known(lower, lower->inputs[index], &value, 1, &values) || values != 1)
    tn_lower_missing(lower, "a position in a sequence is not a constant");
  if (value < 0) value += count;
  if (value < 0 || value > last)
    tn_lower_fail(lower, "position %lld is out of range for a sequence of %d items",
                  (long long)value, (int)count);
  return has_stopped(lower) ? 0 : (int32_t)value;
}

static void lower_construct(tn_lower_t *lower) {
  tn_ref_t *made = create_sequence(lower, lower->input_count);
  for (int32_t i = 0; made && i < lower->input_count; i++)
    made->items[i] = lower->inputs[i];
  lower->outputs[0] = made;
}

static void lower_at(tn_lower_t *lower) {
  tn_ref_t *from = input_sequence(lower, 0);
  if (!from) return;
  int32_t at = read_position(lower, 1, from->item_count, from->item_count - 1, 0);
  if (!has_stopped(lower)) lower->outputs[0] = from->items[at];
}

static void lower_insert(tn_lower_t *lower) {
  tn_ref_t *from = input_sequence(lower, 0);
  tn_ref_t *made;
  if (!from) return;
  int32_t count = from->item_count;
  int32_t at = read_position(lower, 2, count, count, count);
  if (!(made = create_sequence(lower, count + 1))) return;
  memcpy(made->items, from->items, (size_t)at * sizeof *made->items);
  memcpy(made->items + at + 1, from->items + at, (size_t)(count - at) * sizeof *made->items);
  made->items[at] = lower->inputs[1];
  lower->outputs[0] = made;
}

static void lower_erase(tn_lower_t *lower) {
  tn_ref_t *from = input_sequence(lower, 0);
  tn_ref_t *made;
  if (!from) return;
  int32_t count = from->item_count;
  int32_t at = read_position(lower, 1, count, count - 1, count - 1);
  if (count == 0) tn_lower_fail(lower, "the sequence is empty: there is no item to erase");
  if (has_stopped(lower) || !(made = create_sequence(lower, count - 1))) return;
  memcpy(made->items, from->items, (size_t)at * sizeof *made->items);
  memcpy(made->items + at, from->items + at + 1, (size_t)(count - at - 1) * sizeof *made->items);
  lower->outputs[0] = made;
}

static void lower_length(tn_lower_t *lower) {
  const tn_ref_t *from = input_sequence(lower, 0);
  if (from) lower->outputs[0] = tn_lower_scalar(lower, tenon_dtype(TENON_I64), from->item_count);
}

static void lower_concat(tn_lower_t *lower) {
  static const tn_lowering_t lowering = {"ConcatFromSequence(*xs) = concat(xs, axis=axis)", 1,
                                         NULL};
  tn_ref_t *from = input_sequence(lower, 0);
  bool fresh = tn_lower_int(lower, "new_axis", 0) != 0;
  long long axis = tn_lower_int(lower, "axis", 0);
  tn_ref_t *items = from ? create_sequence(lower, from->item_count) : NULL;
  for (int32_t i = 0; items && i < from->item_count; i++)
    items->items[i] =
        fresh ? tn_lower_run(lower, TN_REFS(from->items[i]), "unsqueeze(a, [%lld]:i64)", axis)
              : from->items[i];
  if (!items || has_stopped(lower)) return;
  lower->inputs = items->items;
  lower->input_count = items->item_count;
  tn_lowering_run(&lowering, lower);
}

/* Splits a tensor along an axis into parts of stated sizes, of one size (the last may be smaller),
 * or of one element each. */
static void lower_split(tn_lower_t *lower) {
  int64_t sizes[ITEMS_MAX];
  int64_t axis = tn_lower_int(lower, "axis", 0);
  bool keeps = tn_lower_int(lower, "keepdims", 1) != 0;
  bool is_list = false;
  int32_t count = 0;
  tn_ref_t *x = lower->inputs[0];
  tn_ref_t *split = lower->input_count > 1 ? lower->inputs[1] : NULL;
  if (split) {
    if (!tn_lower_known(lower, split, sizes, ITEMS_MAX, &count))
      tn_lower_missing(lower, "the sizes of the parts are not constant, or there are more than %d",
                       (int)ITEMS_MAX);
    is_list = split->ndim == 1;
  }
  if (!is_list) {
    int64_t step = split && count ? sizes[0] : 1;
    int64_t extent = tn_lower_extent(lower, x, (int32_t)axis);
    if (step < 1)
      tn_lower_fail(lower, "parts of %lld elements are not possible: expected at least 1",
                    (long long)step);
    else if (extent / step >= ITEMS_MAX)
      tn_lower_missing(lower, "a tensor is split into more than %d parts", (int)ITEMS_MAX);
    for (count = 0; !has_stopped(lower) && (int64_t)count * step < extent; count++)
      sizes[count] = extent - count * step < step ? extent - count * step : step;
  }
  if (x->is_missing) lower->is_missing = true;
  tn_ref_t *made = create_sequence(lower, count);
  int64_t begin = 0;
  int64_t end = 0;
  for (int32_t i = 0; made && i < count; begin = end, i++) {
    if (sizes[i] < 0 || !tn_add(begin, sizes[i], &end))
      tn_lower_fail(lower, "a part of %lld elements is not possible: expected 0 or more",
                    (long long)sizes[i]);
    made->items[i] = tn_lower_run(lower, TN_REFS(x), "slice(a, [%lld]:i64, [%lld]:i64, [%lld]:i64)",
                                  (long long)begin, (long long)end, (long long)axis);
    if (!split && !keeps)
      made->items[i] =
          tn_lower_run(lower, TN_REFS(made->items[i]), "squeeze(a, [%lld]:i64)", (long long)axis);
  }
  lower->outputs[0] = made;
}

/* Imports the body once for each item of the first sequence. */
static void lower_map(tn_lower_t *lower) {
  tn_ref_t *first = input_sequence(lower, 0);
  tn_attr_t *attr = tn_lower_attr(lower, "body");
  const tn_onnx_attribute_t *proto = tn_lower_typed(lower, "body", TN_ATTRIBUTE_GRAPH);
  if (!proto || !proto->g) tn_lower_fail(lower, "attribute 'body': expected a graph");
  if (!first || has_stopped(lower)) return;
  size_t outputs = proto->g->outputs.count;
  size_t inputs = (size_t)lower->input_count;
  tn_ref_t **now = tn_arena_array(&lower->import->arena, inputs + outputs + 1, sizeof *now);
  if (!now) lower->status = tn_no_memory("a node", inputs);
  if (outputs < (size_t)lower->output_count)
    tn_lower_fail(lower, "the body has only %zu outputs, fewer than the node", outputs);
  for (int32_t k = 0; k < lower->output_count; k++)
    lower->outputs[k] = create_sequence(lower, first->item_count);
  for (int32_t i = 0; i < first->item_count && lower->status == TENON_OK; i++) {
    for (size_t k = 0; k < inputs; k++) {
      tn_ref_t *input = lower->inputs[k];
      if (input->items && i >= input->item_count)
        tn_lower_fail(lower, "the sequences have different lengths: expected one length");
      else
        now[k] = input->items ? input->items[i] : input;
    }
    if (lower->status == TENON_OK)
      lower->status = tn_graph_inline(lower->import, attr->scope, lower->scope->site,
                                      lower->scope->prefix, proto->g, now, inputs, now + inputs);
    for (int32_t k = 0; k < lower->output_count && lower->status == TENON_OK; k++)
      lower->outputs[k]->items[i] = now[inputs + (size_t)k];
  }
}

/* clang-format off */
static const tn_lowering_t lowerings[] = {
  {"SequenceEmpty(-dtype)", 11, lower_construct},
  {"SequenceConstruct(*xs)", 11, lower_construct},
  {"SequenceAt(xs, at)", 11, lower_at},
  {"SequenceInsert(xs, x, at?)", 11, lower_insert},
  {"SequenceErase(xs, at?)", 11, lower_erase},
  {"SequenceLength(xs)", 11, lower_length},
  {"SequenceMap(xs, *more)", 17, lower_map},
  {"ConcatFromSequence(xs)", 11, lower_concat},
  {"SplitToSequence(x, split?)", 11, lower_split},
};
/* clang-format on */

TN_LOWERINGS(tn_lowerings_sequence, "");
