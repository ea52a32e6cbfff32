/* Lowers sort. A comparator that compares keys one after the other is recognised: each key is
 * sorted by core::top_k, which is stable, from the last key to the first. For any other comparator
 * each element is compared with all others, and the number of those before it is its place. */
#include <string.h>

#include "lower/arguments.h"
#include "lower/expression.h"
#include "lower/math.h"
#include "lower/region.h"

enum { KEYS_MAX = 16, DEPTH_MAX = 32, EXTENT_MAX = 2048, BUDGET = 4096 };

typedef struct sort_key_t {
  const hlo_op_t *compare;
  int side; /* The operand of the comparison that depends on the left arguments. */
  bool is_descending;
} sort_key_t;

/* recognition */

static bool same_attrs(const hlo_attr_t *a, const hlo_attr_t *b, int depth) {
  if (a->kind != b->kind || a->integer != b->integer || a->count != b->count || depth > DEPTH_MAX)
    return false;
  if ((a->text || b->text) && (!a->text || !b->text || strcmp(a->text, b->text) != 0)) return false;
  if (a->kind == HLO_ATTR_TENSOR)
    return tenon_count(a->tensor) == 1 && tenon_count(b->tensor) == 1 &&
           memcmp(a->tensor->data, b->tensor->data, a->tensor->dtype.bits / 8) == 0;
  for (int32_t i = 0; i < a->count; i++)
    if (!same_attrs(&a->items[i], &b->items[i], depth + 1)) return false;
  return true;
}

/* Returns whether `b` is computed of the right arguments as `a` is of the left ones. A hostile
 * program could make the search exponential, so it ends after a number of comparisons. */
static bool mirrors(const hlo_region_t *region, const hlo_value_t *a, const hlo_value_t *b,
                    int *budget) {
  if (--*budget < 0 || !hlo_type_equal(a->type, b->type)) return false;
  if (!a->op || !b->op) {
    if (a->op || b->op) return false;
    return a->depth == region->depth && b->depth == region->depth && a->result % 2 == 0 &&
           b->result == a->result + 1;
  }
  if (strcmp(a->op->name, b->op->name) != 0 || a->result != b->result ||
      a->op->operand_count != b->op->operand_count || a->op->region_count || b->op->region_count ||
      !same_attrs(&a->op->attrs, &b->op->attrs, 0))
    return false;
  for (int32_t i = 0; i < a->op->operand_count; i++)
    if (!mirrors(region, a->op->operands[i], b->op->operands[i], budget)) return false;
  return true;
}

static const char *direction_of(const hlo_op_t *op) {
  const hlo_attr_t *attr = hlo_attr_find(&op->attrs, "word0");
  if (!attr) attr = hlo_attr_find(&op->attrs, "comparison_direction");
  return attr && attr->text ? attr->text : "";
}

static bool is_named(const hlo_value_t *value, const char *name) {
  return value->op && strcmp(value->op->name, name) == 0 && value->op->operand_count == 2;
}

/* Reads `left key < right key`. */
static bool read_key(const hlo_region_t *region, const hlo_value_t *value, sort_key_t *out) {
  if (!is_named(value, "stablehlo.compare")) return false;
  const hlo_op_t *op = value->op;
  bool is_less = strcmp(direction_of(op), "LT") == 0;
  if (!is_less && strcmp(direction_of(op), "GT") != 0) return false;
  int budget = BUDGET;
  bool is_plain = mirrors(region, op->operands[0], op->operands[1], &budget);
  if (!is_plain && !mirrors(region, op->operands[1], op->operands[0], &budget)) return false;
  *out = (sort_key_t){op, is_plain ? 0 : 1, is_less != is_plain};
  return true;
}

/* Returns whether a value is `left key == right key` for the same key. */
static bool is_equality(const hlo_value_t *value, const sort_key_t *key) {
  if (!is_named(value, "stablehlo.compare") || strcmp(direction_of(value->op), "EQ") != 0)
    return false;
  const hlo_value_t *a = key->compare->operands[0];
  const hlo_value_t *b = key->compare->operands[1];
  const hlo_value_t *const *operands = (const hlo_value_t *const *)value->op->operands;
  return (operands[0] == a && operands[1] == b) || (operands[0] == b && operands[1] == a);
}

