/* Lowers operators that view, move or create data. */
#include <stdio.h>
#include <string.h>

#include "attribute.h"
#include "lowering.h"

enum { TEXT_SIZE = 1500 };

/* reshape */

/* The new shape, as the parts of a concat. If `from_right`, the parts are in reverse order. */
typedef struct shape_t {
  char parts[INTS_MAX][200];
  int32_t count;
  int32_t next; /* the next axis of x */
  bool from_right;
} shape_t;

/* Writes the extents of the next `count` axes of x as an expression; -1: all remaining axes. */
static void take_axes(shape_t *shape, int32_t count, char *out, size_t room) {
  int32_t begin = shape->next;
  int32_t end = begin + count;
  if (shape->from_right && count < 0)
    snprintf(out, room, begin ? "shape(a, end=-%d)" : "shape(a)", (int)begin);
  else if (count < 0)
    snprintf(out, room, "shape(a, start=%d)", (int)begin);
  else if (shape->from_right && !begin)
    snprintf(out, room, "shape(a, start=-%d)", (int)end);
  else if (shape->from_right)
    snprintf(out, room, "shape(a, start=-%d, end=-%d)", (int)end, (int)begin);
  else
    snprintf(out, room, "shape(a, start=%d, end=%d)", (int)begin, (int)end);
  shape->next += count > 0 ? count : 0;
}

/* Splits one axis into the extents a and b, one of which may be -1. */
static void split_axis(lower_t *lower, shape_t *shape, int64_t a, int64_t b) {
  char axis[80];
  take_axes(shape, 1, axis, sizeof axis);
  if (a == 0 || b == 0 || (a < 0 && b < 0))
    lower_fail(lower, "an axis cannot be split into %lld and %lld", (long long)a, (long long)b);
  const int64_t parts[2] = {a, b};
  const int64_t others[2] = {b, a};
  for (int i = 0; i < 2; i++) {
    char *out = shape->parts[shape->count++];
    if (parts[i] > 0)
      snprintf(out, sizeof *shape->parts, "[%lld]:i64", (long long)parts[i]);
    else
      snprintf(out, sizeof *shape->parts, "div(%s, [%lld]:i64)", axis, (long long)others[i]);
  }
}

/* Applies MXNet's shape codes: 0 copies an axis, -1 is inferred, -2 copies the remaining axes, -3
 * merges two axes, -4 splits an axis into the two numbers that follow. */
static void reshape_by(lower_t *lower, const int64_t *codes, int32_t count, bool from_right) {
  shape_t shape = {.from_right = from_right};
  char text[TEXT_SIZE] = "";
  char first[80], second[80];
  for (int32_t i = 0; i < count && !lower_stopped(lower); i++) {
    char *out = shape.parts[shape.count];
    if (shape.count + 2 >= INTS_MAX)
      lower_fail(lower, "a shape of more than %d axes", INTS_MAX - 2);
    switch (codes[i]) {
    case 0:
      take_axes(&shape, 1, out, sizeof *shape.parts);
      shape.count++;
      break;
    case -2:
      take_axes(&shape, -1, out, sizeof *shape.parts);
      shape.count++;
      break;
    case -3:
      take_axes(&shape, 1, first, sizeof first);
      take_axes(&shape, 1, second, sizeof second);
      snprintf(out, sizeof *shape.parts, "mul(%s, %s)", first, second);
      shape.count++;
      break;
    case -4:
      if (i + 2 >= count)
        lower_fail(lower, "shape code -4 must be followed by two numbers");
      else {
        split_axis(lower, &shape, codes[i + 1], codes[i + 2]);
        i += 2;
      }
      break;
    default:
      if (codes[i] < -1) lower_fail(lower, "shape code %lld does not exist", (long long)codes[i]);
      snprintf(out, sizeof *shape.parts, "[%lld]:i64", (long long)codes[i]);
      shape.count++;
      shape.next++;
    }
  }
  for (int32_t i = 0; i < shape.count; i++) {
    size_t used = strlen(text);
    const char *part = shape.parts[from_right ? shape.count - 1 - i : i];
    int size = snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "", part);
    if (size < 0 || used + (size_t)size >= sizeof text)
      lower_fail(lower, "a shape with too many codes");
  }
  lower_give(lower, lower_run(lower, lower->inputs, 1, "reshape(a, concat([%s], axis=0))", text));
}

