/* Lowerings of sequences and optional values. A sequence whose items the file states is taken apart
 * during the import, as long as positions in it are constants. Any other becomes a value of dtype
 * LIST, and so does one that a list operator, a body or an output of the graph needs. An optional
 * value is a list of at most one item. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "import/onnx/lower.h"

enum { ITEMS_MAX = 256 };

static bool has_stopped(const tn_lower_t *lower) {
  return lower->status != TENON_OK || lower->is_missing;
}

/* Creates a sequence with room for `count` items; NULL if the import has stopped. */
static tn_ref_t *create_sequence(tn_lower_t *lower, int32_t count) {
  if (has_stopped(lower)) return NULL;
  tn_ref_t *edge = tn_ref_new(lower->import, lower->scope->site, lower->name);
  if (edge)
    edge->items = tn_arena_array(&lower->import->arena, (size_t)count + 1, sizeof *edge->items);
  if (edge && edge->items) {
    edge->item_count = count;
    edge->kind = TN_REF_SEQUENCE;
    return edge;
  }
  if (lower->status == TENON_OK) lower->status = tn_no_memory("a sequence", (size_t)count);
  return NULL;
}

/* Input `index`, which must be a sequence; NULL if it is not. */
static tn_ref_t *input_sequence(tn_lower_t *lower, int32_t index) {
  tn_ref_t *edge = lower->inputs[index];
  if (edge->kind == TN_REF_SEQUENCE) return edge;
  if (edge->is_missing)
    lower->is_missing = true;
  else
    tn_lower_fail(lower, "'%.200s' is %s: expected a sequence", edge->name,
                  edge->kind == TN_REF_OPTIONAL ? "an optional value" : "a tensor");
  return NULL;
}

/* Whether the items of a sequence are known, and a position in it, if the node has one, too. */
static bool is_apart(tn_lower_t *lower, const tn_ref_t *sequence, int32_t index) {
  int64_t value = 0;
  int32_t count = 0;
  tn_ref_t *position = tn_lower_input(lower, index);
  if (!sequence->items || sequence->item_count >= ITEMS_MAX) return false;
  return !position || tn_lower_known(lower, position, &value, 1, &count);
}

/* Notes what is known about the items of a sequence that is taken apart. */
static void set_item_type(tn_ref_t *sequence) {
  sequence->item_dtype = (tenon_dtype_t){0, 0, 0};
  sequence->item_ndim = -1;
  for (int32_t i = 0; i < sequence->item_count && sequence->items; i++) {
    const tn_ref_t *item = sequence->items[i];
    if (!sequence->item_dtype.bits) sequence->item_dtype = item->dtype;
    if (!i) sequence->item_ndim = item->ndim;
    if (sequence->item_ndim != item->ndim) sequence->item_ndim = -1;
  }
}

/* Marks a value of the graph as a sequence or an optional value, with the items of `like`. */
static void mark_list(tn_ref_t *edge, uint8_t kind, const tn_ref_t *like) {
  if (!edge) return;
  if (like) tn_ref_like(edge, like);
  edge->kind = kind;
  edge->dtype = tenon_dtype(TENON_LIST);
  edge->ndim = 1;
}

/* Marks a value of the graph as an item of this list. */
static void mark_item(tn_ref_t *edge, const tn_ref_t *list) {
  if (!edge) return;
  if (list->holds_sequence) {
    mark_list(edge, TN_REF_SEQUENCE, list);
    edge->holds_sequence = false;
    return;
  }
  if (!edge->dtype.bits) edge->dtype = list->item_dtype;
  if (edge->ndim < 0) edge->ndim = list->item_ndim;
}

/* The attributes that state what is known about an item, as text; "" if nothing is known. */
typedef struct stated_t {
  char text[64];
} stated_t;

static stated_t state_item(const tn_ref_t *list) {
  stated_t stated = {""};
  const tenon_dtype_t dtype = list->holds_sequence ? tenon_dtype(TENON_LIST) : list->item_dtype;
  const int32_t rank = list->holds_sequence ? 1 : list->item_ndim;
  const int used =
      dtype.bits ? snprintf(stated.text, sizeof stated.text, ", dtype='%s'", tn_dtype_name(dtype))
                 : 0;
  if (rank >= 0)
    snprintf(stated.text + used, sizeof stated.text - (size_t)used, ", rank=%d", (int)rank);
  return stated;
}

