/* Lowers convolution to core::conv, which has the batch first, then channels, then spatial axes.
 * Dilation of the operand and negative padding become paddings of the operand; groups of the batch
 * become groups of channels. */
#include <string.h>

#include "lower/arguments.h"
#include "lower/expression.h"
#include "lower/lower.h"

typedef struct layout_t { /* Where an operand has its axes: the two named ones, then the others. */
  int64_t perm[TENON_RANK_MAX];
  int32_t ndim;
} layout_t;

typedef struct convolution_t {
  layout_t x;
  layout_t w;
  layout_t out;
  int32_t spatial;
  int64_t strides[HLO_INTS_MAX];
  int64_t pads[HLO_INTS_MAX]; /* low, high for each spatial axis */
  int64_t x_dilation[HLO_INTS_MAX];
  int64_t w_dilation[HLO_INTS_MAX];
  int64_t reversed[HLO_INTS_MAX];
  int64_t groups;
  int64_t batch_groups;
} convolution_t;

/* reading */

/* Reads a list such as [b, 0, 1, f], whose first and second named axes are `first` and `second`. */
static void read_layout(hlo_lower_t *lower, const hlo_attr_t *list, char first, char second,
                        int32_t ndim, layout_t *out) {
  out->ndim = ndim;
  for (int32_t i = 0; i < ndim; i++)
    out->perm[i] = -1;
  if (list->kind != HLO_ATTR_LIST || list->count != ndim || ndim < 2) {
    hlo_wrong(lower, "dim_numbers: expected %d axes", (int)ndim);
    return;
  }
  for (int32_t i = 0; i < ndim; i++) {
    const hlo_attr_t *item = &list->items[i];
    bool is_spatial = item->kind == HLO_ATTR_INT && item->integer >= 0 && item->integer < ndim;
    int64_t place = is_spatial ? item->integer + 2 : -1;
    if (item->kind == HLO_ATTR_WORD && item->text[0] == first && !item->text[1]) place = 0;
    if (item->kind == HLO_ATTR_WORD && item->text[0] == second && !item->text[1]) place = 1;
    if (place < 0 || place >= ndim || out->perm[place] >= 0) {
      hlo_wrong(lower, "dim_numbers: expected each of %c, %c and the spatial axes once", first,
                second);
      return;
    }
    out->perm[place] = i;
  }
}

static void read_window(hlo_lower_t *lower, convolution_t *c) {
  const hlo_attr_t *window = hlo_attr(lower, "window", NULL);
  static const char *const names[][2] = {{"stride", "window_strides"},
                                         {"lhs_dilate", "lhs_dilation"},
                                         {"rhs_dilate", "rhs_dilation"},
                                         {"reverse", "window_reversal"},
                                         {"pad", "padding"}};
  int64_t *const targets[] = {c->strides, c->x_dilation, c->w_dilation, c->reversed, c->pads};
  for (int k = 0; k < 5; k++) {
    int32_t expected = k == 4 ? 2 * c->spatial : c->spatial;
    const hlo_attr_t *attr = window ? hlo_attr_find(window, names[k][0]) : NULL;
    if (!attr) attr = hlo_attr(lower, names[k][1], NULL);
    int32_t count = hlo_ints_of(lower, attr, targets[k]);
    if (count >= 0 && count != expected)
      hlo_wrong(lower, "%s: expected %d integers, found %d", names[k][0], (int)expected,
                (int)count);
    for (int32_t i = 0; i < expected && count < 0; i++)
      targets[k][i] = k < 3;
    for (int32_t i = 0; i < expected && !hlo_stopped(lower); i++)
      if (!hlo_is_moderate(targets[k][i]) || (k < 3 && targets[k][i] < 1))
        hlo_wrong(lower, "%s: %lld is out of range", names[k][0], (long long)targets[k][i]);
  }
}