static void lower_reshape(lower_t *lower) {
  int64_t codes[INTS_MAX], order[INTS_MAX];
  int32_t count = attr_ints(lower, "shape", codes);
  bool from_right = attr_bool(lower, "reverse", false);
  bool is_plain = !from_right;
  /* Old files state `target_shape`, in which 0 is inferred. */
  if (count <= 0) count = attr_ints(lower, "target_shape", codes);
  if (count <= 0) lower_fail(lower, "attribute 'shape' is missing");
  for (int32_t i = 0; i < count; i++) {
    is_plain &= codes[i] >= -1;
    order[from_right ? count - 1 - i : i] = codes[i];
  }
  if (is_plain)
    lower_give(lower,
               lower_run(lower, EDGES(lower->inputs[0], lower_ints(lower, codes, (size_t)count)),
                         "reshape(a, b)"));
  else
    reshape_by(lower, order, count, from_right);
}

/* The codes of the NumPy interface differ: -2 copies an axis, -3 drops an axis of extent 1, -4
 * copies the remaining axes, -5 merges two axes, -6 splits an axis. */
static void lower_numpy_reshape(lower_t *lower) {
  static const int64_t plain[] = {0, 0, INT64_MIN, -2, -3, -4};
  int64_t codes[INTS_MAX];
  int32_t count = attr_ints(lower, "newshape", codes);
  if (!attr_is(lower, "order", "C", "C")) lower_missing(lower, "its attribute order");
  if (attr_bool(lower, "reverse", false)) lower_missing(lower, "its attribute reverse=True");
  for (int32_t i = 0; i < count; i++) {
    if (codes[i] >= -1) continue;
    if (codes[i] < -6 || codes[i] == -3)
      lower_missing(lower, "shape code %lld", (long long)codes[i]);
    else
      codes[i] = plain[-codes[i] - 1];
  }
  reshape_by(lower, codes, count, false);
}

static void lower_reshape_like(lower_t *lower) {
  long long begin[2], end[2];
  static const char *const names[] = {"lhs_begin", "lhs_end", "rhs_begin", "rhs_end"};
  char middle[80] = "shape(b)";
  char before[80] = "";
  char after[80] = "";
  for (int i = 0; i < 2; i++) {
    begin[i] = attr_int(lower, names[2 * i], 0);
    end[i] = attr_int(lower, names[2 * i + 1], INT32_MAX);
    if (begin[i] < 0) begin[i] += lower_rank(lower, lower->inputs[i]);
    if (end[i] < 0) end[i] += lower_rank(lower, lower->inputs[i]);
  }
  snprintf(middle, sizeof middle, "shape(b, start=%lld, end=%lld)", begin[1], end[1]);
  if (begin[0] > 0) snprintf(before, sizeof before, "shape(a, end=%lld), ", begin[0]);
  if (end[0] < INT32_MAX) snprintf(after, sizeof after, ", shape(a, start=%lld)", end[0]);
  lower_give(lower, lower_run(lower, lower->inputs, 2, "reshape(a, concat([%s%s%s], axis=0))",
                              before, middle, after));
}

/* axes */

static void lower_transpose(lower_t *lower) {
  int64_t axes[INTS_MAX];
  int32_t count = attr_ints(lower, "axes", axes);
  if (count <= 0)
    lower_give(lower, lower_run(lower, lower->inputs, 1, "transpose(a)"));
  else
    lower_give(lower, lower_run(lower, lower->inputs, 1, "transpose(a, perm=%s)",
                                attr_list(lower, axes, count)));
}

static int64_t exchanged_axis(int64_t axis, int64_t a, int64_t b) {
  if (axis == a) return b;
  return axis == b ? a : axis;
}

