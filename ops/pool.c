/* max_pool, average_pool, lp_pool and their global forms: one pass of windows over an input with
 * any strides. A thread processes up to POOL_LANES neighbours at once: channels if they are the
 * innermost axis, otherwise positions along the last axis; or rows, or planes (pool_run.h).
 * Invariant: the result is channels-last if the input is. */
#include "axes.h"
#include "copy.h"
#include "dense.h"
#include "pool_run.h"
#include <string.h>

/* A part is (image, position or row of positions, block of channels or channel). */
static tenon_status_t window_rows_run(tenon_call_t *call, void *argument, int64_t begin,
                                      int64_t end) {
  const pool_t *pool = (const pool_t *)argument;
  const window_t *w = &pool->window;
  int64_t channels = pool->x->shape[1];
  int64_t row = w->out[w->rank - 1];
  int64_t o[SPATIAL_MAX];
  int64_t step = pool->by_channel ? POOL_LANES : 1;
  int64_t blocks = (channels - 1) / step + 1;
  int64_t positions = window_size(w->out, w->rank) / (pool->by_channel ? 1 : row);
  (void)call;
  for (int64_t part = begin; part < end; part++) {
    int64_t channel = part % blocks * step;
    int64_t rest = part / blocks % positions;
    int64_t image = part / blocks / positions;
    int32_t i = w->rank - 1;
    if (!pool->by_channel) o[i--] = 0;
    for (; i >= 0; i--) {
      o[i] = rest % w->out[i];
      rest /= w->out[i];
    }
    if (pool->line) {
      core_pool_line_run(pool, image, channel, o);
      continue;
    }
    if (pool->by_channel) {
      core_pool_lanes_run(pool, image, channel, o,
                          channels - channel < POOL_LANES ? channels - channel : POOL_LANES);
      continue;
    }
    for (int64_t at = 0; at < row; at += POOL_LANES) {
      o[w->rank - 1] = at;
      core_pool_lanes_run(pool, image, channel, o, row - at < POOL_LANES ? row - at : POOL_LANES);
    }
  }
  return TENON_OK;
}

/* Sets the window of a global pool, which covers all positions of x. */
static void cover_positions(pool_t *pool) {
  static const tenon_value_t none[4] = {{TENON_KIND_NONE, 0, {0}}};
  window_args_t args = window_args(none, 0);
  core_window_set(&pool->window, &args, pool->x->ndim - 2, pool->x->shape + 2, pool->x->shape + 2,
                  pool->out->shape + 2);
}

/* Makes the spatial axes of a global pool one axis, if x has its positions at equal distances. */
static void merge_positions(pool_t *pool) {
  const tenon_tensor_t *sides[2] = {pool->x, pool->out};
  const int32_t last = pool->x->ndim - 1;
  for (int32_t i = 2; i < last; i++)
    if (pool->x->strides[i] != pool->x->shape[i + 1] * pool->x->strides[i + 1]) return;
  for (int s = 0; s < 2; s++) {
    int64_t *shape = pool->merged_shapes[s];
    pool->merged[s] = *sides[s];
    pool->merged[s].ndim = 3;
    pool->merged[s].shape = memcpy(shape, sides[s]->shape, 2 * sizeof *shape);
    pool->merged[s].strides = memcpy(pool->merged_strides[s], sides[s]->strides, 2 * sizeof *shape);
    shape[2] = window_size(sides[s]->shape + 2, last - 1);
    pool->merged_strides[s][2] = sides[s]->strides[last];
  }
  pool->x = &pool->merged[0];
  pool->out = &pool->merged[1];
  cover_positions(pool);
}

/* Whether a tensor of f16 or bf16 lies channels-last: its f32 then lies so, too. */
static int is_narrow_last(const tenon_tensor_t *t) {
  return (core_is(t, TENON_F16) || core_is(t, TENON_BF16)) && core_lies_last(t);
}

