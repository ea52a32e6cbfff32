/* Numerical derivatives by central differences of five points with two step sizes; see
 * numerical_gradient.h. Results that do not change between the points are not summed, so that large
 * values elsewhere do not hide small changes. */
#include "numerical_gradient.h"
#include "call.h"

#include <math.h>
#include <string.h>

#include "base/status.h"
#include "core/element.h"

enum {
  POINTS = 4,
  SEED = 77,
};
static const int places[POINTS] = {-2, -1, 1, 2};
static const double factors[POINTS] = {1 / 12.0, -8 / 12.0, 8 / 12.0, -1 / 12.0};

bool slopes_is_float(const tenon_tensor_t *t) {
  return t && t->dtype.code == 2 && t->dtype.bits >= 32 && !t->detail;
}

/* Results are copied, because views would change with their input. Equal calls draw equal random
 * numbers. */
static tenon_status_t call_operator(const example_t *example, tenon_tensor_t *const *inputs,
                                    tenon_tensor_t **outputs) {
  tenon_tensor_t *made[EXAMPLE_ARGUMENTS] = {NULL};
  memset(outputs, 0, EXAMPLE_ARGUMENTS * sizeof *outputs);
  if (example->op->traits & TENON_RANDOM) tenon_random_seed(example->seed);
  TN_TRY(tenon_op_call(example->op, example->attrs, inputs, made, 0));
  tenon_status_t status = TENON_OK;
  for (uint32_t o = 0; o < example->op->output_count && status == TENON_OK; o++)
    if (slopes_is_float(made[o])) status = tenon_tensor_copy(made[o], &outputs[o]);
  call_drop(made);
  return status;
}

/* Reads one element of a dense copy of a result. */
static double element_value(const tenon_tensor_t *t, int64_t index) {
  return tn_element_get(t->dtype, t->data, index, NULL);
}

bool slopes_open(example_t *example, slopes_t *s) {
  tenon_tensor_t *outputs[EXAMPLE_ARGUMENTS];
  bool any = false;
  *s = (slopes_t){.example = example, .is_wide = true};
  bool fine = call_operator(example, example->inputs, outputs) == TENON_OK;
  for (uint32_t o = 0; fine && o < example->op->output_count; o++) {
    tenon_tensor_t *out = outputs[o];
    if (!slopes_is_float(out)) continue;
    s->is_wide &= out->dtype.bits == 64;
    any = true;
    fine = tenon_tensor_create(out->dtype, out->ndim, out->shape, &s->weights[o]) == TENON_OK;
    for (int64_t i = 0, n = fine ? tenon_count(out) : 0; i < n;
         /* Weights from 0.5 to 1.5 of both signs; 0 where the result is not finite. */
         i++) {
      double weight = (0.5 + tenon_random(SEED + o, (uint64_t)i) / 4294967296.0) * (i % 3 ? 1 : -1);
      tn_element_put(out->dtype, s->weights[o]->data, i,
                     isfinite(element_value(out, i)) ? weight : 0, 0);
    }
  }
  for (uint32_t i = 0; i < example->op->input_count; i++)
    if (slopes_is_float(example->inputs[i])) s->is_wide &= example->inputs[i]->dtype.bits == 64;
  call_drop(outputs);
  if (fine && any) return true;
  slopes_close(s);
  return false;
}

void slopes_close(slopes_t *s) { call_drop(s->weights); }

/* Calls the operator at the four points. Returns false if a call was refused or a result has
 * another shape. */
static bool call_points(const slopes_t *s, uint32_t input, int64_t index, double step,
                        tenon_tensor_t *(*results)[EXAMPLE_ARGUMENTS], double *out_step) {
  const example_t *example = s->example;
  tenon_tensor_t *inputs[EXAMPLE_ARGUMENTS], *moved;
  memset(results, 0, POINTS * sizeof *results);
  if (tenon_tensor_copy(example->inputs[input], &moved) != TENON_OK) return false;
  memcpy(inputs, example->inputs, sizeof inputs);
  inputs[input] = moved;
  double at = element_value(moved, index);
  bool fine = true;
  for (int p = 0; p < POINTS && fine; p++) {
    tn_element_put(moved->dtype, moved->data, index, at + places[p] * step, 0);
    if (places[p] == 1) *out_step = element_value(moved, index) - at; /* the step after rounding */
    fine = call_operator(example, inputs, results[p]) == TENON_OK;
    for (uint32_t o = 0; o < example->op->output_count && fine; o++)
      fine = !s->weights[o] ||
             (results[p][o] && tenon_count(results[p][o]) == tenon_count(s->weights[o]));
  }
  tenon_tensor_release(moved);
  return fine;
}

static bool measure_slope(const slopes_t *s, uint32_t input, int64_t index, double step,
                          slope_t *out) {
  tenon_tensor_t *results[POINTS][EXAMPLE_ARGUMENTS];
  double epsilon = s->is_wide ? 0x1p-52 : 0x1p-23;
  double sum = 0;
  double touched = 0;
  bool fine = call_points(s, input, index, step, results, &step) && step != 0;
  for (uint32_t o = 0; fine && o < s->example->op->output_count; o++)
    for (int64_t i = 0, n = s->weights[o] ? tenon_count(s->weights[o]) : 0; i < n; i++) {
      double change = 0;
      double most = 0;
      bool is_same = true;
      bool counts = element_value(s->weights[o], i) != 0;
      for (int p = 0; p < POINTS; p++) {
        double value = element_value(results[p][o], i);
        is_same &= value == element_value(results[0][o], i);
        change += factors[p] * value;
        most = fmax(most, fabs(value));
      }
      if (is_same || !counts) continue;
      sum += element_value(s->weights[o], i) * change;
      touched += most;
    }
  for (int p = 0; p < POINTS; p++)
    call_drop(results[p]);
  *out = (slope_t){sum / step, 8 * epsilon * touched / step};
  return fine && isfinite(out->value);
}

bool slopes_measure(const slopes_t *s, uint32_t input, int64_t index, slope_t *out) {
  double step = s->is_wide ? 0x1p-9 : 0x1p-5;
  double allowed = s->is_wide ? 1e-6 : 2e-3;
  slope_t coarse;
  if (!measure_slope(s, input, index, step, &coarse) ||
      !measure_slope(s, input, index, step / 2, out))
    return false;
  double apart = fabs(coarse.value - out->value);
  bool is_smooth = apart <= allowed * fmax(fabs(out->value), 1) +
                                4 * out->noise; /* else the function has a kink or a jump here */
  out->noise += apart;
  return is_smooth;
}
