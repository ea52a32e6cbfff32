/* lstm, gru and rnn of random extents, compared with sums of doubles, called with weights as inputs
 * and compiled with constant weights, on every instruction set that the processor has. */
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

enum {
  ROUNDS = 120,
  GATES_MOST = 4,
  HIDDEN_MOST = 140,
};
enum layer_kind {
  RNN,
  GRU,
  LSTM,
};
enum {
  X,
  W,
  R,
  B,
  LENGTHS,
  INITIAL_H,
  INITIAL_C,
  INPUTS = 8, /* the last one is never given */
};

static uint64_t seed = 2718;
static int64_t pick(int64_t count) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((seed >> 33) % (uint64_t)count);
}

typedef struct layer_case_t {
  enum layer_kind kind;
  int64_t directions, steps, batch, width, hidden;
  bool is_reverse; /* with one direction */
  bool is_batch_first;
  bool resets_after; /* gru: linear_before_reset */
  bool has_bias, has_lengths, has_states;
  uint32_t dtype;
} layer_case_t;

static int64_t gates_of(const layer_case_t *c) {
  static const int64_t gates[] = {[RNN] = 1, [GRU] = 3, [LSTM] = 4};
  return gates[c->kind];
}

static layer_case_t random_case(void) {
  static const int64_t batches[] = {1, 1, 1, 2, 3, 4, 5, 6, 7, 13, 16, 17, 40};
  layer_case_t c = {.kind = (enum layer_kind)pick(3), .directions = 1 + pick(2)};
  c.steps = 1 + pick(6);
  c.batch = batches[pick(sizeof batches / sizeof *batches)];
  c.width = 1 + pick(9);
  c.hidden = 1 + pick(pick(4) ? 40 : HIDDEN_MOST);
  c.is_reverse = c.directions == 1 && pick(2) == 0;
  c.is_batch_first = pick(2) == 0;
  c.resets_after = c.kind == GRU && pick(2) == 0;
  c.has_bias = pick(2) == 0;
  c.has_lengths = pick(3) == 0;
  c.has_states = pick(2) == 0;
  c.dtype = pick(3) == 0 ? TENON_F64 : TENON_F32;
  return c;
}

static tenon_tensor_t *random_tensor(uint32_t dtype, int32_t ndim, const int64_t *shape) {
  tenon_tensor_t *x = NULL;
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(dtype), ndim, shape, &x), TENON_OK);
  for (int64_t i = 0; i < tenon_count(x); i++) {
    double value = (double)(pick(2001) - 1000) / 3000;
    if (dtype == TENON_F64)
      ((double *)x->data)[i] = value;
    else
      ((float *)x->data)[i] = (float)value;
  }
  return x;
}

static void random_inputs(const layer_case_t *c, tenon_tensor_t **inputs) {
  const int64_t rows = gates_of(c) * c->hidden;
  const int64_t x[] = {c->is_batch_first ? c->batch : c->steps,
                       c->is_batch_first ? c->steps : c->batch, c->width};
  const int64_t state[] = {c->is_batch_first ? c->batch : c->directions,
                           c->is_batch_first ? c->directions : c->batch, c->hidden};
  for (int i = 0; i < INPUTS; i++)
    inputs[i] = NULL;
  inputs[X] = random_tensor(c->dtype, 3, x);
  inputs[W] = random_tensor(c->dtype, 3, (int64_t[]){c->directions, rows, c->width});
  inputs[R] = random_tensor(c->dtype, 3, (int64_t[]){c->directions, rows, c->hidden});
  if (c->has_bias) inputs[B] = random_tensor(c->dtype, 2, (int64_t[]){c->directions, 2 * rows});
  if (c->has_states) inputs[INITIAL_H] = random_tensor(c->dtype, 3, state);
  if (c->has_states && c->kind == LSTM) inputs[INITIAL_C] = random_tensor(c->dtype, 3, state);
  if (!c->has_lengths) return;
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_I64), 1, &c->batch, &inputs[LENGTHS]),
               TENON_OK);
  for (int64_t b = 0; b < c->batch; b++)
    ((int64_t *)inputs[LENGTHS]->data)[b] = 1 + pick(c->steps);
}

/* The sum of a row of a weight times `x`, and the row's bias. */
static double row_sum(const tenon_tensor_t *weight, int64_t direction, int64_t row, const double *x,
                      double bias) {
  const int64_t k = weight->shape[2];
  double sum = bias;
  for (int64_t e = 0; e < k; e++)
    sum += tensor_float(weight, (direction * weight->shape[1] + row) * k + e) * x[e];
  return sum;
}