static void lower_swap(lower_t *lower) {
  int64_t perm[TENON_RANK_MAX];
  int32_t rank = lower_rank(lower, lower->inputs[0]);
  int64_t a = lower_axis(lower, lower->inputs[0], attr_int(lower, "dim1", 0));
  int64_t b = lower_axis(lower, lower->inputs[0], attr_int(lower, "dim2", 0));
  if (lower_stopped(lower)) return;
  for (int32_t i = 0; i < rank; i++)
    perm[i] = exchanged_axis(i, a, b);
  lower_give(lower, lower_run(lower, lower->inputs, 1, "transpose(a, perm=%s)",
                              attr_list(lower, perm, rank)));
}

static void lower_squeeze(lower_t *lower) {
  int64_t axes[INTS_MAX];
  int32_t count = attr_ints(lower, "axis", axes);
  tenon_edge_t over = count >= 0 ? lower_ints(lower, axes, (size_t)count) : EDGE_NONE;
  lower_give(lower, lower_run(lower, EDGES(lower->inputs[0], over), "squeeze(a, b)"));
}

static void lower_stack(lower_t *lower) {
  long long axis = attr_int(lower, "axis", 0);
  values_t items = {lower_take(lower, (size_t)lower->input_count + 1, sizeof *items.edges),
                    lower->input_count, true};
  const tenon_op_t *concat = NULL;
  tenon_attrs_t *attrs = NULL;
  for (int32_t i = 0; i < items.count && !lower_stopped(lower); i++)
    items.edges[i] = lower_run(lower, lower->inputs + i, 1, "unsqueeze(a, [%lld]:i64)", axis);
  if (lower_stopped(lower)) return;
  if ((lower->status = tenon_op_find("core::concat", &concat)) == TENON_OK &&
      (lower->status = tenon_attrs_create(concat, &attrs)) == TENON_OK &&
      (lower->status = tenon_attrs_int(attrs, "axis", axis)) == TENON_OK)
    lower->outputs = lower_call(lower, concat, attrs, &items, 1, -1);
  tenon_attrs_release(attrs);
}

/* splitting */

static void lower_split(lower_t *lower) {
  long long count = attr_int(lower, "num_outputs", 1);
  long long axis = attr_int(lower, "axis", 1);
  bool squeeze = attr_bool(lower, "squeeze_axis", false);
  if (count < 1 || count > 1 << 16)
    lower_fail(lower, "attribute 'num_outputs': expected 1 to 65536, found %lld", count);
  lower->outputs =
      lower_run_all(lower, lower->inputs, 1, "split(a, count=%lld, axis=%lld)", count, axis);
  for (int32_t i = 0; squeeze && i < lower->outputs.count; i++)
    lower->outputs.edges[i] =
        lower_run(lower, lower->outputs.edges + i, 1, "squeeze(a, [%lld]:i64)", axis);
}

/* Splits into equal sections, or at indices of which the first is 0. */
static void lower_split_at(lower_t *lower) {
  int64_t at[INTS_MAX + 1];
  long long sections = attr_int(lower, "sections", 0);
  long long axis = attr_int(lower, "axis", 1);
  int32_t count = attr_ints(lower, "indices", at);
  bool squeeze = attr_bool(lower, "squeeze_axis", false);
  if (sections > 0)
    lower->outputs =
        lower_run_all(lower, lower->inputs, 1, "split(a, count=%lld, axis=%lld)", sections, axis);
  for (int32_t i = 0; sections <= 0 && i < count; i++)
    lower_give(lower,
               lower_run(lower, lower->inputs, 1, "slice(a, [%lld]:i64, [%lld]:i64, [%lld]:i64)",
                         (long long)at[i], i + 1 < count ? (long long)at[i + 1] : INT64_MAX, axis));
  for (int32_t i = 0; squeeze && i < lower->outputs.count; i++)
    lower->outputs.edges[i] =
        lower_run(lower, lower->outputs.edges + i, 1, "squeeze(a, [%lld]:i64)", axis);
}

