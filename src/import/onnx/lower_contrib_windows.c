/* Lowerings of the operators of com.microsoft that take parts of tensors: windows, crops of images
 * and repeated n-grams; and the inverse of matrices. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "import/onnx/lower_contrib.h"

enum { EXTENT_MOST = 1 << 20 };

/* UnfoldTensor: the windows of an axis, which become a last axis */
static void lower_unfold(tn_lower_t *lower) {
  char perm[TENON_RANK_MAX * 4];
  int length = 0;
  tn_ref_t *x = lower->inputs[0];
  int32_t rank = tn_lower_rank(lower, x);
  int64_t dim = tn_lower_int(lower, "dim", -1);
  int64_t size = tn_lower_int(lower, "size", 0);
  int64_t step = tn_lower_int(lower, "step", 1);
  if (dim < -rank || dim >= rank || size < 1 || step < 1 || size > EXTENT_MOST ||
      step > EXTENT_MOST) {
    tn_lower_fail(lower,
                  "attributes dim, size and step are %lld, %lld and %lld: expected one of %d "
                  "axes, and sizes from 1 to %d",
                  (long long)dim, (long long)size, (long long)step, (int)rank, EXTENT_MOST);
    return;
  }
  dim += dim < 0 ? rank : 0;
  int64_t extent = tn_lower_find_extent(lower, x, (int32_t)dim);
  if (extent >= 0 && extent < size)
    tn_lower_fail(lower, "attribute 'size' is %lld: expected at most the extent %lld of axis %lld",
                  (long long)size, (long long)extent, (long long)dim);
  for (int32_t i = 0; i <= rank; i++)
    if (i != dim + 1) length += snprintf(perm + length, sizeof perm - (size_t)length, "%d, ", i);
  tn_ref_t *windows = tn_lower_run(
      lower, TN_REFS(x),
      "add(unsqueeze(range(0:i64, sub(squeeze(shape(a, start=%lld, end=%lld), [0]:i64), %lld:i64), "
      "%lld:i64), [-1]:i64), range(0:i64, %lld:i64, 1:i64))",
      (long long)dim, (long long)dim + 1, (long long)size - 1, (long long)step, (long long)size);
  lower->outputs[0] =
      tn_lower_run(lower, TN_REFS(x, windows), "transpose(gather(a, b, axis=%lld), perm=[%s%lld])",
                   (long long)dim, perm, (long long)dim + 1);
}

/* NGramRepeatBlock */

/* Whether each n-gram of the ids begins as the ids end: its first n - 1 tokens are the last ones.
 * NULL: n is 1, and every n-gram does. */
static tn_ref_t *match_ends(tn_lower_t *lower, tn_ref_t *ids, int64_t n) {
  tn_ref_t *match = NULL;
  for (int64_t i = 0; i < n - 1; i++) {
    tn_ref_t *same = tn_lower_run(
        lower, TN_REFS(ids),
        "equal(slice(a, [%lld]:i64, [%lld]:i64, [1]:i64), slice(a, [%lld]:i64, [%lld]:i64, "
        "[1]:i64))",
        (long long)i, (long long)(i - n + 1), (long long)(i - n + 1),
        i == n - 2 ? (long long)EXTENT_MOST * EXTENT_MOST : (long long)(i - n + 2));
    match = match ? tn_lower_run(lower, TN_REFS(match, same), "and(a, b)") : same;
  }
  return match;
}

static void lower_repeat_block(tn_lower_t *lower) {
  enum { NGRAM_MOST = 64 };
  tn_ref_t *ids = lower->inputs[0];
  tn_ref_t *scores = lower->inputs[1];
  int64_t n = tn_lower_int(lower, "ngram_size", 0);
  if (n < 1 || n > NGRAM_MOST) {
    tn_lower_fail(lower, "attribute 'ngram_size' is %lld: expected a number from 1 to %d",
                  (long long)n, NGRAM_MOST);
    return;
  }
  tenon_dtype_t dtype = tn_lower_dtype(lower, scores);
  tn_ref_t *banned = tn_lower_scalar(lower, dtype, -(double)INFINITY);
  tn_ref_t *kept = tn_lower_scalar(lower, dtype, (double)INFINITY);
  tn_ref_t *tokens = tn_lower_run(lower, TN_REFS(ids), "slice(a, [%lld]:i64, [%lld]:i64, [1]:i64)",
                                  (long long)n - 1, (long long)EXTENT_MOST * EXTENT_MOST);
  tn_ref_t *match = match_ends(lower, ids, n);
  tn_ref_t *limit = match ? tn_lower_run(lower, TN_REFS(match, banned, kept), "where(a, b, c)")
                          : tn_lower_run(lower, TN_REFS(banned, tokens), "expand(a, shape(b))");
  lower->outputs[0] = tn_lower_run(lower, TN_REFS(scores, tokens, limit),
                                   "scatter_elements(a, b, c, axis=1, reduction='min')");
}

/* CropAndResize */

