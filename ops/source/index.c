/* gather_nd, scatter_nd and scatter_elements, for devices that compile. If updates meet at one
 * element, sums are complete, in any order; without a reduction, any of them may remain. An index
 * out of range is skipped by scatters and reads 0 in gathers.
 * Invariant: an index is checked before it is used. */
#ifndef TENON_ON_DEVICE
#include "launch.h"
#endif

typedef struct tuple_t {
  int64_t depth;
  int64_t step;
  int64_t extents[8];
  int64_t strides[8]; /* step: distance between the indices of a tuple */
} tuple_t;

#define NOWHERE (-((int64_t)1 << 62))
#define DEFINE_PLACE(m)                                                                            \
  FUNCTION int64_t place_##m(GLOBAL const int##m##_t *indices,                                     \
                             const tuple_t *t) { /* NOWHERE if out of range */                     \
    int64_t place = 0;                                                                             \
    for (int64_t d = 0; d < t->depth; d++) {                                                       \
      int64_t index = indices[d * t->step];                                                        \
      index += index < 0 ? t->extents[d] : 0;                                                      \
      if (index < 0 || index >= t->extents[d]) return NOWHERE;                                     \
      place += index * t->strides[d];                                                              \
    }                                                                                              \
    return place;                                                                                  \
  }
DEFINE_PLACE(32)
DEFINE_PLACE(64)
#define SIZES(X) X(8) X(16) X(32) X(64)
#define STORE(p, v) *(p) = v
/* Tensors of the walks: indices, updates or result, and the tensor that is written or read. */
#define DEFINE_SCATTER(name, T, m, APPLY)                                                          \
  TENON_SOURCE_5(name, IN, int##m##_t, indices, IN, T, updates, INOUT, T, out, VALUE,              \
                 tenon_walk_t, walk, VALUE, tuple_t, t) {                                          \
    int64_t at[4];                                                                                 \
    TENON_EACH(i, walk.count) {                                                                    \
      tenon_walk(&walk, i, at);                                                                    \
      int64_t place = place_##m(indices + at[0], &t);                                              \
      if (place != NOWHERE) APPLY(out + at[2] + place, updates[at[1]]);                            \
    }                                                                                              \
  }
#define DEFINE_GATHER(n, m)                                                                        \
  TENON_SOURCE_5(gather_##n##_##m, IN, int##m##_t, indices, OUT, uint##n##_t, out, IN,             \
                 uint##n##_t, x, VALUE, tenon_walk_t, walk, VALUE, tuple_t, t) {                   \
    int64_t at[4];                                                                                 \
    TENON_EACH(i, walk.count) {                                                                    \
      tenon_walk(&walk, i, at);                                                                    \
      int64_t place = place_##m(indices + at[0], &t);                                              \
      uint##n##_t found = 0;                                                                       \
      if (place != NOWHERE) found = x[at[2] + place];                                              \
      out[at[1]] = found;                                                                          \
    }                                                                                              \
  }
