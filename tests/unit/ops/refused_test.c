/* Arguments that operators refuse before anything is read: shapes that random calls found
 * (tests/fuzz/call_fuzz.c), above all gradients of another shape than the result. */
#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

typedef struct wrong_t {
  const char *op;
  const char *attrs;
  const char *inputs[7];
  const char *part; /* part of the message */
} wrong_t;

static const char of_result[] = "which is not the shape of the forward result";

static const wrong_t wrongs[] = {
    {"conv_backward", NULL, {"f32[1] 1", "f32[1,1,3] 1 2 3", "f32[1,1,2] 1 2"}, of_result},
    {"conv_backward", NULL, {"f32[1] 1", "f32[1] 1", "f32[1] 1"}, "expected at least 3"},
    {"conv_backward", NULL, {"f32[1,1,3] 1 2 3", "f32[1,1,3] 1 2 3", "f32[1,1,2] 1 2"}, of_result},
    {"conv_transpose_backward",
     NULL,
     {"f32[1,1,3] 1 2 3", "f32[1,1,3] 1 2 3", "f32[1,1,2] 1 2"},
     of_result},
    {"conv_transpose_backward", NULL, {"f32[] 1", "f32[] 1", "f32[] 1"}, "expected at least 3"},
    {"deform_conv_backward",
     NULL,
     {"f32[1,1,2,2] 1 2 3 4", "f32[1,1,3,3] 1 2 3 4 5 6 7 8 9", "f32[1] 1",
      "f32[1,2,3,3] 1 2 3 4 5 6 7 8 9 1 2 3 4 5 6 7 8 9"},
     "x has 4 axes and w 1"},
    {"group_norm_backward", "groups=1", {"f32[2] 1 2", "f32[2] 1 2"}, "expected at least 2"},
    {"group_norm_backward", "groups=1", {"f32[2] 1 2", "f32[1,2] 1 2"}, of_result},
    {"layer_norm_backward", NULL, {"f32[3] 1 2 3", "f32[2] 1 2"}, of_result},
    {"layer_norm_backward", "axis=5", {"f32[2] 1 2", "f32[2] 1 2"}, "axis 5"},
    {"layer_norm_backward",
     NULL,
     {"f32[2] 1 2", "f32[2] 1 2", NULL, NULL, "f32[2] 1 2"},
     "input 4 has shape [2]"},
    {"layer_norm_backward",
     NULL,
     {"f32[2] 1 2", "f32[2] 1 2", NULL, NULL, NULL, "f32[] 1"},
     "input 5 has shape []"},
    {"rms_norm_backward", NULL, {"f32[2,1] 1 2", "f32[2] 1 2"}, of_result},
    {"batch_norm_backward",
     NULL,
     {"f32[2] 1 2", "f32[2] 1 2", "f32[2] 1 2", "f32[2] 1 2", "f32[2] 1 2", "f32[2] 1 2"},
     "expected at least 2"},
    {"lrn_backward",
     "size=-9223372036854775808",
     {"f32[1,1] 1", "f32[1,1] 1"},
     "size is -9223372036854775808"},
    {"lrn_backward", "size=3", {"f32[2] 1 2", "f32[2] 1 2"}, "expected at least 2"},
    {"lp_norm_backward", "axis=3", {"f32[2] 1 2", "f32[2] 1 2"}, "axis 3"},
    {"mean_variance_norm_backward", "axes=[0]", {"f32[1] 1", "f32[2] 1 2"}, of_result},
    {"finish_backward", NULL, {"f32[1] 1", "f32[2] 1 2"}, of_result},
    {"matmul_backward", NULL, {"f32[1,1] 1", "f32[2,1] 1 2", "f32[1,2] 1 2"}, of_result},
    {"gemm_backward", NULL, {"f32[2] 1 2", "f32[2,1] 1 2", "f32[1,2] 1 2"}, of_result},
    {"cum_prod_backward", NULL, {"f32[1] 1", "f32[3] 1 2 3", "i64[] 0"}, of_result},
    {"lp_pool_backward",
     "kernel=[2]",
     {"f32[1,1,3] 1 2 3", "f32[1,1,3] 1 2 3", "f32[1,1,2] 1 2"},
     of_result},
    {"softmax_backward", NULL, {"f32[1] 1", "f32[4] 1 2 3 4"}, "dy has shape [1] and y has [4]"},
    {"log_softmax_backward",
     NULL,
     {"f32[4,1] 1 2 3 4", "f32[4] 1 2 3 4"},
     "dy has shape [4, 1] and y has [4]"},
    {"cum_prod_backward",
     NULL,
     {"f32[3] 1 2 3", "f32[3] 1 2 3", "i64[0]"},
     "axis lists 0 axes; expected one"},
    {"dft_backward", NULL, {"f32[1,2,2] 1 2 3 4", "i64[3] 1 3 1"}, of_result},
    {"dft_backward", NULL, {"f32[] 1", "i64[0]"}, "shape"},
    {"stft_backward",
     NULL,
     {"f32[0,3,4,2]", "f32[0,12,1]", "i64[] 4", "f32[6] 1 1 1 1 1 1"},
     of_result},
    {"stft_backward",
     NULL,
     {"f32[0,2,4,2]", "f32[0,12,1]", "i64[0]", "f32[6] 1 1 1 1 1 1"},
     "expected one"},
    {"pad_backward", NULL, {"f32[2] 1 2", "i64[1] 4", "i64[2] 1 1"}, of_result},
    {"pad_backward",
     NULL,
     {"f32[2] 1 2", "i64[1] 2", "i64[3] 0 0 0"},
     "pads has 3 numbers for 1 axes"},
    {"tensor_scatter_backward", NULL, {"f32[1,2,1] 1 2", "i64[3] 1 3 1"}, "does not fit"},
    {"rotary_embedding",
     NULL,
     {"f32[1,1,1,2] 1 2", "f32[2,1] 1 1", "f32[1,1] 1", "i64[1,1] 1"},
     "cos_cache has 2 rows and sin_cache 1"},
    {"pad", NULL, {"f32[1] 1", "i64[2] -9223372036854775808 -9223372036854775808"}, "overflow"},
    {"trilu", NULL, {"f32[1,1] 1", "i64[2] 1 2"}, "k must be one number"},
    {"one_hot", NULL, {"f32[1] 1", "f32[2] 1 2", "f32[2] 0 1"}, "expected one number"},
    {"eye_like", "dtype=i4", {"f32[1,1] 1"}, "dtype must be a number of 8 bits or more"},
    {"matmul_integer", NULL, {"u8[1,1] 1", "u8[1,1] 1", "u8[2,1,1] 1 2"}, "broadcasts to [1, 1]"},
};