/* Reads `key < or (key == and the rest)`, in any order of operands. Returns the number of keys; 0:
 * the comparator has another form. */
static int read_keys(const hlo_region_t *region, const hlo_value_t *value, sort_key_t *keys,
                     int count) {
  if (count == KEYS_MAX) return 0;
  if (read_key(region, value, &keys[count])) return count + 1;
  if (!is_named(value, "stablehlo.or")) return 0;
  for (int side = 0; side < 2; side++) {
    const hlo_value_t *rest = value->op->operands[1 - side];
    if (!read_key(region, value->op->operands[side], &keys[count]) ||
        !is_named(rest, "stablehlo.and"))
      continue;
    for (int other = 0; other < 2; other++)
      if (is_equality(rest->op->operands[other], &keys[count]))
        return read_keys(region, rest->op->operands[1 - other], keys, count + 1);
  }
  return 0;
}

/* sorting by keys */

/* Computes the keys of all elements: the region is applied with each operand on both sides. */
static bool compute_keys(hlo_lower_t *lower, const hlo_region_t *region, const sort_key_t *keys,
                         int count, tenon_edge_t *out) {
  int32_t operands = lower->op->operand_count;
  tenon_edge_t *args = hlo_lower_take(lower, 2 * (size_t)operands, sizeof *args);
  tenon_edge_t result;
  if (!args) return false;
  for (int32_t i = 0; i < operands; i++)
    args[2 * i] = args[2 * i + 1] = hlo_edge(lower, i);
  if (!hlo_inline_elements(lower, region, args, 2 * operands, &result, 1)) return false;
  for (int i = 0; i < count; i++) {
    const hlo_attr_t *kind = hlo_attr_find(&keys[i].compare->attrs, "word1");
    if (!kind) kind = hlo_attr_find(&keys[i].compare->attrs, "compare_type");
    out[i] = hlo_bound_of(lower, keys[i].compare->operands[keys[i].side])->edge;
    if (kind && kind->text && strcmp(kind->text, "TOTALORDER") == 0)
      out[i] = hlo_total_order(lower, out[i]);
  }
  return !hlo_stopped(lower);
}

static void sort_by_keys(hlo_lower_t *lower, const hlo_region_t *region, const sort_key_t *keys,
                         int count, int32_t axis) {
  tenon_edge_t edges[KEYS_MAX];
  tenon_edge_t order = EDGE_NONE;
  if (!compute_keys(lower, region, keys, count, edges)) return;
  tenon_edge_t extent = hlo_extent_edge(lower, hlo_edge(lower, 0), axis);
  for (int i = count - 1; i >= 0 && !hlo_stopped(lower); i--) {
    tenon_edge_t key = edges[i];
    if (order != EDGE_NONE)
      key = hlo_run(lower, EDGES(key, order), "gather_elements(a, b, axis=%d)", (int)axis);
    hlo_edges_t found = hlo_run_all(lower, EDGES(key, extent), "top_k(a, b, axis=%d, largest=%s)",
                                    (int)axis, keys[i].is_descending ? "True" : "False");
    if (hlo_stopped(lower)) return;
    order = order == EDGE_NONE ? found.edges[1]
                               : hlo_run(lower, EDGES(order, found.edges[1]),
                                         "gather_elements(a, b, axis=%d)", (int)axis);
  }
  for (int32_t i = 0; i < lower->op->operand_count && !hlo_stopped(lower); i++)
    hlo_give(lower, i,
             hlo_run(lower, EDGES(hlo_edge(lower, i), order), "gather_elements(a, b, axis=%d)",
                     (int)axis));
}

/* sorting by any comparator */