#define DEFINE_OF_SIZE(n)                                                                          \
  DEFINE_GATHER(n, 32)                                                                             \
  DEFINE_GATHER(n, 64)                                                                             \
  DEFINE_SCATTER(scatter_##n##_32, uint##n##_t, 32, STORE)                                         \
  DEFINE_SCATTER(scatter_##n##_64, uint##n##_t, 64, STORE)
SIZES(DEFINE_OF_SIZE)
DEFINE_SCATTER(add_f32_32, float, 32, atomic_add_f32)
DEFINE_SCATTER(add_f32_64, float, 64, atomic_add_f32)
DEFINE_SCATTER(add_i32_32, int32_t, 32, atomic_add_i32)
DEFINE_SCATTER(add_i32_64, int32_t, 64, atomic_add_i32)

#ifndef TENON_ON_DEVICE
#define NUMBERS(n) K_gather_##n##_32, K_gather_##n##_64, K_scatter_##n##_32, K_scatter_##n##_64,
enum { SIZES(NUMBERS) K_add_f32_32, K_add_f32_64, K_add_i32_32, K_add_i32_64, PER_SIZE = 4 };
#define KERNELS(n)                                                                                 \
  {"gather_" #n "_32", gather_##n##_32}, {"gather_" #n "_64", gather_##n##_64},                    \
      {"scatter_" #n "_32", scatter_##n##_32}, {"scatter_" #n "_64", scatter_##n##_64},
/* clang-format off */
TENON_CODE(core_source_index_code,
  SIZES(KERNELS) {"add_f32_32", add_f32_32},
  {"add_f32_64", add_f32_64},
  {"add_i32_32", add_i32_32},
  {"add_i32_64", add_i32_64})
/* clang-format on */

enum { NONE, ADD };

typedef struct job_t { /* how the axes of a walk map to the three tensors */
  int32_t rank;
  const int64_t *shape;
  const tenon_tensor_t *indices;
  const tenon_tensor_t *flow;
  const tenon_tensor_t *target; /* flow: updates or result */
  int64_t strides[3][TENON_RANK_MAX];
  tuple_t tuple;
} job_t;

static tenon_status_t kernel_of(tenon_call_t *call, const tenon_tensor_t *t, int is_gather,
                                int64_t reduction, uint32_t *out_kernel) {
  uint32_t bits = (uint32_t)(t->dtype.bits * t->dtype.lanes);
  uint32_t id = tenon_dtype_id(t->dtype);
  uint32_t size = size_log2(bits);
  if (reduction == ADD && id == TENON_F32) {
    *out_kernel = K_add_f32_32;
    return TENON_OK;
  }
  if (reduction == ADD && id == TENON_I32) {
    *out_kernel = K_add_i32_32;
    return TENON_OK;
  }
  if (reduction != NONE)
    return DECLINE(call, "the source kernel adds f32 and i32 and has no other reduction");
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
    return DECLINE(call, "the source kernel moves elements of 1, 2, 4 or 8 bytes");
  *out_kernel = (is_gather ? K_gather_8_32 : K_scatter_8_32) + PER_SIZE * size;
  return TENON_OK;
}

static tenon_status_t enqueue_index_kernel(tenon_call_t *call, job_t *job, int is_gather,
                                           int64_t reduction) {
  const tenon_tensor_t *given[3] = {job->indices, job->flow, job->target};
  tenon_tensor_t views[3] = {*given[0], *given[1], *given[2]};
  const tenon_tensor_t *const tensors[3] = {&views[0], &views[1], &views[2]};
  uint32_t kernel = 0;
  tenon_walk_t walk;
  for (int k = 0; k < 3; k++) {
    views[k].ndim = job->rank;
    views[k].shape = (int64_t *)(uintptr_t)job->shape;
    views[k].strides = job->strides[k];
  }
  TENON_TRY(kernel_of(call, job->target, is_gather, reduction, &kernel));
  if (job->tuple.depth > 8 || !tenon_walk_of(&walk, job->rank, job->shape, tensors, 3))
    return DECLINE(call, "the source kernel supports at most eight axes that do not merge");
  for (int k = 0; k < 3; k++)
    walk.first[k] = below(given[k]);
  tenon_kernel_argument_t arguments[] = {tenon_in(job->indices), tenon_in(job->flow),
                                         tenon_inout(job->target), TENON_VALUE(walk),
                                         TENON_VALUE(job->tuple)};
  if (is_gather) {
    arguments[1] = tenon_out(job->flow);
    arguments[2] = tenon_in(job->target);
  }
  return tenon_each(call, &core_source_index_code, kernel + (job->indices->dtype.bits == 64),
                    walk.count, arguments, 5);
}

/* Tuples run along the last axis of the indices; the first `batch` axes are also those of
 * `target`. */
static tenon_status_t by_tuples(tenon_call_t *call, const tenon_tensor_t *flow,
                                const tenon_tensor_t *target, int32_t batch, int is_gather,
                                int64_t reduction) {
  const tenon_tensor_t *indices = call->inputs[1];
  int32_t lead = indices->ndim - 1;
  int32_t depth = (int32_t)indices->shape[lead];
  job_t job = {
      .rank = flow->ndim, .shape = flow->shape, .indices = indices, .flow = flow, .target = target};
  job.tuple.depth = depth;
  job.tuple.step = indices->strides[lead];
  for (int32_t d = 0; d < depth && d < 8; d++) {
    job.tuple.extents[d] = target->shape[batch + d];
    job.tuple.strides[d] = target->strides[batch + d];
  }
  for (int32_t i = 0; i < flow->ndim; i++) {
    job.strides[0][i] = i < lead ? indices->strides[i] : 0;
    job.strides[1][i] = flow->strides[i];
    job.strides[2][i] = 0;
    if (i < batch) job.strides[2][i] = target->strides[i];
    if (i >= batch && i >= lead) job.strides[2][i] = target->strides[batch + depth + i - lead];
  }
  return enqueue_index_kernel(call, &job, is_gather, reduction);
}

static tenon_status_t gather_nd_run(tenon_call_t *call) {
  return by_tuples(call, call->outputs[0], call->inputs[0], (int32_t)call->attrs[0].as.i, 1, NONE);
}

/* The result starts as a copy of x, unless it uses the memory of x. */
static tenon_status_t start_from_x(tenon_call_t *call, int64_t reduction) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *out = call->outputs[0];
  uint32_t kernel;
  TENON_TRY(kernel_of(call, out, 0, reduction, &kernel)); /* declines before anything is enqueued */
  if (x->data == out->data && x->byte_offset == out->byte_offset) return TENON_OK;
  return core_source_copy(call, x, call->outputs[0]);
}

static tenon_status_t scatter_nd_run(tenon_call_t *call) {
  TENON_TRY(start_from_x(call, call->attrs[0].as.i));
  return by_tuples(call, call->inputs[2], call->outputs[0], 0, 0, call->attrs[0].as.i);
}

static tenon_status_t scatter_elements_run(tenon_call_t *call) {
  const tenon_tensor_t *indices = call->inputs[1];
  const tenon_tensor_t *updates = call->inputs[2];
  const tenon_tensor_t *out = call->outputs[0];
  int64_t axis = call->attrs[0].as.i;
  job_t job = {.rank = updates->ndim,
               .shape = updates->shape,
               .indices = indices,
               .flow = updates,
               .target = out};
  axis += axis < 0 ? out->ndim : 0;
  TENON_TRY(start_from_x(call, call->attrs[1].as.i));
  job.tuple.depth = 1;
  job.tuple.extents[0] = out->shape[axis];
  job.tuple.strides[0] = out->strides[axis];
  for (int32_t i = 0; i < updates->ndim; i++) {
    job.strides[0][i] = indices->strides[i];
    job.strides[1][i] = updates->strides[i];
    job.strides[2][i] = i == axis ? 0 : out->strides[i];
  }
  return enqueue_index_kernel(call, &job, 0, call->attrs[1].as.i);
}

/* clang-format off */
TENON_ITEMS(core_source_index,
  TENON_EXTEND("core::gather_nd", TENON_SOURCE("strided", gather_nd_run)),
  TENON_EXTEND("core::scatter_nd", TENON_SOURCE("strided", scatter_nd_run)),
  TENON_EXTEND("core::scatter_elements", TENON_SOURCE("strided", scatter_elements_run)))
/* clang-format on */
#endif