/* Reads the padding of dynamic_conv, which is its third operand. */
static void read_operand_padding(hlo_lower_t *lower, convolution_t *c) {
  int64_t pads[HLO_INTS_MAX] = {0};
  if (lower->op->operand_count < 3 || hlo_stopped(lower)) return;
  if (hlo_known(lower, 2, pads) != 2 * c->spatial)
    hlo_missing(lower,
                "padding that is known only when the program runs: export it with fixed spatial "
                "extents");
  for (int32_t i = 0; i < 2 * c->spatial && !hlo_stopped(lower); i++) {
    if (!hlo_is_moderate(pads[i]))
      hlo_wrong(lower, "padding: %lld is out of range", (long long)pads[i]);
    c->pads[i] = pads[i];
  }
}

static void read_convolution(hlo_lower_t *lower, convolution_t *c) {
  const hlo_attr_t *numbers = hlo_attr(lower, "dim_numbers", "dimension_numbers");
  int32_t ndim = hlo_operand_type(lower, 0)->ndim;
  if (!numbers || numbers->kind != HLO_ATTR_LIST || numbers->count != 3) {
    hlo_wrong(lower, "expected dim_numbers such as [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]");
    return;
  }
  if (hlo_operand_type(lower, 1)->ndim != ndim || hlo_result_type(lower, 0)->ndim != ndim)
    hlo_wrong(lower, "expected operands and a result with %d axes", (int)ndim);
  if (hlo_stopped(lower)) return;
  c->spatial = ndim - 2;
  read_layout(lower, &numbers->items[0], 'b', 'f', ndim, &c->x);
  read_layout(lower, &numbers->items[1], 'o', 'i', ndim, &c->w);
  read_layout(lower, &numbers->items[2], 'b', 'f', ndim, &c->out);
  read_window(lower, c);
  read_operand_padding(lower, c);
  c->groups = hlo_attr_int(lower, "feature_group_count", NULL, 1);
  c->batch_groups = hlo_attr_int(lower, "batch_group_count", NULL, 1);
  if (c->groups < 1 || c->batch_groups < 1 || c->batch_groups > INT32_MAX ||
      (c->groups > 1 && c->batch_groups > 1))
    hlo_wrong(lower,
              "the numbers of groups must be 1 or more, and only one of them may be above 1");
}

/* lowering */

/* Spreads the operand and applies the paddings that core::conv does not have. */
static tenon_edge_t prepare_operand(hlo_lower_t *lower, convolution_t *c, tenon_edge_t x) {
  int64_t low[TENON_RANK_MAX] = {0}, high[TENON_RANK_MAX] = {0}, interior[TENON_RANK_MAX] = {0};
  for (int32_t i = 0; i < c->spatial; i++) {
    int64_t *pads = &c->pads[2 * i];
    interior[2 + i] = c->x_dilation[i] - 1;
    low[2 + i] = pads[0] < 0 ? pads[0] : 0;
    high[2 + i] = pads[1] < 0 ? pads[1] : 0;
    pads[0] -= low[2 + i];
    pads[1] -= high[2 + i];
  }
  tenon_edge_t zero = hlo_run(lower, EDGES(x), "0:a");
  return hlo_pad(lower, x, zero, low, high, interior, c->spatial + 2);
}