/* Reads a position from 0 to `last` in a sequence of `count` items. A negative one counts from the
 * end; an absent one is `otherwise`. */
static int32_t read_position(tn_lower_t *lower, int32_t index, int32_t count, int32_t last,
                             int32_t otherwise) {
  int64_t value = 0;
  int32_t values = 0;
  if (!tn_lower_input(lower, index)) return otherwise;
  if (!tn_lower_known(lower, lower->inputs[index], &value, 1, &values) || values != 1)
    tn_lower_fail(lower, "the position has %d elements: expected one", (int)values);
  if (value < 0) value += count;
  if (value < 0 || value > last)
    tn_lower_fail(lower, "position %lld is out of range for a sequence of %d items",
                  (long long)value, (int)count);
  return has_stopped(lower) ? 0 : (int32_t)value;
}

/* The operators of ONNX */

static void lower_construct(tn_lower_t *lower) {
  tn_ref_t *made = create_sequence(lower, lower->input_count);
  const tn_onnx_attribute_t *dtype = tn_lower_typed(lower, "dtype", TN_ATTRIBUTE_INT);
  for (int32_t i = 0; made && i < lower->input_count; i++)
    made->items[i] = lower->inputs[i];
  lower->outputs[0] = made;
  if (!made) return;
  set_item_type(made);
  if (lower->input_count) return;
  made->item_dtype = tenon_dtype(TENON_F32);
  if (dtype && !tn_onnx_dtype(dtype->i, &made->item_dtype))
    tn_lower_fail(lower, "attribute 'dtype': %lld is not an element type of ONNX",
                  (long long)dtype->i);
}

static void lower_at(tn_lower_t *lower) {
  tn_ref_t *from = input_sequence(lower, 0);
  if (!from) return;
  if (is_apart(lower, from, 1)) {
    int32_t at = read_position(lower, 1, from->item_count, from->item_count - 1, 0);
    if (!has_stopped(lower)) lower->outputs[0] = from->items[at];
    return;
  }
  lower->outputs[0] = tn_lower_run(lower, TN_REFS(from, lower->inputs[1]), "list_at(a, b%s)",
                                   state_item(from).text);
  mark_item(lower->outputs[0], from);
}

static void insert_apart(tn_lower_t *lower, const tn_ref_t *from) {
  int32_t count = from->item_count;
  int32_t at = read_position(lower, 2, count, count, count);
  tn_ref_t *made = create_sequence(lower, count + 1);
  if (!made) return;
  memcpy(made->items, from->items, (size_t)at * sizeof *made->items);
  memcpy(made->items + at + 1, from->items + at, (size_t)(count - at) * sizeof *made->items);
  made->items[at] = lower->inputs[1];
  set_item_type(made);
  lower->outputs[0] = made;
}

static void lower_insert(tn_lower_t *lower) {
  tn_ref_t *from = input_sequence(lower, 0);
  tn_ref_t *at = tn_lower_input(lower, 2);
  if (!from) return;
  if (is_apart(lower, from, 2)) {
    insert_apart(lower, from);
    return;
  }
  lower->outputs[0] =
      at ? tn_lower_run(lower, TN_REFS(from, lower->inputs[1], at), "list_insert(a, b, c)")
         : tn_lower_run(lower, TN_REFS(from, lower->inputs[1]), "list_insert(a, b)");
  mark_list(lower->outputs[0], TN_REF_SEQUENCE, from);
}

static void erase_apart(tn_lower_t *lower, const tn_ref_t *from) {
  int32_t count = from->item_count;
  int32_t at = read_position(lower, 1, count, count - 1, count - 1);
  if (count == 0) tn_lower_fail(lower, "the sequence is empty: there is no item to erase");
  tn_ref_t *made = create_sequence(lower, count - 1);
  if (!made) return;
  memcpy(made->items, from->items, (size_t)at * sizeof *made->items);
  memcpy(made->items + at, from->items + at + 1, (size_t)(count - at - 1) * sizeof *made->items);
  set_item_type(made);
  lower->outputs[0] = made;
}

static void lower_erase(tn_lower_t *lower) {
  tn_ref_t *from = input_sequence(lower, 0);
  tn_ref_t *at = tn_lower_input(lower, 1);
  if (!from) return;
  if (is_apart(lower, from, 1)) {
    erase_apart(lower, from);
    return;
  }
  lower->outputs[0] = at ? tn_lower_run(lower, TN_REFS(from, at), "list_erase(a, b)")
                         : tn_lower_run(lower, TN_REFS(from), "list_erase(a)");
  mark_list(lower->outputs[0], TN_REF_SEQUENCE, from);
}