typedef struct layer_state_t {
  double h[HIDDEN_MOST];
  double c[HIDDEN_MOST];
} layer_state_t;

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static void step_lstm(const layer_case_t *c, double (*sums)[HIDDEN_MOST], layer_state_t *state) {
  for (int64_t e = 0; e < c->hidden; e++) {
    double cell = sigmoid(sums[2][e]) * state->c[e] + sigmoid(sums[0][e]) * tanh(sums[3][e]);
    state->c[e] = cell;
    state->h[e] = sigmoid(sums[1][e]) * tanh(cell);
  }
}

/* `sums` has the sums of all gates and `apart` the part of the last gate that comes from h. */
static void step_gru(const layer_case_t *c, const tenon_tensor_t *r, int64_t direction,
                     double (*sums)[HIDDEN_MOST], const double *apart, layer_state_t *state) {
  double reset[HIDDEN_MOST];
  double next[HIDDEN_MOST];
  for (int64_t e = 0; e < c->hidden; e++)
    reset[e] = sigmoid(sums[1][e]) * state->h[e];
  for (int64_t e = 0; e < c->hidden; e++) {
    double part = sigmoid(sums[1][e]) * apart[e];
    if (!c->resets_after) part = row_sum(r, direction, 2 * c->hidden + e, reset, 0);
    double z = sigmoid(sums[0][e]);
    next[e] = (1 - z) * tanh(sums[2][e] + part) + z * state->h[e];
  }
  memcpy(state->h, next, sizeof next);
}

/* Advances the state of one row of the batch, whose input is x. */
static void step_layer(const layer_case_t *c, tenon_tensor_t *const *inputs, int64_t direction,
                       const double *x, layer_state_t *state) {
  static double sums[GATES_MOST][HIDDEN_MOST];
  double apart[HIDDEN_MOST];
  const int64_t rows = gates_of(c) * c->hidden;
  for (int64_t row = 0; row < rows; row++) {
    double bias = 0;
    double bias_r = 0;
    if (c->has_bias) bias = tensor_float(inputs[B], direction * 2 * rows + row);
    if (c->has_bias) bias_r = tensor_float(inputs[B], (direction * 2 + 1) * rows + row);
    const int64_t gate = row / c->hidden;
    const int64_t e = row % c->hidden;
    const bool is_apart = c->kind == GRU && gate == 2;
    const double own = row_sum(inputs[W], direction, row, x, bias);
    const double from_h = row_sum(inputs[R], direction, row, state->h, bias_r);
    sums[gate][e] = own + (is_apart ? 0 : from_h);
    if (!is_apart) continue;
    apart[e] = from_h;
    if (!c->resets_after) sums[gate][e] += bias_r;
  }
  if (c->kind == LSTM) step_lstm(c, sums, state);
  if (c->kind == GRU) step_gru(c, inputs[R], direction, sums, apart, state);
  for (int64_t e = 0; c->kind == RNN && e < c->hidden; e++)
    state->h[e] = tanh(sums[0][e]);
}

static bool is_near(const layer_case_t *c, const tenon_tensor_t *t, int64_t index,
                    double expected) {
  return fabs(tensor_float(t, index) - expected) <= (c->dtype == TENON_F64 ? 1e-13 : 5e-6);
}

/* Compares all results of one row of the batch in one direction; returns how many are wrong. */
static int compare_row(const layer_case_t *c, tenon_tensor_t *const *inputs,
                       tenon_tensor_t *const *out, int64_t direction, int64_t b) {
  layer_state_t state = {{0}, {0}};
  double x[16];
  int mistakes = 0;
  const bool first = c->is_batch_first;
  const int64_t place = (first ? b * c->directions + direction : direction * c->batch + b);
  const int64_t length = c->has_lengths ? tensor_int(inputs[LENGTHS], b) : c->steps;
  for (int64_t e = 0; c->has_states && e < c->hidden; e++) {
    state.h[e] = tensor_float(inputs[INITIAL_H], place * c->hidden + e);
    if (c->kind == LSTM) state.c[e] = tensor_float(inputs[INITIAL_C], place * c->hidden + e);
  }
  for (int64_t step = 0; step < c->steps; step++) {
    const bool is_over = step >= length;
    const bool backwards = (c->is_reverse || direction == 1) && !is_over;
    const int64_t t = backwards ? length - 1 - step : step;
    const int64_t from = first ? b * c->steps + t : t * c->batch + b;
    int64_t to = (t * c->directions + direction) * c->batch + b;
    if (first) to = (b * c->steps + t) * c->directions + direction;
    for (int64_t e = 0; e < c->width; e++)
      x[e] = tensor_float(inputs[X], from * c->width + e);
    if (!is_over) step_layer(c, inputs, direction, x, &state);
    for (int64_t e = 0; e < c->hidden; e++)
      mistakes += !is_near(c, out[0], to * c->hidden + e, is_over ? 0 : state.h[e]);
  }
  for (int64_t e = 0; e < c->hidden; e++) {
    mistakes += !is_near(c, out[1], place * c->hidden + e, state.h[e]);
    if (c->kind == LSTM) mistakes += !is_near(c, out[2], place * c->hidden + e, state.c[e]);
  }
  return mistakes;
}

