/* Compares gradients with central finite differences of five points in f64. Tests of operators call
 * it. */
#include <math.h>
#include <tenon/tenon.h>

#include "autograd/formula.h"
#include "autograd/node.h"
#include "autograd/tape.h"
#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/sparse.h"

typedef struct check_t {
  tenon_gradient_fn function;
  void *context;
  tenon_tensor_t *const *inputs;
  int32_t input_count;
  int32_t output_count;
  double step;
  double tolerance;
  tenon_tensor_t **outputs; /* space for one evaluation */
} check_t;

static double *element_of(const tenon_tensor_t *t, int64_t index) {
  int64_t at = 0;
  for (int32_t d = t->ndim - 1; d >= 0; d--) {
    at += index % t->shape[d] * t->strides[d];
    index /= t->shape[d];
  }
  return (double *)t->data + at;
}

/* The check differentiates the sum of all output elements, weighted by these numbers between 0.5
 * and 1.5. */
static double weight(int32_t output, int64_t index) {
  return 0.5 + (double)tenon_random(7 + (uint64_t)output, (uint64_t)index) / 4294967296.0;
}

static tenon_status_t evaluate_function(const check_t *c) {
  for (int32_t o = 0; o < c->output_count; o++)
    c->outputs[o] = NULL;
  TN_TRY(c->function(c->context, c->inputs, c->outputs));
  for (int32_t o = 0; o < c->output_count; o++) {
    if (!c->outputs[o])
      return tn_fail(TENON_INVALID, "the function under check returned no output %d", (int)o);
    if (tn_layout(c->outputs[o]))
      return tn_fail(TENON_INVALID,
                     "the function under check returned a sparse output %d: make it dense first "
                     "(core::to_dense)",
                     (int)o);
  }
  return TENON_OK;
}

static tenon_status_t make_dense(tenon_tensor_t **grad) {
  tenon_tensor_t *dense;
  if (!*grad || !tn_layout(*grad)) return TENON_OK;
  TN_TRY(tn_core_call("core::to_dense", NULL, *grad, NULL, &dense));
  tenon_tensor_release(*grad);
  *grad = dense;
  return TENON_OK;
}

static void release_outputs(const check_t *c) {
  for (int32_t o = 0; o < c->output_count; o++)
    tenon_tensor_release(c->outputs[o]);
}

static tenon_status_t total_of_outputs(const check_t *c, double *out) {
  bool before = tn_tape_set(false);
  tenon_status_t status = evaluate_function(c);
  tn_tape_set(before);
  *out = 0;
  for (int32_t o = 0; o < c->output_count && status == TENON_OK; o++)
    for (int64_t i = 0;
         tn_dtype_is(c->outputs[o]->dtype, TENON_F64) && i < tenon_count(c->outputs[o]); i++)
      *out += weight(o, i) * *element_of(c->outputs[o], i);
  release_outputs(c);
  return status;
}

static tenon_status_t difference_of(const check_t *c, double *at, double *out) {
  static const double steps[] = {-2, -1, 1, 2};
  static const double factors[] = {1, -8, 8, -1};
  double before = *at;
  double sum, value;
  tenon_status_t status = TENON_OK;
  *out = 0;
  for (int i = 0; i < 4 && status == TENON_OK; i++) {
    *at = before + steps[i] * c->step;
    status = total_of_outputs(c, &value);
    sum = factors[i] * value;
    *out += sum / (12 * c->step);
  }
  *at = before;
  return status;
}

static tenon_status_t compare_input(const check_t *c, int32_t input, const tenon_tensor_t *grad) {
  const tenon_tensor_t *t = c->inputs[input];
  for (int64_t i = 0; i < tenon_count(t); i++) {
    double expected;
    double found = grad ? *element_of(grad, i) : 0;
    TN_TRY(difference_of(c, element_of(t, i), &expected));
    if (fabs(found - expected) <= c->tolerance * (1 + fabs(expected))) continue;
    return tn_fail(
        TENON_ABORTED,
        "gradient of input %d, element %lld: backward gives %.12g, finite differences give %.12g",
        (int)input, (long long)i, found, expected);
  }
  return TENON_OK;
}

