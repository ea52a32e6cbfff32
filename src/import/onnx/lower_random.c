/* Random operators, dropout, window functions.  Seeds of single nodes are not kept: a run has one stream of numbers. */
#include <string.h>

#include "import/onnx/lower.h"

/* Whether dropout really drops: said by an input since operator set 12, never before (is_test 0 was for training tools). */
static bool is_training(tn_lower_t *lower) {
  int64_t value = 0;
  int32_t count = 0;
  tn_ref_t *mode = lower->input_count > 2 ? lower->inputs[2] : NULL;
  if (!mode) return false;
  if (!tn_lower_known(lower, mode, &value, 1, &count))
    tn_lower_fail(lower, "input 2 (`training_mode`) must be a constant");
  return value != 0;
}

static void lower_dropout(tn_lower_t *lower) {
  tn_ref_t *x = lower->inputs[0], *ratio = lower->input_count > 1 ? lower->inputs[1] : NULL;
  const tenon_tensor_t *tensor = NULL;
  bool training = is_training(lower);
  (void)tn_lower_attr(lower, "seed");
  (void)tn_lower_attr(lower, "ratio");
  (void)tn_lower_attr(lower, "is_test");
  double share = 0.5;
  if (training && ratio) {
    if (lower->status == TENON_OK) lower->status = tn_ref_value(lower->import, ratio, &tensor);
    if (!tensor || tenon_dtype_id(tensor->dtype) != TENON_F32)
      tn_lower_fail(lower, "input 1 (`ratio`) must be a constant of type f32");
    else share = (double)*(const float *)tensor->data;
  }
  if (training && share > 0) {
    static const tn_rule_t rule = {"Dropout(x, ratio?, training?) = dropout(x, ratio=0.5)", 1, NULL};
    if (share == 0.5) tn_rule_run(&rule, lower);
    else tn_lower_fail(lower, "training with a ratio other than 0.5 is not supported");
    return;
  }
  lower->outputs[0] = tn_lower_run(lower, TN_REFS(x), "identity(a)");
  if (lower->output_count > 1)
    lower->outputs[1] = lower->version < 10
                            ? tn_lower_run(lower, TN_REFS(x), "expand(1:a, shape(a))")
                            : tn_lower_run(lower, TN_REFS(x), "expand(1:bool, shape(a))");
}

/* a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N), for n < size and N = size, or size - 1 when the window is symmetric. */
static void lower_window(tn_lower_t *lower) {
  static const struct {
    const char *type;
    double a[3];
  } windows[] = {{"HannWindow", {0.5, 0.5, 0}},
                 {"HammingWindow", {25.0 / 46, 21.0 / 46, 0}},
                 {"BlackmanWindow", {0.42, 0.5, 0.08}}};
  size_t w = 0;
  tenon_dtype_t dtype = tenon_dtype(TENON_F32);
  int64_t type = tn_lower_int(lower, "output_datatype", 1);
  bool periodic = tn_lower_int(lower, "periodic", 1) != 0;
  while (w < 2 && strcmp(windows[w].type, lower->node->type) != 0) w++;
  if (!tn_onnx_dtype(type, &dtype)) tn_lower_fail(lower, "attribute 'output_datatype': no element type %lld", (long long)type);
  tn_ref_t *size = tn_lower_run(lower, TN_REFS(lower->inputs[0]), "cast(a, to='f32')");
  tn_ref_t *angle = tn_lower_run(lower, TN_REFS(size), "mul(range(0:f32, a, 1:f32), div(6.283185307179586:f32, %s))",
                                 periodic ? "a" : "sub(a, 1:f32)");
  tn_ref_t *y = tn_lower_run(lower, TN_REFS(angle), "sub(%.17g:f32, mul(%.17g:f32, cos(a)))", windows[w].a[0],
                             windows[w].a[1]);
  if (windows[w].a[2] > 0)
    y = tn_lower_run(lower, TN_REFS(y, angle), "add(a, mul(%.17g:f32, cos(mul(b, 2:f32))))", windows[w].a[2]);
  tn_ref_t *like = tn_lower_scalar(lower, dtype, 0);
  lower->outputs[0] = tn_lower_run(lower, TN_REFS(y, like), "cast(a, to=:b)");
}

/* clang-format off */
static const tn_rule_t rules[] = {
  {"RandomNormal(-seed) = normal(@shape, mean=mean?0.0, scale=scale?1.0, dtype=dtype?'f32')", 1, NULL},
  {"RandomNormalLike(x, -seed) = normal(shape(x), mean=mean?0.0, scale=scale?1.0, dtype=dtype?:x)", 1, NULL},
  {"RandomUniform(-seed) = uniform(@shape, low=low?0.0, high=high?1.0, dtype=dtype?'f32')", 1, NULL},
  {"RandomUniformLike(x, -seed) = uniform(shape(x), low=low?0.0, high=high?1.0, dtype=dtype?:x)", 1, NULL},
  {"Bernoulli(x, -seed) = bernoulli(x, dtype=dtype?:x)", 15, NULL},
  {"Dropout(x, ratio?, training?)", 1, lower_dropout},
  {"HannWindow(size)", 17, lower_window},
  {"HammingWindow(size)", 17, lower_window},
  {"BlackmanWindow(size)", 17, lower_window},
};
/* clang-format on */

TN_RULES(tn_rules_random, "");
