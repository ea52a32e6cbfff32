/* Checks inference of extents above 2^32, with inputs that have no memory: an extent that grows
 * linearly from 8 to 24 must continue to do so. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/scratch.h"
#include "core/tensor.h"
#include "dispatch/infer.h"
#include "inspect/example_fill.h"
#include "operator/state.h"
#include "run.h"

/* Maximum elements of inputs that get memory. */
enum {
  SMALL = 3,
  RESULTS = 16,
  REAL_MOST = 4096,
};
static const int64_t small_extents[SMALL] = {8, 16, 24};
static const int64_t huge_extent = (int64_t)1 << 33;

typedef struct inferred_t {
  int32_t ndim[RESULTS]; /* -1: unknown */
  int64_t dims[RESULTS][TENON_RANK_MAX];
} inferred_t;

/* Makes an input of the planned shape. Large inputs have no memory, because infer must not read
 * their elements. */
static bool make_input(const tenon_op_t *op, const tn_example_t *plan, uint32_t i,
                       tenon_tensor_t *room, int64_t *strides, tenon_tensor_t **out) {
  const tn_example_tensor_t *from = plan->inputs[i].tensors;
  bool is_known = op->where && op->where[i] & TN_INPUT_KNOWN;
  int64_t count = tn_shape_count(from->ndim, from->shape);
  if (count >= 0 && count <= REAL_MOST)
    return tenon_tensor_create(from->dtype, from->ndim, from->shape, out) == TENON_OK &&
           tn_example_fill(&from->fill, options.seed, i, *out) == TENON_OK;
  *out = room;
  return count > 0 && !is_known &&
         tenon_tensor_view(room, room, from->dtype, from->ndim, from->shape, NULL, strides) ==
             TENON_OK;
}

static void take_shapes(const tenon_op_t *op, tenon_meta_t *const *results, inferred_t *out) {
  for (uint32_t o = 0; o < op->output_count && o < RESULTS; o++) {
    const tenon_meta_t *m = results[o];
    out->ndim[o] = m && !m->items ? m->ndim : -1;
    for (int32_t d = 0; d < out->ndim[o]; d++)
      out->dims[o][d] = tenon_is_known(m->dims[d]) ? m->dims[d].value : -1;
  }
}

/* Returns false if infer refuses the call, or if no such call can be made. */
static bool infer_with(const tenon_op_t *op, uint32_t sample, const char *name, int64_t extent,
                       inferred_t *out) {
  static tn_example_t plan;
  static tenon_tensor_t rooms[EXAMPLE_ARGUMENTS];
  static int64_t strides[EXAMPLE_ARGUMENTS][TENON_RANK_MAX];
  tn_arena_t arena = {NULL};
  tenon_tensor_t *inputs[EXAMPLE_ARGUMENTS] = {NULL};
  tn_inference_t inference = {.extents = NULL};
  tenon_meta_t **metas, **results;
  void *state = NULL;
  tn_example_options_t with = {
      .index = sample, .rank = -1, .name_count = 1, .names = &name, .extents = &extent};
  bool fine = tn_example_plan(op, &with, &arena, &plan) == TENON_OK;
  for (uint32_t i = 0; i < op->input_count && fine; i++)
    if (plan.inputs[i].is_given) fine = make_input(op, &plan, i, &rooms[i], strides[i], &inputs[i]);
  tn_scratch_mark_t mark = tn_scratch_mark();
  fine = fine && (!op->create || tn_state_get(op, plan.attrs, &state) == TENON_OK) &&
         tn_metas_of_inputs(op, inputs, &metas) == TENON_OK &&
         tn_metas_of_results(op, plan.attrs, 0, &results) == TENON_OK &&
         tn_infer(&inference, op, plan.attrs, state, metas, results) == TENON_OK;
  if (fine) take_shapes(op, results, out);
  tn_scratch_reset(mark);
  for (uint32_t i = 0; i < op->input_count; i++)
    if (inputs[i] != &rooms[i]) tenon_tensor_release(inputs[i]);
  tn_arena_clear(&arena);
  return fine;
}

static void compare_extents(const tenon_op_t *op, const char *name, const inferred_t *small,
                            const inferred_t *huge) {
  for (uint32_t o = 0; o < op->output_count && o < RESULTS; o++)
    for (int32_t d = 0; d < huge->ndim[o]; d++) {
      int64_t a = small[0].dims[o][d];
      int64_t b = small[1].dims[o][d];
      int64_t c = small[2].dims[o][d];
      int64_t step = (b - a) / 8;
      bool is_even = small[0].ndim[o] == huge->ndim[o] && small[1].ndim[o] == huge->ndim[o] &&
                     small[2].ndim[o] == huge->ndim[o] && a >= 0 && b - a == c - b &&
                     (b - a) % 8 == 0;
      int64_t found = huge->dims[o][d];
      int64_t expected = a + step * (huge_extent - 8);
      if (!is_even || found < 0 || found == expected) continue;
      finding(NULL, "shapes.huge", "infer computes extents in 64 bits",
              "keep extents in int64_t, and compute them by tenon_dim()",
              "with %s = 8, 16 and 24 axis %d of result %s is %" PRId64 ", %" PRId64 " and %" PRId64
              ", so with %" PRId64 " it should be %" PRId64 "; infer returns %" PRId64,
              name, d, op->schema.outputs[o].name, a, b, c, huge_extent, expected, found);
      return;
    }
}

static void run_extents(const subject_t *subject) {
  static tn_example_t plan;
  for (uint32_t sample = 0; sample < tn_example_count(subject->op); sample++) {
    tn_arena_t arena = {NULL};
    tn_example_options_t plain = {.index = sample, .rank = -1};
    bool fine = tn_example_plan(subject->op, &plain, &arena, &plan) == TENON_OK;
    for (uint32_t n = 0; fine && n < plan.name_count && !has_findings(); n++) {
      char text[300];
      inferred_t small[SMALL], huge;
      bool all = plan.names[n].is_free;
      snprintf(text, sizeof text, "infer of %s with %s = 2^33", subject->name, plan.names[n].name);
      doing(NULL, "shapes.huge", text);
      for (int k = 0; k < SMALL && all; k++)
        all = infer_with(subject->op, sample, plan.names[n].name, small_extents[k], &small[k]);
      if (all && infer_with(subject->op, sample, plan.names[n].name, huge_extent, &huge))
        compare_extents(subject->op, plan.names[n].name, small, &huge);
    }
    tn_arena_clear(&arena);
  }
}

static const char *lacks_infer(const subject_t *subject) {
  const tenon_op_t *op = subject->op;
  if (!op->infer || op->body >= 0) return "it has no infer function of its own";
  for (uint32_t i = 0; i < op->input_count; i++)
    if (op->schema.inputs[i].kind == TENON_KIND_TENSORS) return "it takes lists";
  return NULL;
}

const check_t checks_extents[] = {{"shapes.huge",
                                   "Infer computes extents above 2^32, for inputs without memory.",
                                   NULL, lacks_infer, run_extents},
                                  {NULL, NULL, NULL, NULL, NULL}};