/* Compares all pairs along two new axes: 1 where the comparator holds for (first, second). */
static tenon_edge_t compare_pairs(hlo_lower_t *lower, const hlo_region_t *region, int32_t axis,
                                  bool is_swapped) {
  int32_t operands = lower->op->operand_count;
  tenon_edge_t *args = hlo_lower_take(lower, 2 * (size_t)operands, sizeof *args);
  tenon_edge_t result = EDGE_NONE;
  if (!args) return EDGE_NONE;
  for (int32_t i = 0; i < operands; i++) {
    tenon_edge_t own =
        hlo_run(lower, EDGES(hlo_edge(lower, i)), "unsqueeze(a, [%d])", (int)axis + 1);
    tenon_edge_t other = hlo_run(lower, EDGES(hlo_edge(lower, i)), "unsqueeze(a, [%d])", (int)axis);
    args[2 * i] = is_swapped ? own : other;
    args[2 * i + 1] = is_swapped ? other : own;
  }
  (void)hlo_inline_elements(lower, region, args, 2 * operands, &result, 1);
  return result;
}

static void sort_by_places(hlo_lower_t *lower, const hlo_region_t *region, int32_t axis,
                           int64_t extent) {
  int32_t ndim = hlo_operand_type(lower, 0)->ndim;
  if (ndim == TENON_RANK_MAX) hlo_missing(lower, "a comparator of this form for so many axes");
  if (hlo_stopped(lower)) return;
  tenon_edge_t before = compare_pairs(lower, region, axis, false);
  tenon_edge_t after = compare_pairs(lower, region, axis, true);
  tenon_edge_t own = hlo_iota(lower, extent, axis, ndim + 1);
  tenon_edge_t other = hlo_iota(lower, extent, axis + 1, ndim + 1);
  /* Equal elements keep their order. */
  tenon_edge_t counts = hlo_run(lower, EDGES(before, after, own, other),
                                "or(a, and(and(not(a), not(b)), less(d, c)))");
  tenon_edge_t places = hlo_run(lower, EDGES(counts),
                                "reduce_sum(cast(a, to=i64), [%d], keepdims=False)", (int)axis + 1);
  for (int32_t i = 0; i < lower->op->operand_count && !hlo_stopped(lower); i++)
    hlo_give(lower, i,
             hlo_run(lower, EDGES(hlo_edge(lower, i), places), "scatter_elements(a, b, a, axis=%d)",
                     (int)axis));
}

static void lower_sort(hlo_lower_t *lower) {
  sort_key_t keys[KEYS_MAX + 1];
  const hlo_type_t *type = hlo_operand_type(lower, 0);
  const hlo_region_t *region = hlo_region(lower, 0);
  int64_t axis = hlo_attr_int(lower, "dimension", NULL, type->ndim - 1);
  if (axis < 0) axis += type->ndim;
  if (axis < 0 || axis >= type->ndim) hlo_wrong(lower, "axis %lld does not exist", (long long)axis);
  if (!region || hlo_stopped(lower)) return;
  if (region->arg_count != 2 * lower->op->operand_count || region->last->operand_count != 1 ||
      lower->op->result_count != lower->op->operand_count)
    hlo_wrong(lower, "expected a comparator with two arguments for each operand");
  for (int32_t i = 1; i < lower->op->operand_count && !hlo_stopped(lower); i++)
    if (hlo_operand_type(lower, i)->ndim != type->ndim)
      hlo_wrong(lower, "the operands have different numbers of axes");
  if (hlo_stopped(lower)) return;
  int count = read_keys(region, region->last->operands[0], keys, 0);
  if (count)
    sort_by_keys(lower, region, keys, count, (int32_t)axis);
  else if (type->dims[axis] < 0 || type->dims[axis] > EXTENT_MAX)
    hlo_missing(lower,
                "a comparator that does not compare keys one after the other, for more than "
                "%d elements",
                EXTENT_MAX);
  else
    sort_by_places(lower, region, (int32_t)axis, type->dims[axis]);
}

static const hlo_row_t rows[] = {
    {"stablehlo.sort", NULL, NULL, NULL, lower_sort, 0, NULL},
};

HLO_ROWS(hlo_rows_sort);