static void lower_slice(lower_t *lower) {
  int64_t begin[INTS_MAX], end[INTS_MAX], step[INTS_MAX], axes[INTS_MAX];
  int32_t count = attr_ints(lower, "begin", begin);
  int32_t ends = attr_ints(lower, "end", end);
  int32_t steps = attr_ints(lower, "step", step);
  if (count < 0 || count != ends || (steps > 0 && steps != count))
    lower_fail(lower, "attributes 'begin', 'end' and 'step' have %d, %d and %d items", (int)count,
               (int)ends, (int)steps);
  for (int32_t i = 0; i < count; i++) {
    axes[i] = i;
    if (steps <= 0 || step[i] == INT64_MIN) step[i] = 1;
    if (begin[i] == INT64_MIN) begin[i] = step[i] < 0 ? INT64_MAX : 0;
    if (end[i] == INT64_MIN) end[i] = step[i] < 0 ? INT64_MIN : INT64_MAX;
  }
  size_t n = lower_stopped(lower) ? 0 : (size_t)count;
  lower_give(lower, lower_run(lower,
                              EDGES(lower->inputs[0], lower_ints(lower, begin, n),
                                    lower_ints(lower, end, n), lower_ints(lower, axes, n),
                                    lower_ints(lower, step, n)),
                              "slice(a, b, c, d, e)"));
}

static void lower_slice_axis(lower_t *lower) {
  lower_give(lower,
             lower_run(lower, lower->inputs, 1, "slice(a, [%lld]:i64, [%lld]:i64, [%lld]:i64)",
                       (long long)attr_int(lower, "begin", 0),
                       (long long)attr_int(lower, "end", INT64_MAX),
                       (long long)attr_int(lower, "axis", 0)));
}

static void lower_slice_like(lower_t *lower) {
  int64_t axes[INTS_MAX];
  int32_t count = attr_ints(lower, "axes", axes);
  if (count <= 0) {
    lower_give(lower,
               lower_run(lower, lower->inputs, 2, "slice(a, mul(shape(b), [0]:i64), shape(b))"));
    return;
  }
  tenon_edge_t over = lower_ints(lower, axes, (size_t)count);
  lower_give(lower, lower_run(lower, EDGES(lower->inputs[0], lower->inputs[1], over),
                              "n = gather(shape(b), c); slice(a, mul(n, [0]:i64), n, c)"));
}

/* Crops axes 2 and 3 to the extents of another tensor or of the attribute h_w. */
static void lower_crop(lower_t *lower) {
  int64_t offset[INTS_MAX] = {0};
  int64_t size[INTS_MAX] = {0};
  (void)attr_ints(lower, "offset", offset);
  (void)attr_ints(lower, "h_w", size);
  if (attr_bool(lower, "center_crop", false))
    lower_missing(lower, "its attribute center_crop=True");
  tenon_edge_t n = lower->input_count > 1
                       ? lower_run(lower, lower->inputs + 1, 1, "shape(a, start=2, end=4)")
                       : lower_ints(lower, size, 2);
  tenon_edge_t at = lower_ints(lower, offset, 2);
  lower_give(lower, lower_run(lower, EDGES(lower->inputs[0], at, n),
                              "slice(a, b, add(b, c), [2, 3]:i64)"));
}

static void lower_reverse(lower_t *lower) {
  int64_t axes[INTS_MAX], ones[INTS_MAX], first[INTS_MAX];
  int32_t count = attr_ints(lower, "axis", axes);
  for (int32_t i = 0; i < count; i++) {
    ones[i] = -1;
    first[i] = INT64_MIN;
  }
  size_t n = count > 0 ? (size_t)count : 0;
  lower_give(lower, lower_run(lower,
                              EDGES(lower->inputs[0], lower_ints(lower, ones, n),
                                    lower_ints(lower, first, n), lower_ints(lower, axes, n)),
                              "slice(a, b, c, d, b)"));
}

/* repetition and padding */

