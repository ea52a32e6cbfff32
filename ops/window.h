/* Sliding windows over the spatial axes of [N, C, spatial...], with extents and padding by ONNX's
 * rules. Convolutions and pools compute them from extents that may be symbols (infer) and as
 * numbers (run).
 * Invariant: both use one description, window_args_t. */
#ifndef TENON_OPS_WINDOW_H
#define TENON_OPS_WINDOW_H

#include <tenon/op.h>

enum { SPATIAL_MAX = TENON_RANK_MAX - 2 };
enum {
  WINDOW_EXPLICIT,
  WINDOW_SAME_UPPER,
  WINDOW_SAME_LOWER,
  WINDOW_VALID,
};
#define WINDOW_ARGUMENTS                                                                           \
  "int[] strides=[], int[] pads=[], int[] dilations=[], "                                          \
  "str['explicit', 'same_upper', 'same_lower', 'valid'] auto_pad='explicit'"

typedef struct window_args_t { /* attributes of an operator; an empty list means the default */
  const tenon_value_t *strides;
  const tenon_value_t *pads;
  const tenon_value_t *dilations; /* pads: all at the beginning, then all at the end */
  int64_t auto_pad;
  int ceil;
} window_args_t;
/* For attributes in the order of WINDOW_ARGUMENTS from attrs[0] on. */
static inline window_args_t window_args(const tenon_value_t *attrs, int ceil) {
  window_args_t args = {attrs, attrs + 1, attrs + 2, attrs[3].as.i, ceil};
  return args;
}

typedef struct window_t {
  int32_t rank;
  int64_t in[SPATIAL_MAX];
  int64_t out[SPATIAL_MAX];
  int64_t kernel[SPATIAL_MAX];
  int64_t stride[SPATIAL_MAX];
  int64_t dilation[SPATIAL_MAX];
  int64_t before[SPATIAL_MAX];
  int64_t after[SPATIAL_MAX]; /* padding */
} window_t;

/* Checks that the lists have the right lengths and valid elements for this many spatial axes. */
tenon_status_t core_window_check(tenon_infer_t *infer, const window_args_t *args, int32_t rank);
/* Computes out[i] for a window of kernel[i] over in[i]. */
tenon_status_t core_window_infer(tenon_infer_t *infer, const window_args_t *args, int32_t rank,
                                 const tenon_dim_t *in, const tenon_dim_t *kernel,
                                 tenon_dim_t *out);
/* The same for numbers, which must be valid. */
void core_window_out(const window_args_t *args, int32_t rank, const int64_t *in,
                     const int64_t *kernel, int64_t *out);
/* Computes the numbers of one call. */
void core_window_set(window_t *window, const window_args_t *args, int32_t rank, const int64_t *in,
                     const int64_t *kernel, const int64_t *out);

static inline int64_t list_at(const tenon_value_t *list, int32_t i, int64_t otherwise) {
  return list->kind == TENON_KIND_INTS && list->count ? list->as.ints[i] : otherwise;
}
static inline int64_t window_size(const int64_t *extents, int32_t rank) {
  int64_t n = 1;
  for (int32_t i = 0; i < rank; i++)
    n *= extents[i];
  return n;
}

/* channels-last memory of tensors [N, C, spatial...] */

/* States that the output is channels-last, whatever its extents. */
void core_channels_last(tenon_infer_t *infer, tenon_meta_t *out);
/* Is the channel axis the innermost in memory? */
int core_is_channels_last(const tenon_meta_t *x);
/* Whether a tensor lies channels-last in memory, without gaps. */
int core_lies_last(const tenon_tensor_t *x);
/* The elements from one position to the next of a tensor whose channels are adjacent and whose
 * other axes are in row-major order, perhaps with gaps behind the channels; 0: it lies in another
 * way. */
int64_t core_last_pitch(const tenon_tensor_t *x);

#endif
