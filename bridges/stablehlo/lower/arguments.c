/* Attributes of operations, and calls that many lowerings make. Called by lower_*.c. Invariant:
 * axes that are returned are in range, so that lowerings can use them as indices. */
#include "lower/arguments.h"

#include <stdio.h>
#include <string.h>

#include "lower/expression.h"

const hlo_attr_t *hlo_attr(hlo_lower_t *lower, const char *name, const char *other) {
  const hlo_attr_t *attr = hlo_attr_find(&lower->op->attrs, name);
  if (!attr && other) attr = hlo_attr_find(&lower->op->attrs, other);
  return attr;
}

/* integers */

/* Reads element i of a tensor of integers. */
static int64_t tensor_integer(const tenon_tensor_t *tensor, int64_t i) {
  const char *at = (const char *)tensor->data + i * (tensor->dtype.bits / 8);
  bool is_signed = tensor->dtype.code == 0;
  uint64_t value = 0;
  memcpy(&value, at, tensor->dtype.bits / 8); /* The machine is little-endian. */
  int shift = 64 - tensor->dtype.bits;
  if (!is_signed) return (int64_t)value;
  return (int64_t)(value << shift) >> shift;
}

static int32_t tensor_ints(hlo_lower_t *lower, const hlo_attr_t *attr, int64_t *out) {
  int64_t count = 1;
  for (int32_t i = 0; i < attr->type->ndim; i++)
    count *= attr->type->dims[i];
  if (attr->tensor->dtype.code > 1 && attr->tensor->dtype.code != 6)
    hlo_wrong(lower, "expected integers, found another element type");
  if (count > HLO_INTS_MAX) hlo_wrong(lower, "expected at most %d integers", HLO_INTS_MAX);
  if (hlo_stopped(lower)) return 0;
  for (int64_t i = 0; i < count; i++)
    out[i] = tensor_integer(attr->tensor, attr->is_splat ? 0 : i);
  return (int32_t)count;
}

static int32_t add_ints(hlo_lower_t *lower, const hlo_attr_t *attr, int64_t *out, int32_t count,
                        int depth) {
  if (attr->kind == HLO_ATTR_LIST && depth < 3) {
    for (int32_t i = 0; i < attr->count && !hlo_stopped(lower); i++)
      count = add_ints(lower, &attr->items[i], out, count, depth + 1);
    return count;
  }
  if (attr->kind != HLO_ATTR_INT && attr->kind != HLO_ATTR_BOOL)
    hlo_wrong(lower, "expected a list of integers as an attribute");
  if (count == HLO_INTS_MAX) hlo_wrong(lower, "expected at most %d integers", HLO_INTS_MAX);
  if (hlo_stopped(lower)) return count;
  out[count] = attr->integer;
  return count + 1;
}

int32_t hlo_ints_of(hlo_lower_t *lower, const hlo_attr_t *attr, int64_t *out) {
  if (!attr) return -1;
  if (attr->kind == HLO_ATTR_TENSOR) return tensor_ints(lower, attr, out);
  return add_ints(lower, attr, out, 0, 0);
}

int32_t hlo_attr_ints(hlo_lower_t *lower, const char *name, const char *other, int64_t *out) {
  return hlo_ints_of(lower, hlo_attr(lower, name, other), out);
}

void hlo_attr_exactly(hlo_lower_t *lower, const char *name, const char *other, int32_t count,
                      int64_t otherwise, int64_t *out) {
  int32_t found = hlo_attr_ints(lower, name, other, out);
  if (found >= 0 && found != count)
    hlo_wrong(lower, "attribute %s: expected %d integers, found %d", name, (int)count, (int)found);
  for (int32_t i = 0; i < count && (found < 0 || hlo_stopped(lower)); i++)
    out[i] = otherwise;
}

int32_t hlo_attr_axes(hlo_lower_t *lower, const char *name, const char *other, int32_t rank,
                      int64_t *out) {
  int32_t count = hlo_attr_ints(lower, name, other, out);
  for (int32_t i = 0; i < count && !hlo_stopped(lower); i++) {
    if (out[i] < 0 || out[i] >= rank)
      hlo_wrong(lower, "attribute %s: axis %lld does not exist, the tensor has %d", name,
                (long long)out[i], (int)rank);
    if (hlo_contains(out, i, out[i]))
      hlo_wrong(lower, "attribute %s: axis %lld occurs twice", name, (long long)out[i]);
  }
  return count < 0 || hlo_stopped(lower) ? 0 : count;
}

int64_t hlo_attr_int(hlo_lower_t *lower, const char *name, const char *other, int64_t otherwise) {
  const hlo_attr_t *attr = hlo_attr(lower, name, other);
  if (!attr) return otherwise;
  if (attr->kind == HLO_ATTR_INT || attr->kind == HLO_ATTR_BOOL) return attr->integer;
  hlo_wrong(lower, "attribute %s: expected an integer", name);
  return otherwise;
}

