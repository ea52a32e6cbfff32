/* Trains a small network of two hidden layers on two spirals, which the program draws. The
 * activation is an operator of this file with its own backward, which the program registers.
 * Recording is off while the weights are updated.
 *   training [steps] [file]: writes weights, data and the loss of each step to `file`, for
 *   reference.py */
#define TENON_STATIC
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

/* the operator: bend(x) = x + sin(x) */

static tenon_status_t bend(const tenon_loop_t *loop) {
  const double *x = (const double *)loop->data[0];
  double *y = (double *)loop->data[1];
  for (int64_t i = 0; i < loop->count; i++)
    y[i] = x[i] + sin(x[i]);
  return TENON_OK;
}

static tenon_status_t bend_backward(const tenon_loop_t *loop) {
  const double *dy = (const double *)loop->data[0];
  const double *x = (const double *)loop->data[1];
  double *dx = (double *)loop->data[2];
  for (int64_t i = 0; i < loop->count; i++)
    dx[i] = dy[i] * (1 + cos(x[i]));
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(training, "1.0.0",
  TENON_OP("bend(Tensor x) -> Tensor", TENON_TYPES("x: f64; out = x"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_GRADIENT("x: training::bend_backward(grad, x)"), TENON_LOOP("f64 -> f64", bend)),
  TENON_OP("bend_backward(Tensor dy, Tensor x) -> Tensor", TENON_TYPES("dy, x: f64; out = x"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_LOOP("f64, f64 -> f64", bend_backward)))
/* clang-format on */

/* helpers */

static void must(tenon_status_t status) {
  if (status == TENON_OK) return;
  fprintf(stderr, "training: %s\n", tenon_error());
  exit(1);
}

static const tenon_op_t *op(const char *name) {
  const tenon_op_t *found;
  must(tenon_op_find(name, &found));
  return found;
}

static tenon_tensor_t *call(const tenon_op_t *op, tenon_tensor_t *a, tenon_tensor_t *b,
                            tenon_tensor_t *c) {
  tenon_tensor_t *out = NULL;
  must(tenon_op_call(op, NULL, (tenon_tensor_t *[]){a, b, c}, &out, 0));
  return out;
}

/* Makes a matrix of random numbers between -scale and scale; every tensor takes a seed of its
 * own. */
static tenon_tensor_t *random_tensor(int64_t rows, int64_t columns, double scale, uint64_t seed) {
  tenon_tensor_t *t;
  must(tenon_tensor_create(tenon_dtype(TENON_F64), 2, (int64_t[]){rows, columns}, &t));
  for (int64_t i = 0; i < rows * columns; i++)
    ((double *)t->data)[i] = scale * (2.0 * tenon_random(seed, (uint64_t)i) / 4294967296.0 - 1);
  return t;
}

static void dump(FILE *file, const tenon_tensor_t *t) {
  fprintf(file, "%lld %lld", (long long)t->shape[0], (long long)t->shape[1]);
  for (int64_t i = 0; i < tenon_count(t); i++)
    fprintf(file, " %.17g", ((const double *)t->data)[i]);
  fprintf(file, "\n");
}

/* the network */

enum {
  POINTS = 200,
  HIDDEN = 24,
  WEIGHTS = 6,
};
static const double rate = 0.05;

static void spirals(tenon_tensor_t *x, tenon_tensor_t *target) {
  for (int i = 0; i < POINTS; i++) {
    int arm = i & 1;
    double t = 0.3 + 3.0 * i / POINTS;
    double angle = 2.2 * t + 3.14159265358979312 * arm;
    ((double *)x->data)[2 * i] = t * cos(angle);
    ((double *)x->data)[2 * i + 1] = t * sin(angle);
    ((double *)target->data)[2 * i] = arm == 0;
    ((double *)target->data)[2 * i + 1] = arm == 1;
  }
}

static void progress(int step, int steps, double loss) {
  char bar[41] = "........................................";
  memset(bar, '#', (size_t)(40 * step / steps));
  printf("\r[%s] step %d of %d, loss %.6f", bar, step, steps, loss);
  fflush(stdout);
}

int main(int argc, char **argv) {
  int steps = argc > 1 ? atoi(argv[1]) : 400;
  FILE *file = argc > 2 ? fopen(argv[2], "w") : NULL;
  must(tenon_library_add(tenon_library_training(), NULL, NULL, NULL));
  const tenon_op_t *matmul = op("core::matmul");
  const tenon_op_t *activate = op("training::bend");
  const tenon_op_t *softmax = op("core::log_softmax");
  const tenon_op_t *mul = op("core::mul");
  const tenon_op_t *add = op("core::add");
  const tenon_op_t *sum = op("core::reduce_sum");

  tenon_tensor_t *x = random_tensor(POINTS, 2, 0, 0);
  tenon_tensor_t *target = random_tensor(POINTS, 2, 0, 0);
  tenon_tensor_t *minus_mean = random_tensor(1, 1, 0, 0);
  tenon_tensor_t *minus_rate = random_tensor(1, 1, 0, 0);
  tenon_tensor_t *weights[WEIGHTS] = {
      random_tensor(2, HIDDEN, 0.7, 1),      random_tensor(1, HIDDEN, 0.1, 2),
      random_tensor(HIDDEN, HIDDEN, 0.3, 3), random_tensor(1, HIDDEN, 0.1, 4),
      random_tensor(HIDDEN, 2, 0.3, 5),      random_tensor(1, 2, 0.1, 6)};
  spirals(x, target);
  *(double *)minus_mean->data = -1.0 / POINTS;
  *(double *)minus_rate->data = -rate;
  for (int i = 0; i < WEIGHTS; i++)
    must(tenon_tensor_require_grad(weights[i], 1));
  if (file) {
    dump(file, x);
    dump(file, target);
  }
  for (int i = 0; i < WEIGHTS && file; i++)
    dump(file, weights[i]);

  double loss_value = 0;
  for (int step = 1; step <= steps; step++) {
    tenon_tensor_t *z1 = call(matmul, x, weights[0], weights[1]);
    tenon_tensor_t *h1 = call(activate, z1, NULL, NULL);
    tenon_tensor_t *z2 = call(matmul, h1, weights[2], weights[3]);
    tenon_tensor_t *h2 = call(activate, z2, NULL, NULL);
    tenon_tensor_t *z3 = call(matmul, h2, weights[4], weights[5]);
    tenon_tensor_t *logs = call(softmax, z3, NULL, NULL);
    tenon_tensor_t *hits = call(mul, logs, target, NULL);
    tenon_tensor_t *total = call(sum, hits, NULL, NULL);
    tenon_tensor_t *loss = call(mul, total, minus_mean, NULL);
    loss_value = *(double *)loss->data;
    if (file) fprintf(file, "%.17g\n", loss_value);
    must(tenon_backward(&loss, NULL, 1, 0));

    tenon_grad_mode_set(0);
    for (int i = 0; i < WEIGHTS; i++) {
      tenon_tensor_t *move = call(mul, tenon_tensor_grad(weights[i]), minus_rate, NULL);
      must(tenon_op_call_into(add, NULL, (tenon_tensor_t *[]){weights[i], move}, &weights[i]));
      must(tenon_tensor_grad_set(weights[i], NULL));
      tenon_tensor_release(move);
    }
    tenon_grad_mode_set(1);

    tenon_tensor_t *all[] = {z1, h1, z2, h2, z3, logs, hits, total, loss};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
      tenon_tensor_release(all[i]);
    progress(step, steps, loss_value);
  }
  printf("\n");
  if (file) fclose(file);
  tenon_tensor_t *rest[] = {x, target, minus_mean, minus_rate};
  for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
    tenon_tensor_release(rest[i]);
  for (int i = 0; i < WEIGHTS; i++)
    tenon_tensor_release(weights[i]);
  tenon_shutdown();
  return !(loss_value < 1e9);
}
