/* Joins and rearranges tensors in blocks: concat, tile, depth_to_space, space_to_depth. Each kernel
 * only states the extents and strides of both sides; core_move() copies.
 * Invariant: every element of the result is written exactly once. */
#include "axes.h"
#include "copy.h"
#include "window.h"

/* concat */

/* Keeps the result channels-last if all tensors are. */
static void keep_channels_last(tenon_infer_t *infer, const tenon_meta_t *list, tenon_meta_t *out) {
  for (uint32_t i = 0; i < list->count; i++)
    if (!core_is_channels_last(list->items[i])) return;
  core_channels_last(infer, out);
}

static tenon_status_t concat_infer(tenon_infer_t *infer) {
  const tenon_meta_t *list = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  int32_t axis = 0;
  uint32_t known = 0;
  if (list->count == 0)
    return tenon_fail(infer, TENON_INVALID,
                      "concat needs at least one tensor, but the list is empty");
  const tenon_meta_t *first = list->items[0];
  TENON_TRY(axis_wrap(infer, infer->attrs[0].as.i, first->ndim, &axis));
  out_like(out, first);
  for (uint32_t i = 0; i < list->count; i++) {
    const tenon_meta_t *x = list->items[i];
    for (int32_t j = 0; j < x->ndim || x->ndim != first->ndim; j++) {
      if (x->ndim != first->ndim || (j != axis && dim_differ(x->dims[j], out->dims[j])))
        return tenon_fail(
            infer, TENON_INVALID, "tensor %u, %s, differs from %s in more than axis %d", i,
            dims_text(x->dims, x->ndim).text, dims_text(first->dims, first->ndim).text, axis);
      if (i && j == axis) out->dims[j] = dim_add(infer, out->dims[j], x->dims[j]);
      if (i && j != axis)
        out->dims[j] = tenon_dim(infer, TENON_DIM_EQUAL, out->dims[j], x->dims[j]);
    }
    known += x->ndim == 1 && (x->values || dim_is(x->dims[0], 0));
  }
  keep_channels_last(infer, list, out);
  if (known < list->count || !tenon_is_known(out->dims[0]) || out->dims[0].value > VALUES_MAX)
    return TENON_OK;
  for (uint32_t i = 0; i < list->count; i++)
    for (int64_t j = 0; j < list->items[i]->dims[0].value; j++)
      out->values[out->value_count++] = list->items[i]->values[j];
  return TENON_OK;
}

/* Whether x is in its place already: plans place tensors in the result (graph/concat_place.c). */
static int is_in_place(const tenon_tensor_t *x, const tenon_tensor_t *out, int64_t offset) {
  if (x->dtype.bits < 8) return 0;
  const char *place = (const char *)out->data + out->byte_offset + offset * element_size(out);
  int is_same = (const char *)x->data + x->byte_offset == place;
  for (int32_t j = 0; j < out->ndim; j++)
    is_same &= x->shape[j] <= 1 || x->strides[j] == out->strides[j];
  return is_same;
}

static tenon_status_t concat_run(tenon_call_t *call) {
  const tenon_tensor_t *list = call->inputs[0];
  tenon_tensor_t *out = call->outputs[0];
  int32_t axis = 0;
  int64_t begin = 0;
  move_t move;
  TENON_TRY(axis_wrap(call, call->attrs[0].as.i, out->ndim, &axis));
  for (int64_t i = 0; i < list->shape[0]; i++) {
    const tenon_tensor_t *x = tenon_item(list, i);
    move_begin(&move, out, x);
    move.to_offset = begin * out->strides[axis];
    for (int32_t j = 0; j < out->ndim; j++)
      move_axis(&move, x->shape[j], x->strides[j], out->strides[j]);
    if (!is_in_place(x, out, move.to_offset)) TENON_TRY(core_move(call, &move));
    begin += x->shape[axis];
  }
  return TENON_OK;
}

/* tile */

static tenon_status_t tile_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  ints_t repeats;
  TENON_TRY(ints_read(infer, 1, &repeats));
  if (repeats.count >= 0 && repeats.count != x->ndim)
    return tenon_fail(infer, TENON_INVALID,
                      "repeats has %d numbers for a tensor of rank %d; they must be equal",
                      repeats.count, x->ndim);
  if (!repeats.known) return out_unknown(infer, out, x->ndim);
  out->ndim = x->ndim;
  for (int32_t i = 0; i < x->ndim; i++) {
    if (tenon_is_known(repeats.at[i]) && repeats.at[i].value < 0)
      return tenon_fail(infer, TENON_INVALID, "repeats[%d] is %" PRId64, i, repeats.at[i].value);
    out->dims[i] = dim_mul(infer, x->dims[i], repeats.at[i]);
  }
  return TENON_OK;
}

static tenon_status_t tile_run(tenon_call_t *call) {
  tenon_tensor_t *x = call->inputs[0];
  tenon_tensor_t *out = call->outputs[0];
  move_t move;
  move_begin(&move, out, x);
  for (int32_t i = 0; i < x->ndim; i++) {
    int64_t repeats = x->shape[i] ? out->shape[i] / x->shape[i] : 0;
    move_axis(&move, repeats, 0, x->shape[i] * out->strides[i]);
    move_axis(&move, x->shape[i], x->strides[i], out->strides[i]);
  }
  return core_move(call, &move);
}

/* depth_to_space, space_to_depth */

