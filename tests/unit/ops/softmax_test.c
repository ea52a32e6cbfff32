/* softmax and log_softmax along every axis, compared with sums of doubles, on every instruction set
 * that the processor has. */
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

enum {
  REMAINDERS = 67,
  LONG = 4099, /* more than the kernels sum at once */
};

static uint64_t seed = 2718;
static int64_t pick(int64_t count) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((seed >> 33) % (uint64_t)count);
}

typedef struct softmax_case_t {
  int64_t outer, n, inner; /* the axis has n elements, `inner` apart */
  uint32_t dtype;
  double range;   /* numbers are between -range and range */
  bool has_holes; /* some numbers are -infinity, but never a whole row */
  bool is_log;
} softmax_case_t;

/* Fills in numbers that the dtype can hold exactly. */
static tenon_tensor_t *random_rows(const softmax_case_t *c) {
  tenon_tensor_t *wide = NULL;
  tenon_tensor_t *x[1] = {NULL};
  const int64_t shape[3] = {c->outer, c->n, c->inner};
  const char *to = c->dtype == TENON_F64 ? "to=f64" : c->dtype == TENON_F16 ? "to=f16" : "to=f32";
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F64), 3, shape, &wide), TENON_OK);
  for (int64_t i = 0; i < tenon_count(wide); i++) {
    double value = (double)(pick(2049) - 1024) / 1024 * c->range;
    if (c->has_holes && i / c->inner % c->n && pick(4) == 0) value = -INFINITY;
    ((double *)wide->data)[i] = value;
  }
  tenon_attrs_t *attrs = attrs_of(op_of("core::cast"), to);
  CHECK_STATUS(tenon_op_call(op_of("core::cast"), attr_values(attrs), &wide, x, 0), TENON_OK);
  tenon_attrs_release(attrs);
  tenon_tensor_release(wide);
  return x[0];
}

/* Compares one row; returns how many elements are wrong. `first` is its first element. */
static int compare_row(const softmax_case_t *c, const tenon_tensor_t *x, const tenon_tensor_t *out,
                       int64_t first) {
  double most = -INFINITY;
  double sum = 0;
  int mistakes = 0;
  double step = c->dtype == TENON_F64 ? 0x1p-52 : 0x1p-23;
  if (c->dtype == TENON_F16) step = 0x1p-10;
  const double units = 8 + sqrt((double)c->n); /* a column is summed in order */
  const double least =
      c->dtype == TENON_F16 ? 0x1p-24 : 0x1p-126; /* denormal numbers may be lost */
  for (int64_t r = 0; r < c->n; r++)
    most = fmax(most, tensor_float(x, first + r * c->inner));
  for (int64_t r = 0; r < c->n; r++)
    sum += exp(tensor_float(x, first + r * c->inner) - most);
  for (int64_t r = 0; r < c->n; r++) {
    double shifted = tensor_float(x, first + r * c->inner) - most;
    double expected = c->is_log ? shifted - log(sum) : exp(shifted) / sum;
    double found = tensor_float(out, first + r * c->inner);
    if (expected == found) continue;
    mistakes += !(fabs(found - expected) <= least + units * step * (fabs(expected) + c->is_log));
  }
  return mistakes;
}

static void compare_softmax(const softmax_case_t *c) {
  const tenon_op_t *op = op_of(c->is_log ? "core::log_softmax" : "core::softmax");
  tenon_attrs_t *attrs = attrs_of(op, "axis=1");
  tenon_tensor_t *x = random_rows(c);
  tenon_tensor_t *outputs[1] = {NULL};
  int mistakes = 0;
  if (CHECK_STATUS(tenon_op_call(op, attr_values(attrs), &x, outputs, 0), TENON_OK))
    for (int64_t i = 0; i < c->outer * c->inner; i++)
      mistakes += compare_row(c, x, outputs[0], i / c->inner * c->n * c->inner + i % c->inner);
  if (!CHECK(mistakes == 0))
    fprintf(stderr, "  %d wrong: %s of [%d, %d, %d], %s, range %g, holes %d\n", mistakes,
            c->is_log ? "log_softmax" : "softmax", (int)c->outer, (int)c->n, (int)c->inner,
            tenon_dtype_name(tenon_dtype(c->dtype)), c->range, c->has_holes);
  tenon_tensor_release(x);
  tenon_tensor_release(outputs[0]);
  tenon_attrs_release(attrs);
}

static void compare_shape(int64_t outer, int64_t n, int64_t inner) {
  static const uint32_t ids[] = {TENON_F32, TENON_F64, TENON_F16};
  static const double ranges[] = {1, 10, 80};
  for (int d = 0; d < 3; d++)
    for (int is_log = 0; is_log < 2; is_log++) {
      softmax_case_t c = {outer, n, inner, ids[d], ranges[pick(3)], pick(3) == 0, is_log};
      compare_softmax(&c);
    }
}

static void compare_shapes(void) {
  for (int64_t n = 1; n <= REMAINDERS; n++) {
    compare_shape(3, n, 1);
    compare_shape(2, 5, n); /* n columns side by side */
    compare_shape(1, n, 3);
  }
  compare_shape(2, LONG, 1);
  compare_shape(1, LONG, 2);
  compare_shape(2, 3, LONG);
}

TEST("softmax equals sums of doubles on every instruction set") {
  static const char *const limits[] = {"default", "avx2", "avx512"};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    pid_t child = fork(); /* because a process chooses once */
    if (child == 0) {
      setenv("TENON_CPU_CAPABILITY", limits[i], 1);
      compare_shapes();
      tenon_shutdown();
      _exit(check_failures != 0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    if (!CHECK(status == 0)) fprintf(stderr, "  TENON_CPU_CAPABILITY=%s\n", limits[i]);
  }
}

TEST("nothing is left behind") { tenon_shutdown(); }
