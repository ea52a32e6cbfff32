/* Checks TENON_BATCHING: one call with extra leading axes returns what separate calls return. */
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "core/dtype.h"
#include "inspect/example_fill.h"
#include "run.h"

static const char *lacks_batching(const subject_t *subject) {
  const tn_batching_t *rule = &subject->op->batching;
  if (!rule->text) return "it declares no TENON_BATCHING";
  if (rule->is_none) return "its TENON_BATCHING is none";
  if (!(subject->op->traits & TENON_PURE) || subject->op->traits & TENON_RANDOM)
    return "equal calls do not return equal results";
  return NULL;
}

typedef struct batch_t { /* `count` calls that differ in the inputs that the rule names */
  example_t *example;
  int64_t axes[2];
  int32_t axis_count;
  int64_t count;
  tenon_tensor_t *each[8][EXAMPLE_ARGUMENTS];
  tenon_tensor_t *together[EXAMPLE_ARGUMENTS];
} batch_t;

/* Creates a tensor with the extra axes in front. */
static tenon_status_t make_room(const batch_t *b, const tenon_tensor_t *one, tenon_tensor_t **out) {
  int64_t shape[TENON_RANK_MAX];
  if (one->ndim + b->axis_count > TENON_RANK_MAX) return TENON_INVALID;
  for (int32_t d = 0; d < b->axis_count; d++)
    shape[d] = b->axes[d];
  for (int32_t d = 0; d < one->ndim; d++)
    shape[b->axis_count + d] = one->shape[d];
  return tenon_tensor_create(one->dtype, one->ndim + b->axis_count, shape, out);
}

static void batch_free(batch_t *b) {
  for (int64_t k = 0; k < b->count; k++)
    call_drop(b->each[k]);
  call_drop(b->together);
}

static bool batch_make(batch_t *b) {
  example_t *example = b->example;
  const tn_batching_t *rule = &example->op->batching;
  tenon_tensor_t *made[EXAMPLE_ARGUMENTS] = {NULL};
  for (int64_t k = 0; k < b->count; k++) {
    if (tn_example_inputs(&example->plan, example->seed + (uint64_t)k, made) != TENON_OK)
      return false;
    for (uint32_t i = 0; i < example->op->input_count; i++) {
      bool is_own = rule->inputs >> i & 1;
      b->each[k][i] = is_own || !example->inputs[i] ? made[i] : example->inputs[i];
      if (b->each[k][i] != made[i]) {
        tenon_tensor_release(made[i]);
        tenon_tensor_retain(example->inputs[i]);
      }
    }
  }
  for (uint32_t i = 0; i < example->op->input_count; i++) {
    tenon_tensor_t *one = b->each[0][i];
    uint64_t bytes;
    if (!one) continue;
    if (!(rule->inputs >> i & 1)) {
      tenon_tensor_retain(b->together[i] = one);
      continue;
    }
    if (tn_dtype_is(one->dtype, TENON_LIST) || tn_dtype_is(one->dtype, TENON_STRING) ||
        one->dtype.bits < 8 || !tn_dtype_bytes(one->dtype, tenon_count(one), &bytes) ||
        make_room(b, one, &b->together[i]) != TENON_OK)
      return false;
    for (int64_t k = 0; k < b->count; k++)
      memcpy((char *)b->together[i]->data + (uint64_t)k * bytes, b->each[k][i]->data, bytes);
  }
  return true;
}

/* Attributes of the combined call: axis numbers that count from the first axis are shifted by the
 * extra axes. */
static const tenon_value_t *shift_attrs(batch_t *b) {
  example_t *example = b->example;
  uint32_t count = example->op->schema.attr_count;
  tenon_value_t *attrs = tn_arena_array(&example->arena, count + 1, sizeof *attrs);
  if (!attrs) return NULL;
  memcpy(attrs, example->attrs, count * sizeof *attrs);
  for (uint32_t a = 0; a < count; a++) {
    tenon_value_t *v = &attrs[a];
    if (!(example->op->batching.shifts >> a & 1)) continue;
    if ((v->kind == TENON_KIND_INT || v->kind == TENON_KIND_DIM) && v->as.i >= 0)
      v->as.i += b->axis_count;
    if (v->kind != TENON_KIND_INTS && v->kind != TENON_KIND_DIMS) continue;
    int64_t *axes = tn_arena_array(&example->arena, v->count + 1, sizeof *axes);
    if (!axes) return NULL;
    for (uint32_t i = 0; i < v->count; i++)
      axes[i] = v->as.ints[i] + (v->as.ints[i] >= 0 ? b->axis_count : 0);
    v->as.ints = axes;
  }
  return attrs;
}