static void lower_tile(lower_t *lower) {
  int64_t reps[INTS_MAX], all[2 * INTS_MAX];
  int32_t count = attr_ints(lower, "reps", reps);
  int32_t rank = lower_rank(lower, lower->inputs[0]);
  int32_t lead = count - rank;
  tenon_edge_t x = lower->inputs[0];
  for (int32_t i = 0; i < lead; i++)
    x = lower_run(lower, EDGES(x), "unsqueeze(a, [0]:i64)");
  for (int32_t i = 0; i < -lead; i++)
    all[i] = 1;
  const int32_t first = lead < 0 ? -lead : 0;
  for (int32_t i = 0; i < count; i++)
    all[i + first] = reps[i];
  size_t n = (size_t)(count > rank ? count : rank);
  if (lower_stopped(lower)) n = 0;
  lower_give(lower, lower_run(lower, EDGES(x, lower_ints(lower, all, n)), "tile(a, b)"));
}

static void lower_repeat(lower_t *lower) {
  long long times = attr_int(lower, "repeats", 1);
  long long axis = attr_int(lower, "axis", INT64_MIN);
  tenon_edge_t x = lower->inputs[0];
  if (axis == INT64_MIN) {
    x = lower_run(lower, EDGES(x), "reshape(a, [-1]:i64)");
    axis = 0;
  }
  tenon_edge_t count =
      lower_run(lower, EDGES(x), "mul(gather(shape(a), %lld:i64), %lld:i64)", axis, times);
  lower_give(lower,
             lower_run(lower, EDGES(x, count),
                       "gather(a, div(range(0:i64, b, 1:i64), %lld:i64), axis=%lld)", times, axis));
}

static void lower_pad(lower_t *lower) {
  int64_t widths[INTS_MAX], pads[INTS_MAX];
  int32_t count = attr_ints(lower, "pad_width", widths);
  const char *mode = attr_text(lower, "mode", "constant");
  if (strcmp(mode, "constant") != 0 && strcmp(mode, "edge") != 0 && strcmp(mode, "reflect") != 0)
    lower_fail(lower, "attribute 'mode': expected constant, edge or reflect, found '%.40s'", mode);
  if (count < 0 || count % 2)
    lower_fail(lower, "attribute 'pad_width' has %d items; expected pairs", (int)count);
  for (int32_t i = 0; i < count; i++)
    pads[(i % 2) * (count / 2) + i / 2] = widths[i];
  tenon_edge_t by = lower_ints(lower, pads, lower_stopped(lower) ? 0 : (size_t)count);
  lower_give(lower, lower_run(lower, EDGES(lower->inputs[0], by), "pad(a, b, %.17g:a, mode='%s')",
                              attr_float(lower, "constant_value", 0), mode));
}

/* broadcasting */

static void lower_broadcast_to(lower_t *lower) {
  int64_t shape[INTS_MAX];
  int32_t count = attr_ints(lower, "shape", shape);
  for (int32_t i = 0; i < count; i++)
    shape[i] = shape[i] > 0 ? shape[i] : 1; /* 0: the extent of x */
  lower_give(lower, lower_run(lower,
                              EDGES(lower->inputs[0],
                                    lower_ints(lower, shape, count > 0 ? (size_t)count : 0)),
                              "expand(a, b)"));
}

static void lower_broadcast_axis(lower_t *lower) {
  int64_t axes[INTS_MAX], sizes[INTS_MAX], shape[TENON_RANK_MAX];
  int32_t count = attr_ints(lower, "axis", axes);
  int32_t rank = lower_rank(lower, lower->inputs[0]);
  if (attr_ints(lower, "size", sizes) != count)
    lower_fail(lower, "attributes 'axis' and 'size' differ in length");
  for (int32_t i = 0; i < rank; i++)
    shape[i] = 1;
  for (int32_t i = 0; i < count && !lower_stopped(lower); i++) {
    int64_t axis = lower_axis(lower, lower->inputs[0], axes[i]);
    if (!lower_stopped(lower)) shape[axis] = sizes[i];
  }
  lower_give(lower,
             lower_run(lower, EDGES(lower->inputs[0], lower_ints(lower, shape, (size_t)rank)),
                       "expand(a, b)"));
}