TEST("an input of the wrong shape is refused before anything is read") {
  for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
    const wrong_t *w = &wrongs[i];
    char name[64];
    tenon_tensor_t *inputs[8] = {NULL};
    tenon_tensor_t *outputs[8] = {NULL};
    snprintf(name, sizeof name, "core::%s", w->op);
    const tenon_op_t *op = op_of(name);
    tenon_attrs_t *attrs = attrs_of(op, w->attrs);
    for (int k = 0; k < 7; k++)
      if (w->inputs[k]) inputs[k] = tensor_of(w->inputs[k]);
    CHECK_STATUS(tenon_op_call(op, attr_values(attrs), inputs, outputs, 1), TENON_INVALID);
    CHECK_TEXT(tenon_error(), w->part);
    CHECK_TEXT(tenon_error(), w->op);
    for (int k = 0; k < 8; k++) {
      tenon_tensor_release(inputs[k]);
      tenon_tensor_release(outputs[k]);
    }
    tenon_attrs_release(attrs);
  }
}

TEST("core::range refuses an empty tensor where a number is needed") {
  tenon_tensor_t *none = tensor_of("f32[0]");
  tenon_tensor_t *one = tensor_of("f32[] 1");
  tenon_tensor_t *out = NULL;
  for (int i = 0; i < 3; i++) {
    tenon_tensor_t *inputs[3] = {i == 0 ? none : one, i == 1 ? none : one, i == 2 ? none : one};
    CHECK_STATUS(tenon_op_call(op_of("core::range"), NULL, inputs, &out, 0), TENON_INVALID);
    CHECK_TEXT(tenon_error(), "start, limit and delta must be single numbers");
  }
  tenon_tensor_release(none);
  tenon_tensor_release(one);
}

TEST("nothing is left behind") { tenon_shutdown(); }
