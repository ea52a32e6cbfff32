/* Operations of StableHLO with types that follow from the operands. */
#ifndef BRIDGES_STABLEHLO_WRITE_OPERATION_H
#define BRIDGES_STABLEHLO_WRITE_OPERATION_H

#include "write/write.h"

/* element-wise; the operands have the same shape */

hlo_val_t hlo_unary(hlo_write_t *w, const char *name, hlo_val_t a);
hlo_val_t hlo_binary(hlo_write_t *w, const char *name, hlo_val_t a, hlo_val_t b);
/* `direction`: EQ, NE, LT, LE, GT, GE. */
hlo_val_t hlo_compare_by(hlo_write_t *w, const char *direction, hlo_val_t a, hlo_val_t b);
hlo_val_t hlo_select(hlo_write_t *w, hlo_val_t condition, hlo_val_t a, hlo_val_t b);
hlo_val_t hlo_convert(hlo_write_t *w, hlo_val_t a, tenon_dtype_t dtype);
/* A number of the dtype and the shape of `like`. */
hlo_val_t hlo_fill(hlo_write_t *w, const hlo_val_t *like, double number);

/* shapes */

/* Axis i of `a` becomes axis axes[i] of the result. */
hlo_val_t hlo_broadcast_in(hlo_write_t *w, hlo_val_t a, const int64_t *axes, int32_t ndim,
                           const int64_t *dims);
/* Broadcasts as NumPy does. */
hlo_val_t hlo_broadcast_to(hlo_write_t *w, hlo_val_t a, const hlo_val_t *like);
/* Gives `a`, with one axis, the rank of `like`: its axis becomes `axis`. */
hlo_val_t hlo_along(hlo_write_t *w, hlo_val_t a, int32_t axis, const hlo_val_t *like);
hlo_val_t hlo_to_shape(hlo_write_t *w, hlo_val_t a, int32_t ndim, const int64_t *dims);
hlo_val_t hlo_permute(hlo_write_t *w, hlo_val_t a, const int64_t *perm);
hlo_val_t hlo_cut(hlo_write_t *w, hlo_val_t a, const int64_t *starts, const int64_t *ends,
                  const int64_t *steps);
/* The part of one axis from `start` to `end`. */
hlo_val_t hlo_cut_axis(hlo_write_t *w, hlo_val_t a, int32_t axis, int64_t start, int64_t end);
hlo_val_t hlo_turn(hlo_write_t *w, hlo_val_t a, const int64_t *axes, int32_t count);
hlo_val_t hlo_join_items(hlo_write_t *w, const hlo_val_t *items, int32_t count, int32_t axis);
hlo_val_t hlo_pad_with(hlo_write_t *w, hlo_val_t a, hlo_val_t number, const int64_t *low,
                       const int64_t *high);
hlo_val_t hlo_count_along(hlo_write_t *w, hlo_val_t type, int32_t axis); /* iota */

/* reductions */

/* The region of a reduction: one operation of two numbers; NULL: it gives the second one. */
const char *hlo_region_of(hlo_write_t *w, const char *name, tenon_dtype_t dtype);
/* Reduces axes with an operation, such as stablehlo.add. */
hlo_val_t hlo_reduce_axes(hlo_write_t *w, const char *name, hlo_val_t a, double start,
                          const int64_t *axes, int32_t count);
/* The same; the reduced axes keep the extent 1. */
hlo_val_t hlo_reduce_keep(hlo_write_t *w, const char *name, hlo_val_t a, double start,
                          const int64_t *axes, int32_t count);
typedef struct hlo_window_t { /* One entry for each axis of the operand. */
  int64_t extents[TENON_RANK_MAX];
  int64_t strides[TENON_RANK_MAX];
  int64_t dilations[TENON_RANK_MAX];
  int64_t low[TENON_RANK_MAX];
  int64_t high[TENON_RANK_MAX];
} hlo_window_t;
enum { HLO_WINDOW_MOST = 1 << 30 }; /* Readers accept no larger numbers for windows and padding. */
/* Reports sizes, strides, dilations or paddings that are below `least` or above HLO_WINDOW_MOST. */
void hlo_check_window(hlo_write_t *w, const int64_t *numbers, int32_t count, int64_t least);
/* Returns dense<[[low, high], ...]> : tensor<Nx2xi64>, the padding of each axis. */
const char *hlo_padding_text(hlo_write_t *w, const int64_t *low, const int64_t *high,
                             int32_t count);
hlo_val_t hlo_reduce_windows(hlo_write_t *w, const char *name, hlo_val_t a, double start,
                             const hlo_window_t *window);
/* The least number of a dtype; also the start of a maximum. */
double hlo_lowest(tenon_dtype_t dtype);
double hlo_highest(tenon_dtype_t dtype);

/* products */

/* The last axis of `a` with the last but one of `b`; the axes before these are the same. */
hlo_val_t hlo_product(hlo_write_t *w, hlo_val_t a, hlo_val_t b);

/* gather */

/* The elements of `a` at `indices` along an axis, with the axes of `indices` in its place. */
hlo_val_t hlo_take_along(hlo_write_t *w, hlo_val_t a, hlo_val_t indices, int32_t axis);
/* Elements of `a` at positions: the last axis of `indices` holds the first coordinates. */
hlo_val_t hlo_take_at(hlo_write_t *w, hlo_val_t a, hlo_val_t indices);
/* Indices below 0 count from the end. */
hlo_val_t hlo_from_start(hlo_write_t *w, hlo_val_t indices, int64_t extent);

#endif