static void lower_broadcast_like(lower_t *lower) {
  int64_t own[INTS_MAX], other[INTS_MAX];
  int32_t count = attr_ints(lower, "lhs_axes", own);
  int32_t others = attr_ints(lower, "rhs_axes", other);
  char text[TEXT_SIZE] = "";
  if (count <= 0 && others <= 0) {
    lower_give(lower, lower_run(lower, lower->inputs, 2, "expand(a, shape(b))"));
    return;
  }
  if (count != others) lower_fail(lower, "attributes 'lhs_axes' and 'rhs_axes' differ in length");
  for (int32_t i = 0, rank = lower_rank(lower, lower->inputs[0]); i < rank && !lower_stopped(lower);
       i++) {
    char part[80] = "[1]:i64";
    for (int32_t k = 0; k < count; k++)
      if (lower_axis(lower, lower->inputs[0], own[k]) == i)
        snprintf(part, sizeof part, "gather(shape(b), [%lld]:i64)", (long long)other[k]);
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? ", " : "", part);
  }
  lower_give(lower, lower_run(lower, lower->inputs, 2, "expand(a, concat([%s], axis=0))", text));
}

/* clang-format off: a table with one lowering in each entry */
/* clang-format off */
static const lowering_t lowerings[] = {
  {"Reshape|reshape(x, -keep_highest)", lower_reshape},
  {"_np_reshape|_npi_reshape|_npx_reshape(x)", lower_numpy_reshape},
  {"reshape_like(x, like)", lower_reshape_like},
  {"Flatten|flatten|_npx_batch_flatten(x) = flatten(x, axis=1)", NULL},
  {"transpose|_np_transpose|_npi_transpose(x=)", lower_transpose},
  {"SwapAxis|swapaxes|_npi_swapaxes(x=)", lower_swap},
  {"expand_dims|_npi_expand_dims(x+) = unsqueeze(x, @axis:i64)", NULL},
  {"squeeze|_np_squeeze|_npi_squeeze(x)", lower_squeeze},
  {"stack|_npi_stack(*xs)", lower_stack},
  {"Concat|concat|_rnn_param_concat(*xs=) = concat(xs, axis=dim?1)", NULL},
  {"_npi_concatenate|_np_concat(*xs) = concat(xs, axis=axis?0)", NULL},
  {"SliceChannel|split(x)", lower_split},
  {"_split_v2|_npi_split(x)", lower_split_at},
  {"slice|crop|_npi_slice(x=)", lower_slice},
  {"slice_axis(x=)", lower_slice_axis},
  {"slice_like(x=, like)", lower_slice_like},
  {"Crop(x, like?)", lower_crop},
  {"reverse|flip|_npi_flip(x=)", lower_reverse},
  {"tile|_npi_tile(x)", lower_tile},
  {"repeat|_np_repeat(x)", lower_repeat},
  {"Pad|pad(x=)", lower_pad},
  {"broadcast_to|_np_broadcast_to|_npi_broadcast_to(x)", lower_broadcast_to},
  {"broadcast_axis|broadcast_axes(x=)", lower_broadcast_axis},
  {"broadcast_like(x, like)", lower_broadcast_like},
  {"depth_to_space(x) = depth_to_space(x, block=block_size)", NULL},
  {"space_to_depth(x) = space_to_depth(x, block=block_size)", NULL},
  {"zeros_like|_np_zeros_like(x=) = expand(0:x, shape(x))", NULL},
  {"ones_like|_np_ones_like(x=) = expand(1:x, shape(x))", NULL},
  {"_npi_full_like|_np_full_like(x=) = cast_like(expand(@fill_value:x, shape(x)), x)", NULL},
  {"shape_array(x#) = shape(x)", NULL},
  {"size_array(x#) = unsqueeze(size(x), [0]:i64)", NULL},
};
/* clang-format on */

LOWERINGS(lowerings_shape);