const char *hlo_attr_word(hlo_lower_t *lower, const char *name, const char *other,
                          const char *otherwise) {
  const hlo_attr_t *attr = hlo_attr(lower, name, other);
  if (!attr) return otherwise;
  if (attr->kind == HLO_ATTR_WORD || attr->kind == HLO_ATTR_TEXT || attr->kind == HLO_ATTR_SYMBOL)
    return attr->text;
  hlo_wrong(lower, "attribute %s: expected a word", name);
  return otherwise;
}

/* Reads the integers of a value that is computed of constants. Values of functions that are called
 * are known by what they are bound to. */
static int32_t known_ints(hlo_lower_t *lower, const hlo_value_t *value, int64_t *out, int depth,
                          int *budget) {
  static const char *const same[] = {"stablehlo.reshape", "stablehlo.convert",
                                     "stablehlo.broadcast_in_dim"};
  const hlo_attr_t *attr = hlo_bound_of(lower, value)->constant;
  const hlo_op_t *op = value->op;
  int32_t count = 0;
  if (attr && attr->tensor->dtype.code <= 1) return tensor_ints(lower, attr, out);
  if (!op || depth > 8 || --*budget < 0 || hlo_stopped(lower)) return -1;
  for (size_t i = 0; i < sizeof same / sizeof *same; i++)
    if (strcmp(op->name, same[i]) == 0 && op->operand_count == 1 &&
        (value->type->ndim == 0 || (value->type->ndim == 1 && value->type->dims[0] == 1)))
      return known_ints(lower, op->operands[0], out, depth + 1, budget);
  if (strcmp(op->name, "stablehlo.concatenate") != 0 || value->type->ndim != 1) return -1;
  for (int32_t i = 0; i < op->operand_count; i++) {
    int64_t part[HLO_INTS_MAX];
    int32_t part_count = known_ints(lower, op->operands[i], part, depth + 1, budget);
    if (part_count < 0 || count + part_count > HLO_INTS_MAX) return -1;
    memcpy(out + count, part, (size_t)part_count * sizeof *out);
    count += part_count;
  }
  return count;
}

int32_t hlo_known(hlo_lower_t *lower, int32_t operand, int64_t *out) {
  if (operand >= lower->op->operand_count) return -1;
  int budget = 4096; /* A hostile program could make the search exponential. */
  return known_ints(lower, lower->op->operands[operand], out, 0, &budget);
}

bool hlo_is_moderate(int64_t number) { return number > INT32_MIN && number < INT32_MAX; }

bool hlo_contains(const int64_t *items, int32_t count, int64_t item) {
  for (int32_t i = 0; i < count; i++)
    if (items[i] == item) return true;
  return false;
}

const char *hlo_join(const int64_t *items, int32_t count, char *out, size_t room) {
  size_t used = 0;
  out[0] = 0;
  for (int32_t i = 0; i < count && used < room; i++)
    used += (size_t)snprintf(out + used, room - used, "%s%lld", i ? ", " : "", (long long)items[i]);
  return out;
}

/* calls */

tenon_edge_t hlo_reshape(hlo_lower_t *lower, tenon_edge_t edge, const int64_t *dims, int32_t ndim) {
  bool has_zero = hlo_contains(dims, ndim, 0);
  tenon_edge_t shape = hlo_ints(lower, dims, ndim);
  return hlo_run(lower, EDGES(edge, shape), "reshape(a, b, allow_zero=%s)",
                 has_zero ? "True" : "False");
}

tenon_edge_t hlo_expand(hlo_lower_t *lower, tenon_edge_t edge, const int64_t *dims, int32_t ndim) {
  tenon_edge_t shape = hlo_ints(lower, dims, ndim);
  return hlo_run(lower, EDGES(edge, shape), "expand(a, b)");
}

tenon_edge_t hlo_transpose(hlo_lower_t *lower, tenon_edge_t edge, const int64_t *perm,
                           int32_t ndim) {
  char text[HLO_JOIN_MAX];
  bool is_same = true;
  for (int32_t i = 0; i < ndim; i++)
    is_same &= perm[i] == i;
  if (is_same) return edge;
  return hlo_run(lower, EDGES(edge), "transpose(a, perm=[%s])",
                 hlo_join(perm, ndim, text, sizeof text));
}

tenon_edge_t hlo_extent_edge(hlo_lower_t *lower, tenon_edge_t edge, int32_t axis) {
  int64_t extent = hlo_extent(lower, edge, axis);
  if (extent >= 0) return hlo_ints(lower, &extent, 1);
  return hlo_run(lower, EDGES(edge), "shape(a, start=%d, end=%d)", (int)axis, (int)axis + 1);
}

tenon_edge_t hlo_cast(hlo_lower_t *lower, tenon_edge_t edge, tenon_dtype_t dtype) {
  if (hlo_stopped(lower) || tenon_dtype_id(hlo_dtype(lower, edge)) == tenon_dtype_id(dtype))
    return edge;
  return hlo_run(lower, EDGES(edge), "cast(a, to=%s)", tenon_dtype_name(dtype));
}