static tenon_status_t copy_last(tenon_call_t *call, tenon_tensor_t *to, const tenon_tensor_t *t) {
  move_t move;
  move_begin(&move, to, t);
  for (int32_t i = 0; i < t->ndim; i++)
    move_axis(&move, t->shape[i], t->strides[i], to->strides[i]);
  return core_move(call, &move);
}

/* A tensor of f32 that lies as the given one, which has no gaps. NULL: memory is short. */
static tenon_tensor_t *place_last(tenon_call_t *call, const tenon_tensor_t *t) {
  tenon_tensor_t *wide = call->host->temporary(call, tenon_dtype(TENON_F32), t->ndim, t->shape);
  for (int32_t i = 0; wide && i < t->ndim; i++)
    wide->strides[i] = t->strides[i];
  return wide;
}

/* Sets x and out to tensors of the dtype in which the pool is computed. */
static tenon_status_t place_tensors(tenon_call_t *call, pool_t *pool) {
  tenon_tensor_t *x = call->inputs[0];
  tenon_tensor_t *out = call->outputs[0];
  tenon_dtype_t dtype = x->dtype;
  if (dtype.bits == 16 && dtype.code != (TENON_I16 & 0xff) && dtype.code != (TENON_U16 & 0xff))
    dtype = tenon_dtype(TENON_F32);
  pool->x = is_narrow_last(x) ? place_last(call, x) : core_as(call, x, dtype);
  pool->out = is_narrow_last(out) ? place_last(call, out) : core_place(call, out, dtype);
  if (!pool->x || !pool->out) return TENON_MEMORY;
  return is_narrow_last(x) ? copy_last(call, pool->x, x) : TENON_OK;
}

static tenon_status_t run_windows(tenon_call_t *call, pool_t *pool, int kind) {
  tenon_tensor_t *result = call->outputs[0];
  if (tenon_count(result) == 0) return TENON_OK;
  TENON_TRY(place_tensors(call, pool));
  tenon_tensor_t *placed = pool->out;
  if (pool->is_global) cover_positions(pool);
  if (pool->is_global) merge_positions(pool);
  core_pool_choose_taps(pool, kind);
  int64_t row = pool->window.out[pool->window.rank - 1];
  TENON_TRY(core_pool_choose_lines(call, pool, kind));
  pool->by_channel = !pool->line && !pool->plane && (pool->x->strides[1] == 1 || row < 8);
  if (pool->is_global && kind == POOL_AVERAGE && core_is(pool->x, TENON_F32) &&
      pool->x->ndim == 3 && pool->x->strides[1] == 1)
    pool->sum = core_pool_sum_of_isa();
  int64_t step = pool->by_channel ? POOL_LANES : 1;
  int64_t blocks = (pool->x->shape[1] - 1) / step + 1;
  int64_t positions =
      window_size(pool->window.out, pool->window.rank) / (pool->by_channel ? 1 : row);
  int64_t work = pool->by_channel ? POOL_LANES : row;
  for (int32_t i = 0; i < pool->window.rank && work < 1 << 15; i++)
    work *= pool->window.kernel[i];
  int64_t grain =
      work < 1 << 15 ? (1 << 15) / (work + 1) + 1 : 1; /* a window without elements is no work */
  const int64_t planes = pool->x->shape[0] * pool->x->shape[1];
  if (pool->plane)
    TENON_TRY(call->host->parallel(call, planes, 1 + grain / pool->window.out[0],
                                   core_pool_planes_run, pool));
  else
    TENON_TRY(call->host->parallel(call, pool->x->shape[0] * positions * blocks, grain,
                                   pool->line && pool->rows ? core_pool_rows_run : window_rows_run,
                                   pool));
  return is_narrow_last(result) ? copy_last(call, result, placed)
                                : core_settle(call, result, placed);
}