/* Copies part k of a combined result to a tensor of its own. */
static tenon_tensor_t *part_of(const batch_t *b, const tenon_tensor_t *whole, int64_t k) {
  tenon_tensor_t *part = NULL;
  uint64_t bytes;
  if (whole->ndim < b->axis_count ||
      tenon_tensor_create(whole->dtype, whole->ndim - b->axis_count, whole->shape + b->axis_count,
                          &part) != TENON_OK)
    return NULL;
  tn_dtype_bytes(part->dtype, tenon_count(part), &bytes);
  memcpy(part->data, (const char *)whole->data + (uint64_t)k * bytes, bytes);
  return part;
}

static bool has_extra_axes(const batch_t *b, const tenon_tensor_t *whole) {
  bool fine = whole->ndim >= b->axis_count;
  for (int32_t d = 0; d < b->axis_count && fine; d++)
    fine = whole->shape[d] == b->axes[d];
  return fine;
}

static void compare_parts(const batch_t *b, tenon_tensor_t *const *wholes, int64_t k,
                          tenon_tensor_t *const *ones) {
  const tenon_op_t *op = b->example->op;
  for (uint32_t o = 0; o < op->output_count; o++) {
    const char *name = op->schema.outputs[o].name;
    const char *differs = NULL;
    if (!wholes[o] || !ones[o] || !(op->batching.outputs >> o & 1)) continue;
    tenon_tensor_t *whole = tensor_dense(wholes[o]);
    tenon_tensor_t *one = tensor_dense(ones[o]);
    tenon_tensor_t *part = whole && has_extra_axes(b, whole) ? part_of(b, whole, k) : NULL;
    if (whole && !has_extra_axes(b, whole)) differs = "the extra axes are not in front";
    if (part && one) differs = tensor_differs(name, one, part, 4);
    if (differs)
      finding(b->example, "batching.loop",
              "a call with extra leading axes returns what separate calls return",
              "correct TENON_BATCHING, or the kernel for more axes",
              "with %d extra axes, part %lld of %s: %s", b->axis_count, (long long)k, name,
              differs);
    tenon_tensor_release(whole);
    tenon_tensor_release(one);
    tenon_tensor_release(part);
    if (differs) return;
  }
}

static void check_batch(example_t *example, int32_t axis_count) {
  batch_t b = {.example = example, .axes = {axis_count == 1 ? 3 : 2, 3}, .axis_count = axis_count};
  tenon_tensor_t *wholes[EXAMPLE_ARGUMENTS] = {NULL};
  b.count = axis_count == 1 ? 3 : 6;
  const tenon_value_t *attrs = shift_attrs(&b);
  call_doing(example, "batching.loop", "with extra leading axes");
  if (attrs && batch_make(&b)) {
    if (tenon_op_call(example->op, attrs, b.together, wholes, 0) != TENON_OK)
      finding(example, "batching.loop",
              "inputs that TENON_BATCHING names may have extra leading axes",
              "correct TENON_BATCHING", "with %d extra axes the call fails: %s", axis_count,
              tenon_error());
    for (int64_t k = 0; k < b.count && !has_findings(); k++) {
      tenon_tensor_t *ones[EXAMPLE_ARGUMENTS] = {NULL};
      if (tenon_op_call(example->op, example->attrs, b.each[k], ones, 0) == TENON_OK)
        compare_parts(&b, wholes, k, ones);
      call_drop(ones);
    }
  }
  call_drop(wholes);
  batch_free(&b);
}

static void run_batching(const subject_t *subject) {
  examples_t all = examples(subject, false);
  for (example_t *t; (t = examples_next(&all));) {
    check_batch(t, 1);
    if (!has_findings()) check_batch(t, 2);
  }
}

const check_t checks_batching[] = {{"batching.loop",
                                    "One call with extra leading axes, as TENON_BATCHING allows, "
                                    "returns what separate calls return.",
                                    NULL, lacks_batching, run_batching},
                                   {NULL, NULL, NULL, NULL, NULL}};