tenon_edge_t hlo_iota(hlo_lower_t *lower, int64_t extent, int32_t axis, int32_t ndim) {
  int64_t dims[TENON_RANK_MAX];
  for (int32_t i = 0; i < ndim; i++)
    dims[i] = i == axis ? extent : 1;
  tenon_edge_t edge = hlo_run(lower, NULL, 0, "range(0:i64, %lld:i64, 1:i64)", (long long)extent);
  return ndim == 1 ? edge : hlo_reshape(lower, edge, dims, ndim);
}

tenon_edge_t hlo_concat(hlo_lower_t *lower, const tenon_edge_t *edges, int32_t count,
                        int32_t axis) {
  const tenon_op_t *op = NULL;
  tenon_attrs_t *attrs = NULL;
  hlo_edges_t operand = {edges, count, true};
  if (count == 1) return edges[0];
  if (hlo_stopped(lower) || hlo_has_failed(lower, tenon_op_find("core::concat", &op)) ||
      hlo_has_failed(lower, tenon_attrs_create(op, &attrs)))
    return EDGE_NONE;
  (void)hlo_has_failed(lower, tenon_attrs_int(attrs, "axis", axis));
  hlo_edges_t results = hlo_call(lower, op, attrs, &operand, 1, 1);
  return results.count ? results.edges[0] : EDGE_NONE;
}

tenon_edge_t hlo_slice(hlo_lower_t *lower, tenon_edge_t edge, int32_t axis, int64_t begin,
                       int64_t end, int64_t step) {
  if (begin == 0 && step == 1 && end == hlo_extent(lower, edge, axis)) return edge;
  return hlo_run(lower, EDGES(edge), "slice(a, [%lld], [%lld], [%d], [%lld])", (long long)begin,
                 (long long)end, (int)axis, (long long)step);
}

/* Puts `interior` times the value between the elements of an axis, and after the last one. */
static tenon_edge_t spread_axis(hlo_lower_t *lower, tenon_edge_t edge, tenon_edge_t value,
                                int32_t axis, int32_t ndim, int64_t interior) {
  int64_t dims[TENON_RANK_MAX + 1];
  int64_t pads[2 * (TENON_RANK_MAX + 1)] = {0};
  char text[HLO_JOIN_MAX];
  if (ndim >= TENON_RANK_MAX) hlo_missing(lower, "padding between elements of so many axes");
  if (hlo_stopped(lower)) return EDGE_NONE;
  pads[ndim + 1 + axis + 1] = interior;
  tenon_edge_t spread = hlo_run(lower, EDGES(edge, value), "pad(unsqueeze(a, [%d]), [%s], b)",
                                (int)axis + 1, hlo_join(pads, 2 * (ndim + 1), text, sizeof text));
  for (int32_t i = 0; i < ndim; i++) {
    int64_t extent = hlo_extent(lower, edge, i);
    if (extent > INT32_MAX) hlo_missing(lower, "padding between so many elements");
    dims[i] = i == axis ? -1 : extent;
    if (i != axis && extent <= 0) dims[i] = 0; /* As before, for reshape(). */
    if (i == axis && extent >= 0 && !hlo_stopped(lower)) dims[i] = extent * (1 + interior);
  }
  tenon_edge_t shape = hlo_ints(lower, dims, ndim);
  return hlo_run(lower, EDGES(spread, shape), "reshape(a, b)");
}

tenon_edge_t hlo_pad(hlo_lower_t *lower, tenon_edge_t edge, tenon_edge_t value, const int64_t *low,
                     const int64_t *high, const int64_t *interior, int32_t ndim) {
  int64_t pads[2 * TENON_RANK_MAX] = {0};
  char text[HLO_JOIN_MAX];
  bool is_needed = false;
  for (int32_t i = 0; i < ndim && !hlo_stopped(lower); i++) {
    pads[i] = low[i];
    pads[ndim + i] = high[i];
    if (!hlo_is_moderate(low[i]) || !hlo_is_moderate(high[i]) || !hlo_is_moderate(interior[i])) {
      hlo_wrong(lower, "padding of axis %d is out of range", (int)i);
      break;
    }
    if (interior[i] < 0)
      hlo_wrong(lower, "interior padding must be 0 or more, found %lld", (long long)interior[i]);
    if (interior[i] > 0 && hlo_extent(lower, edge, i) != 0) {
      edge = spread_axis(lower, edge, value, i, ndim, interior[i]);
      pads[ndim + i] -= interior[i];
    }
    is_needed |= pads[i] != 0 || pads[ndim + i] != 0;
  }
  if (!is_needed) return edge;
  return hlo_run(lower, EDGES(edge, value), "pad(a, [%s], b)",
                 hlo_join(pads, 2 * ndim, text, sizeof text));
}
