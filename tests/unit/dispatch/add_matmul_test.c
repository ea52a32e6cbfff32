/* Matrix products that are added to the output as they are computed: the values equal those of
 * plain loops, and no second call adds them. */
#include "check.h"
#include "tensors.h"

#include "adding.h"
#include "capture.h"
#include "operators.h"

#include "../autograd/tape.h"

enum {
  M = 40,
  K = 33,
  N = 50,
};

static void check_matmul(uint32_t dtype, int transpose, bool has_bias, bool is_strided,
                         const char *activation, bool accumulates) {
  tenon_tensor_t *a = NULL;
  tenon_tensor_t *b = NULL;
  tenon_tensor_t *y = NULL;
  tenon_tensor_t *bias = NULL;
  char attrs_text[100];
  tenon_dtype_t of = tenon_dtype(dtype);
  CHECK_STATUS(tenon_tensor_create(of, 2, transpose ? (int64_t[]){K, M} : (int64_t[]){M, K}, &a),
               TENON_OK);
  CHECK_STATUS(tenon_tensor_create(of, 2, (int64_t[]){K, N}, &b), TENON_OK);
  CHECK_STATUS(tenon_tensor_create(of, 2, (int64_t[]){M, N}, &y), TENON_OK);
  CHECK_STATUS(tenon_tensor_create(of, 1, (int64_t[]){N}, &bias), TENON_OK);
  tenon_tensor_t *all[4] = {a, b, y, bias};
  for (int t = 0; t < 4; t++)
    for (int64_t i = 0; i < tenon_count(all[t]); i++) {
      /* Sums of products of these numbers are exact. */
      int32_t value = (int32_t)((i * 7 + t * 3) % 11) - 5;
      if (dtype == TENON_F32)
        ((float *)all[t]->data)[i] = (float)value;
      else if (dtype == TENON_F64)
        ((double *)all[t]->data)[i] = value;
      else if (dtype == TENON_BF16)
        ((uint16_t *)all[t]->data)[i] = (uint16_t)float_encode(float_kind(of), value);
      else
        ((int32_t *)all[t]->data)[i] = value;
    }
  double *expected = calloc(M * N, sizeof *expected);
  for (int64_t i = 0; i < M; i++)
    for (int64_t j = 0; j < N; j++) {
      double sum = has_bias ? number(bias, j) : 0;
      for (int64_t k = 0; k < K; k++)
        sum += number(a, transpose ? k * M + i : i * K + k) * number(b, k * N + j);
      expected[i * N + j] = number(y, i * N + j) + (*activation == 'r' && sum < 0 ? 0 : sum);
    }
  tenon_tensor_t *inputs[3] = {a, b, has_bias ? bias : NULL};
  snprintf(attrs_text, sizeof attrs_text, "transpose_a=%s; activation=%s",
           transpose ? "True" : "False", activation);
  tenon_attrs_t *attrs = attrs_of(op_of("core::matmul"), attrs_text);
  for (int round = 0; round < 3;
       /* oneDNN creates a primitive when extents occur a second time. */
       round++) {
    tenon_tensor_t *out = is_strided ? turned(y) : copied(y, cpu);
    CHECK_STATUS(tenon_trace_set("dispatch"), TENON_OK);
    capture();
    CHECK_STATUS(tenon_op_call_add(op_of("core::matmul"), attr_values(attrs), inputs, &out, 1),
                 TENON_OK);
    const char *trace = release_capture();
    CHECK_STATUS(tenon_trace_set(NULL), TENON_OK);
    CHECK_TEXT(trace, "call core::matmul {cpu");
    CHECK(strstr(trace, " adds\n") && !strstr(trace, "core::add") == accumulates);
    check_numbers(out, expected, dtype == TENON_BF16 ? 1.0 / 128 : 0);
    tenon_tensor_release(out);
  }
  tenon_attrs_release(attrs);
  free(expected);
  RELEASE(a, b, y, bias);
}

TEST("a matrix product is added while it is computed, without a call of core::add") {
  for (int i = 0; i < 8; i++) {
    check_matmul(TENON_F32, i & 1, i >> 1 & 1, i >> 2 & 1, "none", true);
    check_matmul(TENON_F64, i & 1, i >> 1 & 1, i >> 2 & 1, "none", true);
    check_matmul(TENON_I32, i & 1, i >> 1 & 1, i >> 2 & 1, "none", true);
  }
  check_matmul(TENON_F32, 0, true, false, "relu", false);  /* relu does not apply to the sum. */
  check_matmul(TENON_BF16, 0, true, false, "none", false); /* The product is computed in f32. */
}

TEST("gemm with a factor other than 1 declines to add, but batches and products without terms do "
     "not") {
  tenon_tensor_t *a = tensor_of("f32[2, 2] 1 2 3 4");
  tenon_tensor_t *b = tensor_of("f32[2, 2] 1 0 0 1");
  tenon_tensor_t *y = tensor_of("f32[2, 2] 1 1 1 1");
  tenon_tensor_t *inputs[3] = {a, b, a};
  tenon_attrs_t *attrs = attrs_of(op_of("core::gemm"), "alpha=3; beta=2");
  CHECK_STATUS(tenon_op_call_add(op_of("core::gemm"), attr_values(attrs), inputs, &y, 1), TENON_OK);
  CHECK_TENSOR(y, "f32[2, 2] 6 11 16 21");
  tenon_attrs_release(attrs);
  tenon_tensor_t *stack[3] = {tensor_of("f64[2, 1, 2] 1 2 3 4"), tensor_of("f64[2, 2, 1] 1 1 2 2"),
                              NULL};
  tenon_tensor_t *two = tensor_of("f64[2, 1, 1] 10 20");
  tenon_tensor_t *none[3] = {tensor_of("f32[2, 0]"), tensor_of("f32[0, 2]"), NULL};
  CHECK_STATUS(tenon_op_call_add(op_of("core::matmul"), NULL, stack, &two, 1), TENON_OK);
  CHECK_TENSOR(two, "f64[2, 1, 1] 13 34");
  CHECK_STATUS(tenon_op_call_add(op_of("core::matmul"), NULL, none, &y, 1), TENON_OK);
  CHECK_TENSOR(y, "f32[2, 2] 6 11 16 21");
  RELEASE(a, b, y, stack[0], stack[1], two, none[0], none[1]);
}
