/* Checks the gradients that an operator declares against finite differences of its results, also
 * with inputs that are broadcast. */
#include <math.h>
#include <string.h>

#include "call.h"
#include "core/dtype.h"
#include "core/element.h"
#include "numerical_gradient.h"

enum { ELEMENTS = 48 /* elements of an input that are compared */ };

static bool has_formula(const tn_gradient_t *gradient) {
  for (uint32_t i = 0; i < gradient->formula_count; i++)
    if (gradient->formulas[i].kind == TN_FORMULA_CALL) return true;
  return false;
}

static const char *lacks_gradient(const subject_t *subject) {
  if (!subject->op->gradient.text) return "it declares no TENON_GRADIENT";
  if (!has_formula(&subject->op->gradient))
    return "its TENON_GRADIENT is none or error for every input";
  if (!(subject->op->traits & TENON_PURE)) return "the operator is not pure";
  for (uint32_t i = 0; i < subject->op->input_count; i++)
    if (subject->op->schema.inputs[i].is_written) return "it writes to an input";
  return NULL;
}

/* Computes the gradients of all floating-point inputs. Returns false if backward fails; this is
 * reported as a finding unless id is NULL. */
static bool run_backward(slopes_t *s, const char *id, tenon_tensor_t **out_gradients) {
  example_t *example = s->example;
  tenon_tensor_t *outputs[EXAMPLE_ARGUMENTS] = {NULL};
  tenon_tensor_t *inputs[EXAMPLE_ARGUMENTS], *leaves[EXAMPLE_ARGUMENTS];
  tenon_tensor_t *made[EXAMPLE_ARGUMENTS] = {NULL};
  tenon_tensor_t *weights[EXAMPLE_ARGUMENTS] = {NULL};
  tenon_tensor_t *got[EXAMPLE_ARGUMENTS] = {NULL};
  uint32_t which[EXAMPLE_ARGUMENTS];
  int32_t leaf_count = 0;
  int32_t made_count = 0;
  memcpy(inputs, example->inputs, sizeof inputs);
  for (uint32_t i = 0; i < example->op->input_count; i++)
    if (slopes_is_float(inputs[i]) &&
        tenon_tensor_copy(example->inputs[i], &inputs[i]) == TENON_OK) {
      tenon_tensor_require_grad(inputs[i], 1);
      which[leaf_count] = i;
      leaves[leaf_count++] = inputs[i];
    }
  if (example->op->traits & TENON_RANDOM) tenon_random_seed(example->seed);
  tenon_status_t status = tenon_op_call(example->op, example->attrs, inputs, outputs, 0);
  for (uint32_t o = 0; o < example->op->output_count && status == TENON_OK; o++)
    if (s->weights[o] && tenon_tensor_requires_grad(outputs[o])) {
      made[made_count] = outputs[o];
      weights[made_count++] = s->weights[o];
    }
  if (status == TENON_OK && made_count && leaf_count)
    status = tenon_gradients(made, weights, made_count, leaves, leaf_count,
                             TENON_GRAD_UNUSED | TENON_GRAD_KEEP, got);
  /* The gradient formulas use the first result only. */
  if (status == TENON_UNIMPLEMENTED && made_count > 1) {
    status = tenon_gradients(made, weights, 1, leaves, leaf_count, TENON_GRAD_UNUSED, got);
    for (uint32_t o = 0; o < example->op->output_count; o++)
      if (s->weights[o] != weights[0]) {
        tenon_tensor_release(s->weights[o]);
        s->weights[o] = NULL;
      }
  }
  if (status == TENON_UNIMPLEMENTED)
    note(example, "gradient.differences", "not compared: %s", tenon_error());
  else if (status != TENON_OK && id)
    finding(example, id, "the backward pass computes the gradients that TENON_GRADIENT declares",
            "call the operators that TENON_GRADIENT names with these shapes",
            "the backward pass fails: %s", tenon_error());
  for (int32_t k = 0; k < leaf_count; k++) {
    out_gradients[which[k]] = got[k];
    tenon_tensor_release(leaves[k]);
  }
  for (uint32_t o = 0; o < example->op->output_count; o++)
    tenon_tensor_release(outputs[o]);
  return status == TENON_OK;
}

/* Compares the gradient of one input, or a selection of its elements. Returns false after a
 * difference. */
static bool compare_gradient(const slopes_t *s, const char *id, uint32_t input,
                             const tenon_tensor_t *gradient, int64_t *compared) {
  example_t *example = s->example;
  tenon_tensor_t *dense = NULL;
  const char *name = example->op->schema.inputs[input].name;
  double relative = s->is_wide ? 1e-6 : 3e-3;
  double floor = s->is_wide ? 1e-9 : 1e-5;
  int64_t n = tenon_count(gradient);
  int64_t step = n > ELEMENTS ? n / ELEMENTS : 1;
  bool fine = tenon_tensor_copy(gradient, &dense) == TENON_OK;
  for (int64_t i = 0; i < n && fine; i += step) {
    slope_t slope;
    double stated = tn_element_get(dense->dtype, dense->data, i, NULL);
    if (!isfinite(stated) || !slopes_measure(s, input, i, &slope)) continue;
    ++*compared;
    double allowed = relative * fmax(fabs(slope.value), fabs(stated)) + floor + 4 * slope.noise;
    if (fabs(stated - slope.value) <= allowed) continue;
    if (id)
      finding(example, id, "the gradient agrees with finite differences of the results",
              "check the formula of this input in TENON_GRADIENT, and the operators that it calls",
              "element %lld of the gradient of %s is %.7g, finite differences give %.7g (the ratio "
              "is %.4g)",
              (long long)i, name, stated, slope.value, stated / slope.value);
    fine = false;
  }
  tenon_tensor_release(dense);
  return fine;
}