/* The coordinates along one axis of all boxes [boxes, size], from 0 to 1 in the image. */
static tn_ref_t *crop_coordinates(tn_lower_t *lower, tn_ref_t *rois, int axis, int64_t size) {
  tn_ref_t *begin =
      tn_lower_run(lower, TN_REFS(rois), "slice(a, [%d]:i64, [%d]:i64, [1]:i64)", axis, axis + 1);
  tn_ref_t *end = tn_lower_run(lower, TN_REFS(rois), "slice(a, [%d]:i64, [%d]:i64, [1]:i64)",
                               axis + 2, axis + 3);
  if (size == 1) return tn_lower_run(lower, TN_REFS(begin, end), "mul(add(a, b), 0.5:a)");
  return tn_lower_run(lower, TN_REFS(begin, end),
                      "add(a, mul(sub(b, a), div(range(0:a, %lld:a, 1:a), %lld:a)))",
                      (long long)size, (long long)size - 1);
}

static void lower_crop(tn_lower_t *lower) {
  int64_t sizes[2] = {0, 0};
  int32_t count = 0;
  const char *mode = tn_lower_text(lower, "mode", "bilinear");
  const tn_onnx_attribute_t *value =
      tn_lower_typed(lower, "extrapolation_value", TN_ATTRIBUTE_FLOAT);
  tn_ref_t *rois = lower->inputs[1];
  if (strcmp(mode, "bilinear") != 0)
    tn_lower_missing(lower, "attribute 'mode' is '%.60s': expected bilinear", mode);
  if (!tn_lower_known(lower, lower->inputs[3], sizes, 2, &count)) {
    tn_lower_missing(lower, "input `crop_size` is not a constant");
    return;
  }
  if (count != 2 || sizes[0] < 1 || sizes[1] < 1 || sizes[0] > EXTENT_MOST ||
      sizes[1] > EXTENT_MOST) {
    tn_lower_fail(lower, "input `crop_size`: expected two numbers from 1 to %d", EXTENT_MOST);
    return;
  }
  tn_ref_t *y = tn_lower_run(lower, TN_REFS(crop_coordinates(lower, rois, 0, sizes[0])),
                             "unsqueeze(a, [2]:i64)");
  tn_ref_t *x = tn_lower_run(lower, TN_REFS(crop_coordinates(lower, rois, 1, sizes[1])),
                             "unsqueeze(a, [1]:i64)");
  tn_ref_t *shape =
      tn_lower_run(lower, TN_REFS(rois), "concat([shape(a, end=1), [%lld, %lld]:i64], axis=0)",
                   (long long)sizes[0], (long long)sizes[1]);
  tn_ref_t *points = tn_lower_run(lower, TN_REFS(x, y, shape),
                                  "concat([unsqueeze(expand(a, c), [-1]:i64), "
                                  "unsqueeze(expand(b, c), [-1]:i64)], axis=-1)");
  tn_ref_t *crops = tn_lower_run(lower, TN_REFS(lower->inputs[0], lower->inputs[2], points),
                                 "grid_sample(gather(a, b, axis=0), sub(mul(c, 2:c), 1:c), "
                                 "padding='border', align_corners=True)");
  tn_ref_t *inside = tn_lower_run(lower, TN_REFS(x, y),
                                  "and(and(greater_equal(a, 0:a), less_equal(a, 1:a)), "
                                  "and(greater_equal(b, 0:b), less_equal(b, 1:b)))");
  lower->outputs[0] =
      tn_lower_run(lower, TN_REFS(inside, crops), "where(unsqueeze(a, [1]:i64), b, %.9g:b)",
                   value ? value->f : 0.0);
}

/* Inverse: the transposed cofactors over the determinant, in f64, whose range determinants of many
 * rows need. */
static void lower_inverse(tn_lower_t *lower) {
  char perm[TENON_RANK_MAX * 4];
  int length = 0;
  int32_t rank = tn_lower_rank(lower, lower->inputs[0]);
  for (int32_t i = 0; i < rank - 2; i++)
    length += snprintf(perm + length, sizeof perm - (size_t)length, "%d, ", i);
  perm[length] = 0;
  if (rank < 2) {
    tn_lower_fail(lower, "input `X` has %d axes: expected at least 2", (int)rank);
    return;
  }
  tn_ref_t *wide = tn_lower_run(lower, TN_REFS(lower->inputs[0]), "cast(a, to='f64')");
  tn_ref_t *det = tn_lower_run(lower, TN_REFS(wide), "det(a)");
  tn_ref_t *cofactors =
      tn_lower_run(lower, TN_REFS(wide, det), "det_backward(expand(1:a, shape(b)), a)");
  lower->outputs[0] =
      tn_lower_run(lower, TN_REFS(cofactors, det, lower->inputs[0]),
                   "cast_like(div(transpose(a, perm=[%s%d, %d]), unsqueeze(b, [-2, -1]:i64)), c)",
                   perm, (int)rank - 1, (int)rank - 2);
}

/* clang-format off */
static const tn_lowering_t lowerings[] = {
  {"UnfoldTensor(x)", 1, lower_unfold},
  {"NGramRepeatBlock(ids, scores)", 1, lower_repeat_block},
  {"CropAndResize(x, rois, batch, size)", 1, lower_crop},
  {"Inverse(x)", 1, lower_inverse},
};
/* clang-format on */

TN_LOWERINGS(tn_lowerings_contrib_windows, "com.microsoft");