tenon_status_t core_max_pool_run(tenon_call_t *call) {
  pool_t pool = {.indices = call->outputs[1], .column_major = call->attrs[POOL_MORE].as.i != 0};
  tenon_status_t status;
  if (core_max_pool_indices_run(call, &status)) return status;
  pool_window(call, &pool.window);
  return run_windows(call, &pool, POOL_MAX);
}

tenon_status_t core_average_pool_run(tenon_call_t *call) {
  pool_t pool = {.include_pad = call->attrs[POOL_MORE].as.i != 0};
  pool_window(call, &pool.window);
  return run_windows(call, &pool, POOL_AVERAGE);
}

static tenon_status_t lp_pool_run(tenon_call_t *call) {
  pool_t pool = {.p = call->attrs[POOL_MORE].as.f};
  pool_window(call, &pool.window);
  return run_windows(call, &pool, POOL_LP);
}

static tenon_status_t global_run(tenon_call_t *call, int kind, double p) {
  pool_t pool = {.p = p, .is_global = 1};
  return run_windows(call, &pool, kind);
}

static tenon_status_t global_max_run(tenon_call_t *call) { return global_run(call, POOL_MAX, 0); }
static tenon_status_t global_average_run(tenon_call_t *call) {
  return global_run(call, POOL_AVERAGE, 0);
}
static tenon_status_t global_lp_run(tenon_call_t *call) {
  return global_run(call, POOL_LP, call->attrs[0].as.f);
}

/* shapes */

static tenon_status_t rank_check(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  if (x->ndim < 3)
    return tenon_fail(infer, TENON_INVALID,
                      "x has %d axes; expected batch, channels and at least one spatial axis",
                      x->ndim);
  out->ndim = x->ndim;
  out->dims[0] = x->dims[0];
  out->dims[1] = x->dims[1];
  return TENON_OK;
}

tenon_status_t core_pool_infer(tenon_infer_t *infer, int32_t rank, const tenon_dim_t *in,
                               tenon_dim_t *out) {
  const tenon_value_t *kernel = &infer->attrs[POOL_KERNEL];
  window_args_t args = window_args(infer->attrs + POOL_WINDOW, infer->attrs[POOL_CEIL].as.i != 0);
  tenon_dim_t window[SPATIAL_MAX];
  if (kernel->count != (uint32_t)rank)
    return tenon_fail(infer, TENON_INVALID, "kernel lists %u extents, but x has %d spatial axes",
                      kernel->count, rank);
  for (uint32_t i = 0; i < kernel->count; i++) {
    if (kernel->as.ints[i] < 1 || kernel->as.ints[i] > INT32_MAX)
      return tenon_fail(infer, TENON_INVALID, "kernel[%u] is %" PRId64 "; expected 1 to %d", i,
                        kernel->as.ints[i], INT32_MAX);
    window[i] = tenon_extent(kernel->as.ints[i]);
  }
  return core_window_infer(infer, &args, rank, in, window, out);
}

tenon_status_t core_pool_result_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  TENON_TRY(rank_check(infer));
  TENON_TRY(core_pool_infer(infer, x->ndim - 2, x->dims + 2, out->dims + 2));
  if (core_is_channels_last(x)) core_channels_last(infer, out);
  return TENON_OK;
}

static tenon_status_t max_pool_infer(tenon_infer_t *infer) {
  TENON_TRY(core_pool_result_infer(infer));
  return infer->outputs[1] ? out_like(infer->outputs[1], infer->outputs[0]) : TENON_OK;
}

static tenon_status_t global_infer(tenon_infer_t *infer) {
  tenon_meta_t *out = infer->outputs[0];
  TENON_TRY(rank_check(infer));
  for (int32_t i = 2; i < out->ndim; i++)
    out->dims[i] = tenon_extent(1);
  return TENON_OK;
}