/* Checks all inputs of an example. Returns false if a gradient is wrong; this is reported unless id
 * is NULL. */
static bool check_example(example_t *example, const char *id, int64_t *compared) {
  slopes_t slopes;
  tenon_tensor_t *gradients[EXAMPLE_ARGUMENTS] = {NULL};
  if (id) call_doing(example, id, "and its gradient");
  if (!slopes_open(example, &slopes)) return true;
  bool fine = run_backward(&slopes, id, gradients);
  for (uint32_t i = 0; i < example->op->input_count && fine; i++)
    if (gradients[i]) fine = compare_gradient(&slopes, id, i, gradients[i], compared);
  for (uint32_t i = 0; i < example->op->input_count; i++)
    tenon_tensor_release(gradients[i]);
  slopes_close(&slopes);
  return fine;
}

/* Makes example call `index`, in f64 if the types allow it. */
static bool make_wide(const subject_t *subject, uint32_t index, example_t *out) {
  tenon_dtype_t dtypes[TN_TYPE_VARIABLES] = {{0, 0, 0}};
  const tn_types_t *types = &subject->op->types;
  for (uint32_t v = 0; v < types->variable_count; v++)
    if (types->sets[v] >> TN_DTYPE_F64 & 1) dtypes[v] = tenon_dtype(TENON_F64);
  tn_example_options_t wide = {.index = index, .dtypes = dtypes, .rank = -1};
  tn_example_options_t plain = {.index = index, .rank = -1};
  char label[16] = "f64";
  if (tn_example_count(subject->op) > 1) {
    label[0] = (char)('0' + index % 10);
    label[1] = 0;
  }
  if (example_make(subject, &wide, options.seed, label, out)) {
    tenon_tensor_t *outputs[EXAMPLE_ARGUMENTS] = {NULL};
    bool runs =
        out->is_taken && tenon_op_call(out->op, out->attrs, out->inputs, outputs, 0) == TENON_OK;
    for (uint32_t o = 0; o < out->op->output_count; o++)
      tenon_tensor_release(outputs[o]);
    if (runs) return true;
    example_free(out);
  }
  if (!example_make(subject, &plain, options.seed, label, out)) return false;
  if (!out->is_taken) example_free(out);
  return out->op != NULL;
}

static void run_differences(const subject_t *subject) {
  int64_t compared = 0;
  for (uint32_t i = 0, n = tn_example_count(subject->op); i < n; i++) {
    example_t example;
    if (!make_wide(subject, i, &example)) continue;
    check_example(&example, "gradient.differences", &compared);
    example_free(&example);
  }
  if (!compared && !has_findings())
    note(NULL, "gradient.differences",
         "nothing was compared: no example call has inputs of f32 or f64 for which differences can "
         "be computed");
}

/* Prints the shapes of the results. */
static bool shapes_of(example_t *example, char *out, size_t capacity) {
  tenon_tensor_t *outputs[EXAMPLE_ARGUMENTS] = {NULL};
  size_t used = 0;
  tenon_status_t status = tenon_op_call(example->op, example->attrs, example->inputs, outputs, 0);
  for (uint32_t o = 0; o < example->op->output_count && status == TENON_OK; o++)
    if (outputs[o] && used + 400 < capacity)
      used +=
          strlen(tn_shape_print(outputs[o]->ndim, outputs[o]->shape, out + used, capacity - used));
  for (uint32_t o = 0; o < example->op->output_count; o++)
    tenon_tensor_release(outputs[o]);
  return status == TENON_OK;
}

/* Sets an axis of an input to extent 1 if the operator then broadcasts it; returns whether it
 * does. */
static bool narrow_axis(example_t *example, uint32_t input, int32_t axis) {
  char before[4096], after[4096];
  tn_example_tensor_t *t = &example->plan.inputs[input].tensors[0];
  if (t->shape[axis] <= 1 || !shapes_of(example, before, sizeof before)) return false;
  int64_t extent = t->shape[axis];
  t->shape[axis] = 1;
  if (example_remake(example) && shapes_of(example, after, sizeof after) &&
      strcmp(before, after) == 0)
    return true;
  t->shape[axis] = extent;
  example_remake(example);
  return false;
}

static void run_broadcast(const subject_t *subject) {
  int64_t compared = 0;
  for (uint32_t i = 0; i < subject->op->input_count; i++) {
    const tn_argument_t *input = &subject->op->schema.inputs[i];
    for (int32_t axis = 0; axis < TENON_RANK_MAX; axis++) {
      example_t example;
      if (input->kind == TENON_KIND_TENSORS || !make_wide(subject, 0, &example)) break;
      bool has_axis = slopes_is_float(example.inputs[i]) && axis < example.inputs[i]->ndim;
      /* A wrong gradient without broadcasting is reported by gradient.differences. */
      bool is_right = has_axis && check_example(&example, NULL, &compared);
      if (is_right && narrow_axis(&example, i, axis))
        check_example(&example, "gradient.broadcast", &compared);
      example_free(&example);
      if (!has_axis || has_findings()) break;
    }
  }
}

static const char *lacks_broadcast(const subject_t *subject) {
  const char *why = lacks_gradient(subject);
  if (why) return why;
  return subject->op->input_count < 2 ? "it has one input, so nothing is broadcast" : NULL;
}

const check_t checks_gradients[] = {
    {"gradient.differences",
     "TENON_GRADIENT agrees with finite differences of the results, within rounding: a factor of "
     "1.01 is detected.",
     NULL, lacks_gradient, run_differences},
    {"gradient.broadcast",
     "The same with one axis of an input set to extent 1, which is broadcast.", NULL,
     lacks_broadcast, run_broadcast},
    {NULL, NULL, NULL, NULL, NULL}};
