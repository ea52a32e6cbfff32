/* qlinear_add against the same sum in floats, rounded by the C library, for all pairs of 8-bit
 * numbers and for remainders of vectors, on every instruction set that the processor has. */
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

enum { CODES = 256, LONGEST = 70 };

typedef struct sum_case_t {
  bool is_signed[3]; /* a, b and the result */
  int zeros[3];
  float scales[3];
} sum_case_t;

static const sum_case_t cases[] = {
    {{false, false, false}, {0, 0, 0}, {0.5f, 0.25f, 0.5f}},
    {{false, false, false}, {0, 0, 0}, {0.05f, 0.05f, 0.1f}}, /* halves, if it is divided */
    {{false, false, false}, {128, 3, 117}, {0.0371f, 0.0213f, 0.0459f}},
    {{true, true, true}, {0, -7, 5}, {0.013f, 0.021f, 0.0179f}},
    {{true, false, true}, {-128, 255, -128}, {1.5f, 0.3f, 0.7f}},
    {{false, true, false}, {17, 127, 255}, {1e-3f, 2e-3f, 1e-6f}}, /* nearly all are clamped */
    {{false, false, false}, {1, 2, 3}, {3e38f, 3e38f, 1e-30f}},    /* infinities */
};

static tenon_tensor_t *numbers_of(bool is_signed, int64_t count, const uint8_t *bytes) {
  tenon_tensor_t *t = NULL;
  tenon_dtype_t dtype = tenon_dtype(is_signed ? TENON_I8 : TENON_U8);
  CHECK_STATUS(tenon_tensor_create(dtype, 1, &count, &t), TENON_OK);
  memcpy(t->data, bytes, (size_t)count);
  return t;
}

static tenon_tensor_t *zero_of(const sum_case_t *c, int side) {
  const uint8_t byte = (uint8_t)c->zeros[side];
  return numbers_of(c->is_signed[side], 1, &byte);
}

static tenon_tensor_t *scale_of(const sum_case_t *c, int side) {
  tenon_tensor_t *t = NULL;
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 0, NULL, &t), TENON_OK);
  *(float *)t->data = c->scales[side];
  return t;
}

static float float_of(const sum_case_t *c, int side, uint8_t byte) {
  float difference = (float)((c->is_signed[side] ? (int8_t)byte : byte) - c->zeros[side]);
  return difference * c->scales[side];
}

static int expected_of(const sum_case_t *c, uint8_t a, uint8_t b) {
  const float least = c->is_signed[2] ? -128 : 0;
  float sum = float_of(c, 0, a) + float_of(c, 1, b);
  float y = rintf(sum / c->scales[2]) + (float)c->zeros[2];
  if (!(y > least)) return (int)least; /* also NaN */
  return (int)fminf(y, least + 255);
}

static void check_sum(const sum_case_t *c, int64_t count, const uint8_t *a, const uint8_t *b) {
  tenon_tensor_t *in[] = {numbers_of(c->is_signed[0], count, a),
                          scale_of(c, 0),
                          zero_of(c, 0),
                          numbers_of(c->is_signed[1], count, b),
                          scale_of(c, 1),
                          zero_of(c, 1),
                          scale_of(c, 2),
                          zero_of(c, 2)};
  tenon_tensor_t *out = NULL;
  int64_t mistakes = 0;
  CHECK_STATUS(tenon_op_call(op_of("core::qlinear_add"), NULL, in, &out, 0), TENON_OK);
  for (int64_t i = 0; out && i < count; i++)
    mistakes += tensor_int(out, i) != expected_of(c, a[i], b[i]);
  if (!CHECK(out && mistakes == 0))
    fprintf(stderr, "  %d numbers, scale %g\n", (int)count, (double)c->scales[0]);
  for (size_t i = 0; i < sizeof in / sizeof *in; i++)
    tenon_tensor_release(in[i]);
  tenon_tensor_release(out);
}

static void check_sums(void) {
  static uint8_t a[CODES * CODES], b[CODES * CODES];
  for (int i = 0; i < CODES * CODES; i++) {
    a[i] = (uint8_t)(i / CODES);
    b[i] = (uint8_t)i;
  }
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    check_sum(&cases[i], CODES * CODES, a, b);
    for (int64_t count = 0; count <= LONGEST; count++)
      check_sum(&cases[i], count, a + 300 * count, b + 300 * count);
  }
}

TEST("sums of 8-bit numbers are those of floats on every instruction set") {
  static const char *const limits[] = {"default", "avx2", "avx512"};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    pid_t child = fork(); /* because a process chooses once */
    if (child == 0) {
      setenv("TENON_CPU_CAPABILITY", limits[i], 1);
      check_sums();
      tenon_shutdown();
      _exit(check_failures != 0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    if (!CHECK(status == 0)) fprintf(stderr, "  TENON_CPU_CAPABILITY=%s\n", limits[i]);
  }
}

TEST("operands of other shapes are refused") {
  const char *texts[16] = {"u8[2] 1 2", "f32[] 1", "u8[] 0",  "u8[1] 1",
                           "f32[] 1",   "u8[] 0",  "f32[] 1", "u8[] 0"};
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(call_op("core::qlinear_add", NULL, texts, &out), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "b has shape [1]; expected that of a, [2]");
  texts[3] = "u8[2] 1 1";
  texts[7] = "u8[2] 0 0";
  CHECK_STATUS(call_op("core::qlinear_add", NULL, texts, &out), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "y_zero_point has shape [2]; expected one number");
}

TEST("nothing is left behind") { tenon_shutdown(); }