static void compare_results(const layer_case_t *c, tenon_tensor_t *const *inputs,
                            tenon_tensor_t **out, const char *how) {
  int mistakes = 0;
  if (!CHECK(out[0] && out[1])) return;
  for (int64_t direction = 0; direction < c->directions; direction++)
    for (int64_t b = 0; b < c->batch; b++)
      mistakes += compare_row(c, inputs, out, direction, b);
  if (!CHECK(mistakes == 0))
    fprintf(stderr,
            "  %d wrong, %s: %d gates, %d directions, %d steps, batch %d, sizes %d and %d, reverse "
            "%d, batch first %d, resets after %d, bias %d, lengths %d, states %d, f%d\n",
            mistakes, how, (int)gates_of(c), (int)c->directions, (int)c->steps, (int)c->batch,
            (int)c->width, (int)c->hidden, c->is_reverse, c->is_batch_first, c->resets_after,
            c->has_bias, c->has_lengths, c->has_states, c->dtype == TENON_F64 ? 64 : 32);
  for (int i = 0; i < 3; i++) {
    tenon_tensor_release(out[i]);
    out[i] = NULL;
  }
}

static int output_count(const layer_case_t *c) { return c->kind == LSTM ? 3 : 2; }

static void call_layer(const layer_case_t *c, const char *name, const char *attrs_text,
                       tenon_tensor_t *const *inputs) {
  const tenon_op_t *op = op_of(name);
  tenon_attrs_t *attrs = attrs_of(op, attrs_text);
  tenon_tensor_t *out[3] = {NULL};
  CHECK_STATUS(tenon_op_call(op, attr_values(attrs), inputs, out, 0), TENON_OK);
  compare_results(c, inputs, out, "called");
  tenon_attrs_release(attrs);
}

/* Adds x, whose extents the compiler may know. */
static tenon_edge_t add_x(tenon_builder_t *b, const layer_case_t *c, const tenon_tensor_t *x) {
  tenon_axis_t axes[3];
  tenon_edge_t edge = -1;
  const bool is_known = pick(2) == 0;
  for (int i = 0; i < 3; i++)
    axes[i] = (tenon_axis_t){is_known ? x->shape[i] : -1, NULL};
  CHECK_STATUS(tenon_builder_input(b, "x", tenon_dtype(c->dtype), 3, axes, &edge), TENON_OK);
  return edge;
}

/* All inputs but x are constants. */
static void run_layer(const layer_case_t *c, const char *name, const char *attrs_text,
                      tenon_tensor_t *const *inputs) {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t edges[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  tenon_edge_t results[3];
  tenon_tensor_t *out[3] = {NULL};
  edges[X] = add_x(b, c, inputs[X]);
  for (int i = W; i < INPUTS; i++)
    if (inputs[i]) CHECK_STATUS(tenon_builder_constant(b, NULL, inputs[i], &edges[i]), TENON_OK);
  graph_node(b, NULL, name, attrs_text, edges, results, output_count(c));
  for (int i = 0; i < output_count(c); i++)
    graph_output(b, (const char *[]){"y", "h", "c"}[i], results[i]);
  tenon_executable_t *e = graph_compile(b, 0);
  CHECK_STATUS(tenon_executable_run(e, &inputs[X], out, NULL), TENON_OK);
  compare_results(c, inputs, out, "compiled");
  tenon_executable_release(e);
}

static void compare_random_layers(void) {
  static const char *const names[] = {"core::rnn", "core::gru", "core::lstm"};
  for (int round = 0; round < ROUNDS; round++) {
    const layer_case_t c = random_case();
    const char *direction = c.directions == 2 ? "bidirectional" : "forward";
    tenon_tensor_t *inputs[INPUTS];
    char attrs[120];
    if (c.is_reverse) direction = "reverse";
    sprintf(attrs, "direction=%s; layout=%d%s", direction, c.is_batch_first,
            c.resets_after ? "; linear_before_reset=True" : "");
    random_inputs(&c, inputs);
    call_layer(&c, names[c.kind], attrs, inputs);
    run_layer(&c, names[c.kind], attrs, inputs);
    for (int i = 0; i < INPUTS; i++)
      tenon_tensor_release(inputs[i]);
  }
}

TEST("recurrent layers equal sums of doubles on every instruction set") {
  static const char *const limits[] = {"default", "avx2", "avx512"};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    pid_t child = fork(); /* because a process chooses once */
    if (child == 0) {
      setenv("TENON_CPU_CAPABILITY", limits[i], 1);
      compare_random_layers();
      tenon_shutdown();
      _exit(check_failures != 0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    if (!CHECK(status == 0)) fprintf(stderr, "  TENON_CPU_CAPABILITY=%s\n", limits[i]);
  }
}

TEST("nothing is left behind") { tenon_shutdown(); }