/* Computes the gradients of all inputs that require one, by backward. */
static tenon_status_t backward_gradients(const check_t *c, tenon_tensor_t **grads) {
  tenon_tensor_t **outputs = c->outputs;
  tenon_tensor_t *inputs[64], *found[64];
  tenon_tensor_t *weights[64] = {NULL};
  int32_t count = 0;
  int32_t wanted = 0;
  int32_t at[64];
  TN_TRY(evaluate_function(c));
  tenon_status_t status = TENON_OK;
  for (int32_t o = 0; o < c->output_count && status == TENON_OK; o++) {
    if (!tn_dtype_is(outputs[o]->dtype, TENON_F64) || !tn_history_of(outputs[o])) continue;
    status = tenon_tensor_create(outputs[o]->dtype, outputs[o]->ndim, outputs[o]->shape,
                                 &weights[count]);
    for (int64_t i = 0; status == TENON_OK && i < tenon_count(outputs[o]); i++)
      ((double *)weights[count]->data)[i] = weight(o, i);
    tenon_tensor_t *swap = outputs[count]; /* outputs with a gradient come first */
    outputs[count] = outputs[o];
    outputs[o] = swap;
    if (status == TENON_OK) count++;
  }
  for (int32_t i = 0; i < c->input_count; i++)
    if (tn_history_of(c->inputs[i])) {
      at[wanted] = i;
      inputs[wanted++] = c->inputs[i];
    }
  if (status == TENON_OK && count)
    status = tenon_gradients(outputs, weights, count, inputs, wanted, TENON_GRAD_UNUSED, found);
  for (int32_t k = 0; k < wanted && count && status == TENON_OK; k++)
    grads[at[k]] = found[k];
  for (int32_t o = 0; o < count; o++)
    tenon_tensor_release(weights[o]);
  release_outputs(c);
  return status;
}

tenon_status_t tenon_gradient_check(tenon_gradient_fn function, void *context,
                                    tenon_tensor_t *const *inputs, int32_t input_count,
                                    int32_t output_count, const tenon_gradient_check_t *options) {
  enum { MOST = 64 };
  tenon_tensor_t *outputs[MOST] = {NULL};
  tenon_tensor_t *grads[MOST] = {NULL};
  if (input_count > MOST || output_count > MOST)
    return tn_fail(TENON_INVALID,
                   "a gradient check has %d inputs and %d outputs: expected at most %d of each",
                   (int)input_count, (int)output_count, MOST);
  for (int32_t i = 0; i < input_count; i++)
    if (tn_history_of(inputs[i]) &&
        (!tn_dtype_is(inputs[i]->dtype, TENON_F64) || tn_layout(inputs[i])))
      return tn_fail(
          TENON_INVALID,
          "input %d is %s: expected a dense tensor of f64, in which gradients are checked", (int)i,
          tn_layout(inputs[i]) ? "sparse" : tn_dtype_name(inputs[i]->dtype));
  check_t c = {.function = function,
               .context = context,
               .inputs = inputs,
               .input_count = input_count,
               .output_count = output_count,
               .step = 1e-3,
               .tolerance = 1e-7,
               .outputs = outputs};
  if (options && options->step > 0) c.step = options->step;
  if (options && options->tolerance > 0) c.tolerance = options->tolerance;
  tenon_status_t status = backward_gradients(&c, grads);
  for (int32_t i = 0; i < input_count && status == TENON_OK; i++)
    status = make_dense(&grads[i]);
  for (int32_t i = 0; i < input_count && status == TENON_OK; i++)
    if (tn_history_of(inputs[i])) status = compare_input(&c, i, grads[i]);
  for (int32_t i = 0; i < input_count; i++)
    tenon_tensor_release(grads[i]);
  return status;
}