static void lower_length(tn_lower_t *lower) {
  tn_ref_t *from = input_sequence(lower, 0);
  if (!from) return;
  lower->outputs[0] = from->items ? tn_lower_scalar(lower, tenon_dtype(TENON_I64), from->item_count)
                                  : tn_lower_run(lower, TN_REFS(from), "list_length(a)");
}

static void concat_list(tn_lower_t *lower, tn_ref_t *from, bool is_new, long long axis) {
  tn_ref_t item = *from;
  if (item.item_ndim >= 0) item.item_ndim += is_new;
  tn_ref_t *made = tn_lower_run(lower, TN_REFS(from), "list_concat(a, axis=%lld, new_axis=%s%s)",
                                axis, is_new ? "true" : "false", state_item(&item).text);
  mark_item(made, &item);
  lower->outputs[0] = made;
}

static void lower_concat(tn_lower_t *lower) {
  static const tn_lowering_t lowering = {"ConcatFromSequence(*xs) = concat(xs, axis=axis)", 1,
                                         NULL};
  tn_ref_t *from = input_sequence(lower, 0);
  bool is_new = tn_lower_int(lower, "new_axis", 0) != 0;
  long long axis = tn_lower_int(lower, "axis", 0);
  if (!from) return;
  if (!from->items) {
    concat_list(lower, from, is_new, axis);
    return;
  }
  tn_ref_t *items = create_sequence(lower, from->item_count);
  for (int32_t i = 0; items && i < from->item_count; i++)
    items->items[i] =
        is_new ? tn_lower_run(lower, TN_REFS(from->items[i]), "unsqueeze(a, [%lld]:i64)", axis)
               : from->items[i];
  if (!items || has_stopped(lower)) return;
  lower->inputs = items->items;
  lower->input_count = items->item_count;
  tn_lowering_run(&lowering, lower);
}

/* Finds the sizes of the parts of a tensor: one for each, or one for all (the last may be smaller).
 * Returns their number; -1: they are not known, or there are too many. */
static int32_t find_parts(tn_lower_t *lower, tn_ref_t *x, tn_ref_t *split, int64_t axis,
                          int64_t *sizes) {
  int32_t count = 0;
  if (split && !tn_lower_known(lower, split, sizes, ITEMS_MAX, &count)) return -1;
  if (split && split->ndim == 1) return count;
  if (x->ndim < 0) return -1;
  const int64_t step = split && count ? sizes[0] : 1;
  const int64_t extent = tn_lower_find_extent(lower, x, (int32_t)axis);
  if (step < 1)
    tn_lower_fail(lower, "parts of %lld elements are not possible: expected at least 1",
                  (long long)step);
  if (has_stopped(lower) || extent < 0 || extent / step >= ITEMS_MAX) return -1;
  for (count = 0; (int64_t)count * step < extent; count++)
    sizes[count] = extent - count * step < step ? extent - count * step : step;
  return count;
}

static void split_list(tn_lower_t *lower, tn_ref_t *x, tn_ref_t *split, long long axis,
                       bool keeps) {
  const char *kept = keeps ? "true" : "false";
  tn_ref_t *made =
      split ? tn_lower_run(lower, TN_REFS(x, split), "list_split(a, b, axis=%lld)", axis)
            : tn_lower_run(lower, TN_REFS(x), "list_split(a, axis=%lld, keepdims=%s)", axis, kept);
  mark_list(made, TN_REF_SEQUENCE, NULL);
  lower->outputs[0] = made;
  if (!made) return;
  made->item_dtype = x->dtype;
  made->item_ndim = x->ndim;
  if (made->item_ndim > 0 && !split && !keeps) made->item_ndim--;
}

static void lower_split(tn_lower_t *lower) {
  int64_t sizes[ITEMS_MAX];
  int64_t axis = tn_lower_int(lower, "axis", 0);
  bool keeps = tn_lower_int(lower, "keepdims", 1) != 0;
  tn_ref_t *x = lower->inputs[0];
  tn_ref_t *split = tn_lower_input(lower, 1);
  if (x->is_missing || (split && split->is_missing)) lower->is_missing = true;
  const int32_t count = has_stopped(lower) ? -1 : find_parts(lower, x, split, axis, sizes);
  if (count < 0) {
    split_list(lower, x, split, axis, keeps);
    return;
  }
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
  if (made && !has_stopped(lower)) set_item_type(made);
}

