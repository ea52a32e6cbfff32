/* Resizing axis by axis: the request, and for each axis a table of which elements contribute to
 * each result and with which weights. Used by resize and its gradient. Coordinates follow ONNX's
 * Resize-19, in double precision.
 * Invariant: the weights of a result add up to 1. */
#ifndef TENON_OPS_INTERPOLATION_H
#define TENON_OPS_INTERPOLATION_H

#include <tenon/op.h>

enum {
  NEAREST,
  LINEAR,
  CUBIC,
};
enum {
  HALF_PIXEL,
  HALF_PIXEL_SYMMETRIC,
  PYTORCH_HALF_PIXEL,
  ALIGN_CORNERS,
  ASYMMETRIC,
  TF_CROP_AND_RESIZE,
};
enum {
  ROUND_PREFER_FLOOR,
  ROUND_PREFER_CEIL,
  FLOOR,
  CEIL,
};
enum {
  STRETCH,
  NOT_LARGER,
  NOT_SMALLER,
};
enum {
  RESIZE_MODE,
  RESIZE_COORDINATES,
  RESIZE_NEAREST,
  RESIZE_CUBIC,
  RESIZE_EXCLUDE,
  RESIZE_EXTRAPOLATION,
  RESIZE_ANTIALIAS,
  RESIZE_POLICY,
  RESIZE_AXES,
};
#define RESIZE_ARGUMENTS                                                                           \
  "str['nearest', 'linear', 'cubic'] mode='nearest', "                                             \
  "str['half_pixel', 'half_pixel_symmetric', 'pytorch_half_pixel', 'align_corners', "              \
  "'asymmetric', "                                                                                 \
  "'tf_crop_and_resize'] coordinates='half_pixel', "                                               \
  "str['round_prefer_floor', 'round_prefer_ceil', 'floor', 'ceil'] nearest='round_prefer_floor', " \
  "float cubic_coeff=-0.75, bool exclude_outside=False, float extrapolation=0.0, bool "            \
  "antialias=False, "                                                                              \
  "str['stretch', 'not_larger', 'not_smaller'] policy='stretch', int[]? axes=None"
/* The same in a gradient formula; extrapolated values are constant, so they are not passed. */
#define RESIZE_PASSED                                                                              \
  "mode=mode, coordinates=coordinates, nearest=nearest, cubic_coeff=cubic_coeff, "                 \
  "exclude_outside=exclude_outside, "                                                              \
  "antialias=antialias, policy=policy, axes=axes"

typedef struct axis_t {
  int resized;
  int64_t in;
  int64_t out;
  double scale;
  double start;
  /* The region of tf_crop_and_resize is start to end. */
  double end;
} axis_t;

typedef struct resize_t {
  const tenon_host_t *host;
  const void *context;
  const tenon_value_t *attrs;
  int32_t rank;
  const tenon_tensor_t *roi;
  const tenon_tensor_t *scales;
  const tenon_tensor_t *sizes; /* NULL: absent */
} resize_t;

static inline int64_t count_of(const tenon_tensor_t *t) { return t ? tenon_count(t) : 0; }

/* Fills in the axes; the caller has set `in`. */
tenon_status_t core_resize_axes(const resize_t *r, axis_t *axes);

typedef struct taps_t {
  int64_t count;  /* elements that contribute to a result */
  int64_t *index; /* [out, count] */
  double *weight; /* [out, count]; the first is NaN where the result is the extrapolation value */
} taps_t;

/* The table of one axis for linear and cubic, in a call with the attributes of resize. */
tenon_status_t core_resize_taps(tenon_call_t *call, const axis_t *a, taps_t *taps);
/* For nearest: the element of result i; -1 means the extrapolation value. */
int64_t core_resize_nearest(const tenon_value_t *attrs, const axis_t *a, int64_t i);

#endif
