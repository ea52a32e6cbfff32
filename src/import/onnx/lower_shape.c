/* Lowerings of operators that view, move or create data. Attributes of older operator sets that are
 * inputs in newer ones (axes, shape, pads) become constants. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "import/onnx/lower.h"
#include "operator/names.h"

static void lower_constant(tn_lower_t *lower) {
  static const char *const names[] = {"value",         "value_float", "value_floats",
                                      "value_int",     "value_ints",  "value_string",
                                      "value_strings", "sparse_value"};
  tn_ref_t *found = NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (!tn_lower_attr(lower, names[i])) continue;
    if (found) tn_lower_fail(lower, "several attributes hold a value: expected exactly one");
    if (strcmp(names[i], "value_int") != 0) {
      found = tn_lower_attr_tensor(lower, names[i]);
      continue;
    }
    /* A scalar with all 64 bits. */
    tenon_tensor_t *tensor;
    int64_t value = tn_lower_int(lower, names[i], 0);
    if (lower->status == TENON_OK)
      lower->status = tenon_tensor_create(tenon_dtype(TENON_I64), 0, NULL, &tensor);
    if (lower->status != TENON_OK) return;
    memcpy(tensor->data, &value, sizeof value);
    found = tn_lower_tensor(lower, tensor);
  }
  if (!found) tn_lower_fail(lower, "no attribute holds a value: expected exactly one");
  lower->outputs[0] = found;
}

static void lower_constant_of_shape(tn_lower_t *lower) {
  if (tn_lower_attr(lower, "value")) {
    static const tn_lowering_t lowering = {
        "ConstantOfShape(shape) = constant_of_shape(shape, value=value)", 9, NULL};
    tn_lowering_run(&lowering, lower);
    return;
  }
  lower->outputs[0] = tn_lower_run(lower, lower->inputs, 1, "constant_of_shape(a)");
  if (lower->outputs[0]) lower->outputs[0]->dtype = tenon_dtype(TENON_F32);
}

/* Crops or pads around the centre: each end of an axis loses or gains half of the difference, and
 * the end gets the odd element. */
static void lower_center_crop_pad(tn_lower_t *lower) {
  tn_ref_t *x = lower->inputs[0];
  tn_ref_t *shape = lower->inputs[1];
  tn_ref_t *axes = tn_lower_attr_tensor(lower, "axes");
  tn_ref_t *now = tn_lower_run(lower, TN_REFS(x), "shape(a)");
  if (axes) now = tn_lower_run(lower, TN_REFS(now, axes), "gather(a, b)");
  shape = tn_lower_run(lower, TN_REFS(shape), "cast(a, to='i64')");
  tn_ref_t *less = tn_lower_run(lower, TN_REFS(now, shape), "max(sub(a, b), 0:a)");
  tn_ref_t *more = tn_lower_run(lower, TN_REFS(now, shape), "max(sub(b, a), 0:a)");
  tn_ref_t *begin = tn_lower_run(lower, TN_REFS(less), "div(a, 2:a)");
  tn_ref_t *end = tn_lower_run(lower, TN_REFS(now, shape, begin), "add(c, min(a, b))");
  tn_ref_t *cut = tn_lower_run(lower, TN_REFS(x, begin, end, axes), "slice(a, b, c, d)");
  tn_ref_t *pads =
      tn_lower_run(lower, TN_REFS(more), "concat([div(a, 2:a), sub(a, div(a, 2:a))], axis=0)");
  lower->outputs[0] = tn_lower_run(lower, TN_REFS(cut, pads, axes), "pad(a, b, _, c)");
}