static tenon_status_t blocks_check(tenon_infer_t *infer, int64_t block) {
  const tenon_meta_t *x = infer->inputs[0];
  if (x->ndim != 4)
    return tenon_fail(infer, TENON_INVALID,
                      "x has rank %d; expected [batch, channel, height, width]", x->ndim);
  if (block < 1 || block > INT32_MAX)
    return tenon_fail(infer, TENON_INVALID, "block is %" PRId64, block);
  infer->outputs[0]->ndim = 4;
  infer->outputs[0]->dims[0] = x->dims[0];
  return TENON_OK;
}

static tenon_status_t check_divisible(tenon_infer_t *infer, int32_t axis, int64_t by) {
  tenon_dim_t d = infer->inputs[0]->dims[axis];
  if (tenon_is_known(d) && d.value % by)
    return tenon_fail(infer, TENON_INVALID,
                      "extent %" PRId64 " of axis %d is not a multiple of %" PRId64, d.value, axis,
                      by);
  infer->outputs[0]->dims[axis] = tenon_dim(infer, TENON_DIM_DIV, d, tenon_extent(by));
  return TENON_OK;
}

static tenon_status_t to_space_infer(tenon_infer_t *infer) {
  int64_t block = infer->attrs[0].as.i;
  TENON_TRY(blocks_check(infer, block));
  TENON_TRY(check_divisible(infer, 1, block * block));
  for (int32_t i = 2; i < 4; i++)
    infer->outputs[0]->dims[i] = dim_mul(infer, infer->inputs[0]->dims[i], tenon_extent(block));
  return TENON_OK;
}

static tenon_status_t to_depth_infer(tenon_infer_t *infer) {
  int64_t block = infer->attrs[0].as.i;
  TENON_TRY(blocks_check(infer, block));
  infer->outputs[0]->dims[1] =
      dim_mul(infer, infer->inputs[0]->dims[1], tenon_extent(block * block));
  TENON_TRY(check_divisible(infer, 2, block));
  return check_divisible(infer, 3, block);
}

/* Copies between [batch, channel and position within a block, height, width] and [batch, channel,
 * height, width]; the operators differ only in which of the two is the result. With CRD the channel
 * is the slowest of the three, with DCR it is not. */
static tenon_status_t blocks_move(tenon_call_t *call, const tenon_tensor_t *deep,
                                  const tenon_tensor_t *wide, int to_depth) {
  int64_t block = call->attrs[0].as.i;
  int64_t channels = wide->shape[1];
  int channel_first = (int)call->attrs[1].as.i;
  int64_t place = (channel_first ? 1 : channels) * deep->strides[1];
  int64_t channel = (channel_first ? block * block : 1) * deep->strides[1];
  const int64_t extent[6] = {wide->shape[0], channels,       deep->shape[2],
                             block,          deep->shape[3], block};
  const int64_t deep_strides[6] = {deep->strides[0], channel,          deep->strides[2],
                                   block * place,    deep->strides[3], place};
  const int64_t wide_strides[6] = {wide->strides[0],         wide->strides[1],
                                   block * wide->strides[2], wide->strides[2],
                                   block * wide->strides[3], wide->strides[3]};
  move_t move;
  move_begin(&move, call->outputs[0], call->inputs[0]);
  for (int i = 0; i < 6; i++)
    if (to_depth)
      move_axis(&move, extent[i], wide_strides[i], deep_strides[i]);
    else
      move_axis(&move, extent[i], deep_strides[i], wide_strides[i]);
  return core_move(call, &move);
}

static tenon_status_t to_space_run(tenon_call_t *call) {
  return blocks_move(call, call->inputs[0], call->outputs[0], 0);
}
static tenon_status_t to_depth_run(tenon_call_t *call) {
  return blocks_move(call, call->outputs[0], call->inputs[0], 1);
}

/* clang-format off */
TENON_ITEMS(core_join,
  TENON_OP("concat(Tensor[] xs, *, int axis) -> Tensor",
    TENON_DOC("Concatenates tensors along an axis. "
              "The result lies channels-last in memory if all tensors do."),
    TENON_TYPES("xs: any; out = xs"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(concat_infer),
    TENON_GRADIENT("xs: core::concat_backward(grad, xs, axis=axis)"),
    TENON_KERNEL("cpu strided", concat_run)),
  TENON_OP("tile(Tensor x, Tensor @host repeats) -> Tensor",
    TENON_DOC("Repeats the tensor along each axis."),
    TENON_TYPES("x: any; repeats: i64|i32; out = x"),
    TENON_WHERE("repeats: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(tile_infer),
    TENON_GRADIENT("x: core::tile_backward(grad, core::shape(x))"),
    TENON_KERNEL("cpu strided", tile_run)),
  TENON_OP("depth_to_space(Tensor x, *, int block, str['DCR', 'CRD'] mode='DCR') -> Tensor",
    TENON_DOC("Rearranges blocks of channels into squares of pixels."),
    TENON_TYPES("x: any; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(to_space_infer),
    TENON_GRADIENT("x: core::space_to_depth(grad, block=block, mode=mode)"),
    TENON_KERNEL("cpu strided", to_space_run)),
  TENON_OP("space_to_depth(Tensor x, *, int block, str['DCR', 'CRD'] mode='DCR') -> Tensor",
    TENON_DOC("Rearranges squares of pixels into blocks of channels."),
    TENON_TYPES("x: any; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(to_depth_infer),
    TENON_GRADIENT("x: core::depth_to_space(grad, block=block, mode=mode)"),
    TENON_KERNEL("cpu strided", to_depth_run)))
/* clang-format on */