/* Makes [groups * n, channels, ...] to [n, groups * channels, ...]. */
static tenon_edge_t group_batch(hlo_lower_t *lower, const convolution_t *c, tenon_edge_t x) {
  int64_t dims[TENON_RANK_MAX + 1], perm[TENON_RANK_MAX + 1];
  int32_t ndim = c->spatial + 2;
  if (ndim + 1 > TENON_RANK_MAX) hlo_missing(lower, "so many axes");
  for (int32_t i = 0; i < ndim && !hlo_stopped(lower); i++) {
    int64_t extent = hlo_extent(lower, x, i);
    if (extent < 0) hlo_missing(lower, "groups of a batch of unknown extents");
    if (extent > INT32_MAX) hlo_missing(lower, "groups of a batch of so many elements");
    if (i == 0 && extent % c->batch_groups)
      hlo_wrong(lower, "the batch does not divide into %lld groups", (long long)c->batch_groups);
    dims[i + 1] = extent;
    perm[i] = i;
  }
  if (hlo_stopped(lower)) return EDGE_NONE;
  dims[0] = c->batch_groups;
  dims[1] /= c->batch_groups;
  perm[0] = 1;
  perm[1] = 0;
  perm[ndim] = ndim;
  x = hlo_transpose(lower, hlo_reshape(lower, x, dims, ndim + 1), perm, ndim + 1);
  dims[0] = dims[1];
  dims[1] = c->batch_groups * dims[2];
  memmove(dims + 2, dims + 3, (size_t)(ndim - 2) * sizeof *dims);
  return hlo_reshape(lower, x, dims, ndim);
}

static tenon_edge_t call_conv(hlo_lower_t *lower, const convolution_t *c, tenon_edge_t x,
                              tenon_edge_t w) {
  char strides[HLO_JOIN_MAX], pads[HLO_JOIN_MAX], dilations[HLO_JOIN_MAX];
  int64_t ends[HLO_INTS_MAX];
  int64_t groups = c->groups > 1 ? c->groups : c->batch_groups;
  for (int32_t i = 0; i < c->spatial; i++) {
    ends[i] = c->pads[2 * i];
    ends[c->spatial + i] = c->pads[2 * i + 1];
  }
  return hlo_run(
      lower, EDGES(x, w), "conv(a, b, strides=[%s], pads=[%s], dilations=[%s], group=%lld)",
      hlo_join(c->strides, c->spatial, strides, sizeof strides),
      hlo_join(ends, 2 * c->spatial, pads, sizeof pads),
      hlo_join(c->w_dilation, c->spatial, dilations, sizeof dilations), (long long)groups);
}

static void lower_convolution(hlo_lower_t *lower) {
  convolution_t *c = hlo_lower_take(lower, 1, sizeof *c);
  int64_t back[TENON_RANK_MAX];
  tenon_dtype_t dtype = hlo_result_type(lower, 0)->dtype;
  tenon_edge_t x = hlo_edge(lower, 0);
  tenon_edge_t w = hlo_edge(lower, 1);
  if (!c || hlo_stopped(lower)) return;
  read_convolution(lower, c);
  if (hlo_stopped(lower)) return;
  x = hlo_transpose(lower, hlo_cast(lower, x, dtype), c->x.perm, c->x.ndim);
  w = hlo_transpose(lower, hlo_cast(lower, w, dtype), c->w.perm, c->w.ndim);
  for (int32_t i = 0; i < c->spatial; i++)
    if (c->reversed[i]) w = hlo_slice(lower, w, 2 + i, -1, -(INT64_C(1) << 62), -1);
  x = prepare_operand(lower, c, x);
  if (c->batch_groups > 1) x = group_batch(lower, c, x);
  tenon_edge_t out;
  if (c->spatial)
    out = call_conv(lower, c, x, w);
  else if (c->groups > 1 || c->batch_groups > 1)
    out = hlo_run(lower, EDGES(x, w),
                  "squeeze(conv(unsqueeze(a, [2]), unsqueeze(b, [2]), group=%lld), [2])",
                  (long long)(c->groups > 1 ? c->groups : c->batch_groups));
  else
    out = hlo_run(lower, EDGES(x, w), "matmul(a, b, transpose_b=True)");
  for (int32_t i = 0; i < c->out.ndim; i++)
    back[c->out.perm[i]] = i;
  hlo_give(lower, 0, hlo_transpose(lower, out, back, c->out.ndim));
}

static const hlo_row_t rows[] = {
    {"stablehlo.convolution", NULL, NULL, NULL, lower_convolution, 0, NULL},
    {"stablehlo.dynamic_conv", NULL, NULL, NULL, lower_convolution, 0, NULL},
};

HLO_ROWS(hlo_rows_conv);