/* Files of pictures are read by a library of its own, companions/images.c. */
static void lower_image(tn_lower_t *lower) {
  const tenon_op_t *op = tn_registry_find("images::decode");
  tn_attr_t *format = tn_lower_attr(lower, "pixel_format");
  tenon_attrs_t *attrs = NULL;
  int32_t count = 0;
  if (!op) {
    tn_lower_missing(lower, "it needs the library companions/images.so, which is built where "
                            "libjpeg and libpng are installed: load it first (--ops)");
    return;
  }
  if (tn_lower_has_failed(lower, tenon_attrs_create(op, &attrs))) return;
  if (format) (void)tn_lower_set(lower, format, op, attrs, "pixel_format", "pixel_format");
  const tn_operand_t operand = {lower->inputs, 1, false};
  tn_ref_t **edges = tn_lower_call(lower, op, attrs, &operand, 1, &count);
  if (edges && count) lower->outputs[0] = edges[0];
  tenon_attrs_release(attrs);
}

/* clang-format off */
static const tn_lowering_t lowerings[] = {
  {"ImageDecoder(x)", 20, lower_image},
  {"Constant()", 1, lower_constant},
  {"ConstantOfShape(shape)", 9, lower_constant_of_shape},
  {"Shape(x) = shape(x, start=start, end=end)", 1, NULL},
  {"Size(x) = size(x)", 1, NULL},
  {"Reshape(x) = reshape(x, @shape)", 1, NULL},
  {"Reshape(x, shape) = reshape(x, shape, allow_zero=allowzero)", 5, NULL},
  {"Flatten(x) = flatten(x, axis=axis?1)", 1, NULL},
  {"Squeeze(x) = squeeze(x, @axes)", 1, NULL},
  {"Squeeze(x, axes?) = squeeze(x, axes)", 13, NULL},
  {"Unsqueeze(x) = unsqueeze(x, @axes)", 1, NULL},
  {"Unsqueeze(x, axes) = unsqueeze(x, axes)", 13, NULL},
  {"Transpose(x) = transpose(x, perm=perm)", 1, NULL},
  {"Expand(x, shape) = expand(x, shape)", 8, NULL},
  {"Slice(x) = slice(x, @starts, @ends, @axes)", 1, NULL},
  {"Slice(x, starts, ends, axes?, steps?) = slice(x, starts, ends, axes, steps)", 10, NULL},
  {"Split(x, sizes?) = split(x, sizes, axis=axis?0, count=#)", 1, NULL},
  {"Split(x) = split(x, @split, axis=axis?0, count=#)", 2, NULL},
  {"Split(x, sizes?) = split(x, sizes, axis=axis?0, count=#)", 13, NULL},
  {"Split(x, sizes?, -num_outputs) = split(x, sizes, axis=axis?0, count=#)", 18, NULL},
  {"Concat(*xs) = concat(xs, axis=axis?1)", 1, NULL},
  {"Concat(*xs) = concat(xs, axis=axis)", 4, NULL},
  {"Pad(x) = pad(x, @paddings, @value?0:x, mode=mode)", 1, NULL},
  {"Pad(x) = pad(x, @pads, @value?0:x, mode=mode)", 2, NULL},
  {"Pad(x, pads, value?, axes?) = pad(x, pads, value, axes, mode=mode)", 11, NULL},
  {"Tile(x, repeats) = tile(x, repeats)", 6, NULL},
  {"Range(start, limit, delta, -stash_type) = range(start, limit, delta)", 11, NULL},
  {"EyeLike(x) = eye_like(x, dtype=dtype?:x, k=k)", 9, NULL},
  {"Trilu(x, k?) = trilu(x, k, upper=upper)", 14, NULL},
  {"DepthToSpace(x) = depth_to_space(x, block=blocksize, mode=mode)", 1, NULL},
  {"SpaceToDepth(x) = space_to_depth(x, block=blocksize)", 1, NULL},
  {"ReverseSequence(x, lengths) = "
   "reverse_sequence(x, lengths, batch_axis=batch_axis?1, time_axis=time_axis?0)", 10, NULL},
  {"CenterCropPad(x, shape)", 18, lower_center_crop_pad},
  {"Col2Im(x, image_shape, block_shape) = "
   "col2im(x, image_shape, block_shape, dilations=dilations, pads=pads, "
   "strides=strides)", 18, NULL},
  {"Gather(x, indices) = gather(x, indices, axis=axis?0)", 1, NULL},
  {"GatherElements(x, indices) = gather_elements(x, indices, axis=axis?0)", 11, NULL},
  {"GatherND(x, indices) = gather_nd(x, indices, batch_dims=batch_dims)", 11, NULL},
  {"Scatter(x, indices, updates) = scatter_elements(x, indices, updates, axis=axis?0)", 9, NULL},
  {"ScatterElements(x, indices, updates) = "
   "scatter_elements(x, indices, updates, axis=axis?0, reduction=reduction)", 11, NULL},
  {"ScatterND(x, indices, updates) = "
   "scatter_nd(x, indices, updates, reduction=reduction)", 11, NULL},
  {"TensorScatter(x, update, at?) = "
   "tensor_scatter(x, update, at, axis=axis?-2, mode=mode)", 24, NULL},
  {"Compress(x, condition) = compress(x, condition, axis=axis)", 9, NULL},
  {"NonZero(x) = nonzero(x)", 9, NULL},
  {"Unique(x) = unique(x, axis=axis, sorted=sorted)", 11, NULL},
  {"OneHot(indices, depth, values) = one_hot(indices, depth, values, axis=axis?-1)", 9, NULL},
  {"TopK(x) = top_k(x, @k, axis=axis?-1)", 1, NULL},
  {"TopK(x, k) = top_k(x, k, axis=axis?-1, largest=largest, sorted=sorted)", 10, NULL},
  {"NonMaxSuppression(boxes, scores, most?, iou?, score?) = "
   "non_max_suppression(boxes, scores, most, iou, score, "
   "center_point_box=center_point_box)", 10, NULL},
  {"Upsample(x) = "
   "resize(x, _, @scales, _, mode=mode, coordinates='asymmetric', nearest='floor')", 7, NULL},
  {"Upsample(x, scales) = "
   "resize(x, _, scales, _, mode=mode, coordinates='asymmetric', nearest='floor')", 9, NULL},
  {"Resize(x, scales) = "
   "resize(x, _, scales, _, mode=mode, coordinates='asymmetric', nearest='floor')", 10, NULL},
  {"Resize(x, roi?, scales?, sizes?) = "
   "resize(x, roi, scales, sizes, mode=mode, coordinates=coordinate_transformation_mode, "
   "cubic_coeff=cubic_coeff_a?-0.75, exclude_outside=exclude_outside, "
   "extrapolation=extrapolation_value?0.0, nearest=nearest_mode, antialias=antialias, axes=axes, "
   "policy=keep_aspect_ratio_policy)", 11, NULL},
  {"GridSample(x, grid) = "
   "grid_sample(x, grid, mode=mode{bilinear: linear, bicubic: cubic}, padding=padding_mode, "
   "align_corners=align_corners)", 16, NULL},
  {"AffineGrid(theta, size) = affine_grid(theta, size, align_corners=align_corners)", 20, NULL},
  {"RoiAlign(x, rois, batch) = "
   "roi_align(x, rois, batch, mode=mode, output_height=output_height?1, "
   "output_width=output_width?1, sampling_ratio=sampling_ratio?0, spatial_scale=spatial_scale?1.0, "
   "coordinates='output_half_pixel')", 10, NULL},
  {"RoiAlign(x, rois, batch) = "
   "roi_align(x, rois, batch, mode=mode, output_height=output_height?1, "
   "output_width=output_width?1, sampling_ratio=sampling_ratio?0, spatial_scale=spatial_scale?1.0, "
   "coordinates=coordinate_transformation_mode)", 16, NULL},
};
/* clang-format on */

TN_LOWERINGS(tn_lowerings_shape, "");
