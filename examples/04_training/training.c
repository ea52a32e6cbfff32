/* Trains a small network of two hidden layers on two spirals, which the program draws. The
 * activation is an operator of this file with its own backward, which the program registers.
 *   training calls [steps] [file]: calls the operators one by one. They are recorded, and recording
 *   is off while the weights are updated.
 *   training graph [steps] [file]: builds a graph, differentiates it and compiles the result, which
 *   computes the loss and all gradients.
 * Writes weights, data and the loss of each step to `file`, for reference.py. */
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

typedef struct network_t {
  tenon_tensor_t *x;
  tenon_tensor_t *target;
  tenon_tensor_t *minus_mean;
  tenon_tensor_t *minus_rate;
  tenon_tensor_t *weights[WEIGHTS];
} network_t;

static void network_create(network_t *n) {
  static const int64_t shapes[WEIGHTS][2] = {{2, HIDDEN}, {1, HIDDEN}, {HIDDEN, HIDDEN},
                                             {1, HIDDEN}, {HIDDEN, 2}, {1, 2}};
  static const double scales[WEIGHTS] = {0.7, 0.1, 0.3, 0.1, 0.3, 0.1};
  n->x = random_tensor(POINTS, 2, 0, 0);
  n->target = random_tensor(POINTS, 2, 0, 0);
  n->minus_mean = random_tensor(1, 1, 0, 0);
  n->minus_rate = random_tensor(1, 1, 0, 0);
  for (int i = 0; i < WEIGHTS; i++)
    n->weights[i] = random_tensor(shapes[i][0], shapes[i][1], scales[i], (uint64_t)i + 1);
  spirals(n->x, n->target);
  *(double *)n->minus_mean->data = -1.0 / POINTS;
  *(double *)n->minus_rate->data = -rate;
}

static void network_release(network_t *n) {
  tenon_tensor_release(n->x);
  tenon_tensor_release(n->target);
  tenon_tensor_release(n->minus_mean);
  tenon_tensor_release(n->minus_rate);
  for (int i = 0; i < WEIGHTS; i++)
    tenon_tensor_release(n->weights[i]);
}

/* Adds -rate times its gradient to a weight. */
static void update(const network_t *n, int i, tenon_tensor_t *grad) {
  tenon_tensor_t *weight = n->weights[i];
  tenon_tensor_t *move = call(op("core::mul"), grad, n->minus_rate, NULL);
  must(tenon_op_call_into(op("core::add"), NULL, (tenon_tensor_t *[]){weight, move}, &weight));
  tenon_tensor_release(move);
}

/* one step by calls */

static double step_by_calls(const network_t *n) {
  const tenon_op_t *matmul = op("core::matmul");
  const tenon_op_t *activate = op("training::bend");
  tenon_tensor_t *z1 = call(matmul, n->x, n->weights[0], n->weights[1]);
  tenon_tensor_t *h1 = call(activate, z1, NULL, NULL);
  tenon_tensor_t *z2 = call(matmul, h1, n->weights[2], n->weights[3]);
  tenon_tensor_t *h2 = call(activate, z2, NULL, NULL);
  tenon_tensor_t *z3 = call(matmul, h2, n->weights[4], n->weights[5]);
  tenon_tensor_t *logs = call(op("core::log_softmax"), z3, NULL, NULL);
  tenon_tensor_t *hits = call(op("core::mul"), logs, n->target, NULL);
  tenon_tensor_t *total = call(op("core::reduce_sum"), hits, NULL, NULL);
  tenon_tensor_t *loss = call(op("core::mul"), total, n->minus_mean, NULL);
  const double value = *(double *)loss->data;
  must(tenon_backward(&loss, NULL, 1, 0));
  tenon_grad_mode_set(0);
  for (int i = 0; i < WEIGHTS; i++) {
    update(n, i, tenon_tensor_grad(n->weights[i]));
    must(tenon_tensor_grad_set(n->weights[i], NULL));
  }
  tenon_grad_mode_set(1);
  tenon_tensor_t *all[] = {z1, h1, z2, h2, z3, logs, hits, total, loss};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    tenon_tensor_release(all[i]);
  return value;
}

/* one step by a graph */

static tenon_edge_t input(tenon_builder_t *builder, const char *name, const tenon_tensor_t *like) {
  tenon_edge_t edge;
  tenon_axis_t axes[2] = {{like->shape[0], NULL}, {like->shape[1], NULL}};
  must(tenon_builder_input(builder, name, like->dtype, 2, axes, &edge));
  return edge;
}