/* Imports the body once for each item of the first sequence. */
static void map_apart(tn_lower_t *lower, tn_ref_t *first) {
  tn_attr_t *attr = tn_lower_attr(lower, "body");
  const tn_onnx_attribute_t *proto = tn_lower_typed(lower, "body", TN_ATTRIBUTE_GRAPH);
  if (!proto || !proto->g) tn_lower_fail(lower, "attribute 'body': expected a graph");
  if (has_stopped(lower)) return;
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
  for (int32_t k = 0; k < lower->output_count && !has_stopped(lower); k++)
    set_item_type(lower->outputs[k]);
}

static void lower_map(tn_lower_t *lower) {
  tn_ref_t *first = input_sequence(lower, 0);
  bool all_apart = true;
  if (!first) return;
  for (int32_t k = 0; k < lower->input_count; k++)
    all_apart &= lower->inputs[k]->kind == TN_REF_TENSOR || lower->inputs[k]->items;
  if (all_apart)
    map_apart(lower, first);
  else
    tn_lower_map(lower);
  if (all_apart) return;
  for (int32_t k = 0; k < lower->output_count; k++)
    mark_list(lower->outputs[k], TN_REF_SEQUENCE, NULL);
}

static void lower_identity(tn_lower_t *lower) {
  static const tn_lowering_t lowering = {"Identity(x) = identity(x)", 1, NULL};
  if (lower->inputs[0]->kind == TN_REF_TENSOR)
    tn_lowering_run(&lowering, lower);
  else
    lower->outputs[0] = lower->inputs[0];
}

/* Optional values */

static void lower_optional(tn_lower_t *lower) {
  tn_ref_t *x = tn_lower_input(lower, 0);
  const bool has_type = tn_lower_attr(lower, "type") != NULL;
  if (!x && !has_type) tn_lower_fail(lower, "an absent optional value needs the attribute 'type'");
  tn_ref_t *made = x ? tn_lower_run(lower, TN_REFS(x), "optional(a)")
                     : tn_lower_run(lower, NULL, 0, "optional()");
  lower->outputs[0] = made;
  mark_list(made, TN_REF_OPTIONAL, x && x->kind != TN_REF_TENSOR ? x : NULL);
  if (!made || !x) return;
  made->holds_sequence = x->kind == TN_REF_SEQUENCE;
  if (x->kind != TN_REF_TENSOR) return;
  made->item_dtype = x->dtype;
  made->item_ndim = x->ndim;
}

/* Whether an optional value is present: a tensor or a sequence is, an input that is left out is
 * not. */
static void lower_has_element(tn_lower_t *lower) {
  tn_ref_t *x = tn_lower_input(lower, 0);
  if (x && x->kind == TN_REF_OPTIONAL)
    lower->outputs[0] = tn_lower_run(lower, TN_REFS(x), "optional_has(a)");
  else
    lower->outputs[0] = tn_lower_scalar(lower, tenon_dtype(TENON_BOOL), x != NULL);
}

static void lower_get_element(tn_lower_t *lower) {
  tn_ref_t *x = lower->inputs[0];
  if (x->kind != TN_REF_OPTIONAL) {
    lower_identity(lower);
    return;
  }
  lower->outputs[0] = tn_lower_run(lower, TN_REFS(x), "optional_get(a%s)", state_item(x).text);
  mark_item(lower->outputs[0], x);
}

/* clang-format off */
static const tn_lowering_t lowerings[] = {
  {"SequenceEmpty()", 11, lower_construct},
  {"SequenceConstruct(*xs)", 11, lower_construct},
  {"SequenceAt(xs, at)", 11, lower_at},
  {"SequenceInsert(xs, x, at?)", 11, lower_insert},
  {"SequenceErase(xs, at?)", 11, lower_erase},
  {"SequenceLength(xs)", 11, lower_length},
  {"SequenceMap(xs, *more)", 17, lower_map},
  {"ConcatFromSequence(xs)", 11, lower_concat},
  {"SplitToSequence(x, split?)", 11, lower_split},
  {"Identity(x)", 1, lower_identity},
  {"Optional(x?)", 15, lower_optional},
  {"OptionalHasElement(x?)", 15, lower_has_element},
  {"OptionalGetElement(x)", 15, lower_get_element},
};
/* clang-format on */

TN_LOWERINGS(tn_lowerings_sequence, "");
