/* Lowerings of random operators, dropout and window functions. Seeds of single nodes are ignored: a
 * run draws from one stream of random numbers. */
#include <string.h>

#include "import/onnx/lower.h"

/* Whether dropout is active: 0: no, 1: yes, -1: known only when the graph runs. An input states it
 * since operator set 12; before, dropout was never active (is_test = 0 was for training tools). */
static int is_training(tn_lower_t *lower) {
  int64_t value = 0;
  int32_t count = 0;
  tn_ref_t *mode = lower->input_count > 2 ? lower->inputs[2] : NULL;
  if (!mode) return 0;
  return tn_lower_known(lower, mode, &value, 1, &count) ? value != 0 : -1;
}

/* If `training` is true, keeps an element if a random number is not below the ratio, and scales the
 * elements that are kept by 1 / (1 - ratio). */
static void lower_training_dropout(tn_lower_t *lower) {
  tn_ref_t *x = lower->inputs[0];
  tn_ref_t *ratio = lower->inputs[1];
  tn_ref_t *training = lower->inputs[2];
  if (!ratio) ratio = tn_lower_scalar(lower, tenon_dtype(TENON_F32), 0.5);
  tn_ref_t *keep = tn_lower_run(lower, TN_REFS(x, ratio, training),
                                "or(greater_equal(uniform(shape(a)), cast(b, to='f32')), not(c))");
  tn_ref_t *scale = tn_lower_run(lower, TN_REFS(x, ratio, training),
                                 "where(c, cast_like(reciprocal(sub(1:b, b)), a), 1:a)");
  lower->outputs[0] = tn_lower_run(lower, TN_REFS(x, keep, scale), "where(b, mul(a, c), 0:a)");
  if (lower->output_count > 1) lower->outputs[1] = keep;
}

static void lower_dropout(tn_lower_t *lower) {
  tn_ref_t *x = lower->inputs[0];
  (void)tn_lower_attr(lower, "seed");
  (void)tn_lower_attr(lower, "ratio");
  (void)tn_lower_attr(lower, "is_test");
  if (is_training(lower) != 0) {
    lower_training_dropout(lower);
    return;
  }
  const char *mask = lower->version < 10 ? "expand(1:a, shape(a))" : "expand(1:bool, shape(a))";
  lower->outputs[0] = tn_lower_run(lower, TN_REFS(x), "identity(a)");
  if (lower->output_count > 1) lower->outputs[1] = tn_lower_run(lower, TN_REFS(x), "%s", mask);
}

/* a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N), for n < size, where N is size for a periodic window
 * and size - 1 for a symmetric one. */
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
  while (w < 2 && strcmp(windows[w].type, lower->node->type) != 0)
    w++;
  if (!tn_onnx_dtype(type, &dtype))
    tn_lower_fail(lower, "attribute 'output_datatype': %lld is not an element type",
                  (long long)type);
  tn_ref_t *size = tn_lower_run(lower, TN_REFS(lower->inputs[0]), "cast(a, to='f32')");
  tn_ref_t *angle = tn_lower_run(lower, TN_REFS(size),
                                 "mul(range(0:f32, a, 1:f32), div(6.283185307179586:f32, %s))",
                                 periodic ? "a" : "sub(a, 1:f32)");
  tn_ref_t *y = tn_lower_run(lower, TN_REFS(angle), "sub(%.17g:f32, mul(%.17g:f32, cos(a)))",
                             windows[w].a[0], windows[w].a[1]);
  if (windows[w].a[2] > 0)
    y = tn_lower_run(lower, TN_REFS(y, angle), "add(a, mul(%.17g:f32, cos(mul(b, 2:f32))))",
                     windows[w].a[2]);
  tn_ref_t *like = tn_lower_scalar(lower, dtype, 0);
  lower->outputs[0] = tn_lower_run(lower, TN_REFS(y, like), "cast(a, to=:b)");
}

/* clang-format off */
static const tn_lowering_t lowerings[] = {
  {"RandomNormal(-seed) = "
   "normal(@shape, mean=mean?0.0, scale=scale?1.0, dtype=dtype?'f32')", 1, NULL},
  {"RandomNormalLike(x, -seed) = "
   "normal(shape(x), mean=mean?0.0, scale=scale?1.0, dtype=dtype?:x)", 1, NULL},
  {"RandomUniform(-seed) = "
   "uniform(@shape, low=low?0.0, high=high?1.0, dtype=dtype?'f32')", 1, NULL},
  {"RandomUniformLike(x, -seed) = "
   "uniform(shape(x), low=low?0.0, high=high?1.0, dtype=dtype?:x)", 1, NULL},
  {"Bernoulli(x, -seed) = bernoulli(x, dtype=dtype?:x)", 15, NULL},
  {"Dropout(x, ratio?, training?)", 1, lower_dropout},
  {"HannWindow(size)", 17, lower_window},
  {"HammingWindow(size)", 17, lower_window},
  {"BlackmanWindow(size)", 17, lower_window},
};
/* clang-format on */

TN_LOWERINGS(tn_lowerings_random, "");