static tenon_status_t p_validate(tenon_node_t *node, double p) {
  if (!(p > 0))
    return tenon_fail(node, TENON_INVALID, "p is %g; expected a number greater than 0", p);
  return TENON_OK;
}
static tenon_status_t lp_validate(tenon_node_t *node) {
  return p_validate(node, node->attrs[POOL_MORE].as.f);
}
static tenon_status_t global_lp_validate(tenon_node_t *node) {
  return p_validate(node, node->attrs[0].as.f);
}

/* clang-format off */
/* The greatest element; equal elements share its gradient. */
#define IS_MOST "core::cast_like(core::equal(x, out), x)"
/* |x|^(p - 1) divided by norm^(p - 1), with the sign of x; 0 if all elements are 0. */
#define SHARE_OF_NORM                                                                              \
  "core::mul(core::sign(x), core::pow(core::div(core::abs(x), core::where(core::equal(out, 0.0), " \
  "1.0, out)), core::sub(p, 1.0)))"
#define GLOBAL(name, arguments, doc, types, kernel, ...)                                           \
  TENON_OP(name "(Tensor x" arguments ") -> Tensor",                                               \
    TENON_DOC(doc " over all positions of each channel of x [N, C, spatial...]."),                 \
    TENON_TYPES("x: " types "; out = x"),                                                          \
    TENON_TRAITS(TENON_PURE),                                                                      \
    TENON_USES(DENSE_USES),                                                                        \
    TENON_INFER(global_infer),                                                                     \
    __VA_ARGS__ TENON_KERNEL("cpu strided", kernel))

TENON_ITEMS(core_pool,
  TENON_OP("max_pool(Tensor x, *, " POOL_ARGUMENTS
           ", int storage_order=0) -> (Tensor out, Tensor? indices)",
    TENON_DOC("The greatest element of each window, and its index in x viewed as one row of "
              "numbers.\nstorage_order 1 counts the spatial positions of a channel with the first "
              "axis innermost."),
    TENON_TYPES("x: number; out = x; indices = i64"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(DENSE_USES),
    TENON_INFER(max_pool_infer),
    TENON_GRADIENT("x: core::max_pool_backward(grad, indices, core::shape(x), "
                   "storage_order=storage_order)"),
    TENON_KERNEL("cpu strided", core_max_pool_run)),
  TENON_OP("average_pool(Tensor x, *, " POOL_ARGUMENTS ", bool count_include_pad=False) -> Tensor",
    TENON_DOC("The mean of each window."),
    TENON_TYPES("x: float; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(DENSE_USES),
    TENON_INFER(core_pool_result_infer),
    TENON_GRADIENT("x: core::average_pool_backward(grad, core::shape(x), " POOL_PASSED
                   ", count_include_pad=count_include_pad)"),
    TENON_KERNEL("cpu strided", core_average_pool_run)),
  TENON_OP("lp_pool(Tensor x, *, " POOL_ARGUMENTS ", float p=2.0) -> Tensor",
    TENON_DOC("The p-norm of each window."),
    TENON_TYPES("x: float; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(DENSE_USES),
    TENON_VALIDATE(lp_validate),
    TENON_INFER(core_pool_result_infer),
    TENON_GRADIENT("x: core::lp_pool_backward(grad, x, out, " POOL_PASSED ", p=p)"),
    TENON_KERNEL("cpu strided", lp_pool_run)),
  GLOBAL("global_max_pool", "", "The greatest element", "number", global_max_run,
         TENON_GRADIENT("x: core::mul(" IS_MOST ", core::div(grad, core::sum_to(" IS_MOST
                        ", core::shape(out))))"), ),
  GLOBAL("global_average_pool", "", "The mean", "float", global_average_run,
         TENON_GRADIENT("x: core::expand(core::div(grad, core::size_ratio(x, out)), "
                        "core::shape(x))"), ),
  GLOBAL("global_lp_pool", ", *, float p=2.0", "The p-norm", "float", global_lp_run,
         TENON_VALIDATE(global_lp_validate),
         TENON_GRADIENT("x: core::mul(grad, " SHARE_OF_NORM ")"), ))
/* clang-format on */