static tenon_edge_t node(tenon_builder_t *builder, const char *name, tenon_edge_t a, tenon_edge_t b,
                         tenon_edge_t c) {
  const tenon_operand_t operands[8] = {{1, &a}, {b >= 0, &b}, {c >= 0, &c}};
  tenon_edge_t out;
  must(tenon_builder_node(builder, NULL, op(name), NULL, operands, &out, 1));
  return out;
}

/* Builds the graph of the loss, and returns the compiled graph of the loss and the gradients of the
 * weights. */
static tenon_executable_t *compile(const network_t *n) {
  static const char *const names[WEIGHTS] = {"w1", "b1", "w2", "b2", "w3", "b3"};
  const tenon_graph_gradients_t options = {
      .size = sizeof options, .values = names, .value_count = WEIGHTS};
  tenon_builder_t *b;
  tenon_graph_t *forward, *both;
  tenon_executable_t *executable;
  tenon_edge_t w[WEIGHTS], minus_mean;
  must(tenon_builder_create(&b));
  const tenon_edge_t x = input(b, "x", n->x);
  const tenon_edge_t target = input(b, "target", n->target);
  for (int i = 0; i < WEIGHTS; i++)
    w[i] = input(b, names[i], n->weights[i]);
  must(tenon_builder_constant(b, NULL, n->minus_mean, &minus_mean));
  tenon_edge_t h = node(b, "training::bend", node(b, "core::matmul", x, w[0], w[1]), -1, -1);
  h = node(b, "training::bend", node(b, "core::matmul", h, w[2], w[3]), -1, -1);
  h = node(b, "core::log_softmax", node(b, "core::matmul", h, w[4], w[5]), -1, -1);
  h = node(b, "core::reduce_sum", node(b, "core::mul", h, target, -1), -1, -1);
  must(tenon_builder_output(b, "loss", node(b, "core::mul", h, minus_mean, -1)));
  must(tenon_builder_finish(b, &forward));
  must(tenon_graph_gradients(forward, &options, &both));
  must(tenon_executable_create(both, NULL, &executable));
  tenon_builder_release(b);
  tenon_graph_release(forward);
  tenon_graph_release(both);
  return executable;
}

static double step_by_graph(tenon_executable_t *executable, const network_t *n) {
  tenon_tensor_t *inputs[2 + WEIGHTS] = {n->x, n->target};
  tenon_tensor_t *outputs[1 + WEIGHTS] = {NULL};
  memcpy(inputs + 2, n->weights, sizeof n->weights);
  must(tenon_executable_run(executable, inputs, outputs, NULL));
  const double value = *(double *)outputs[0]->data;
  for (int i = 0; i < WEIGHTS; i++)
    update(n, i, outputs[1 + i]);
  for (int i = 0; i <= WEIGHTS; i++)
    tenon_tensor_release(outputs[i]);
  return value;
}

int main(int argc, char **argv) {
  const int is_graph = argc > 1 && strcmp(argv[1], "graph") == 0;
  const int steps = argc > 2 ? atoi(argv[2]) : 400;
  FILE *file = argc > 3 ? fopen(argv[3], "w") : NULL;
  tenon_executable_t *executable = NULL;
  network_t n;
  double loss = 0;
  if (argc > 1 && !is_graph && strcmp(argv[1], "calls") != 0) {
    fprintf(stderr, "training: expected 'calls' or 'graph', found '%s'\n", argv[1]);
    return 1;
  }
  must(tenon_library_add(tenon_library_training(), NULL, NULL, NULL));
  network_create(&n);
  if (file) {
    dump(file, n.x);
    dump(file, n.target);
  }
  for (int i = 0; i < WEIGHTS && file; i++)
    dump(file, n.weights[i]);
  for (int i = 0; i < WEIGHTS && !is_graph; i++)
    must(tenon_tensor_require_grad(n.weights[i], 1));
  if (is_graph) executable = compile(&n);
  for (int step = 1; step <= steps; step++) {
    loss = is_graph ? step_by_graph(executable, &n) : step_by_calls(&n);
    if (file) fprintf(file, "%.17g\n", loss);
    progress(step, steps, loss);
  }
  printf("\n");
  if (file) fclose(file);
  tenon_executable_release(executable);
  network_release(&n);
  tenon_shutdown();
  return !(loss < 1e9);
}
