/* Lowers RNN: layers of recurrent cells. All parameters are one vector in the order of cuDNN: for
 * each layer and direction the weights of input and state, then all biases. Each of core's
 * operators runs one layer and expects the gates in another order. */
#include <stdio.h>
#include <string.h>

#include "attribute.h"
#include "lowering.h"

typedef struct kind_t {
  const char *mode;
  const char *op;
  /* The order of core's gates among those of MXNet. */
  const char *order;
  const char *more;
  int64_t gates;
} kind_t;

static const kind_t kinds[] = {{"lstm", "lstm", "[0, 3, 1, 2]:i64", "", 4},
                               {"gru", "gru", "[1, 0, 2]:i64", ", linear_before_reset=True", 3},
                               {"rnn_tanh", "rnn", "[0]:i64", "", 1},
                               {"rnn_relu", "rnn", "[0]:i64", ", activations=['Relu', 'Relu']", 1}};

typedef struct stack_t { /* a stack of layers */
  const kind_t *kind;
  tenon_edge_t params;
  int64_t layers;
  int64_t directions;
  int64_t hidden;
  int64_t inputs;
  int64_t weights;
  int64_t biases; /* `weights` and `biases` are the offsets of the next ones */
} stack_t;

/* Takes the next `rows` x `columns` elements of each gate for one direction. With 0 columns they
 * are a bias. */
static tenon_edge_t take_part(lower_t *lower, const stack_t *s, int64_t *at, int64_t columns) {
  long long begin = *at;
  long long width = columns ? columns : 1;
  long long end = begin + s->kind->gates * s->hidden * width;
  *at = end;
  tenon_edge_t x = lower_run(lower, EDGES(s->params),
                             "reshape(slice(a, [%lld]:i64, [%lld]:i64), [%lld, %lld, %lld]:i64)",
                             begin, end, (long long)s->kind->gates, (long long)s->hidden, width);
  if (s->kind->gates > 1) x = lower_run(lower, EDGES(x), "gather(a, %s)", s->kind->order);
  if (columns) return lower_run(lower, EDGES(x), "reshape(a, [1, -1, %lld]:i64)", width);
  return lower_run(lower, EDGES(x), "reshape(a, [1, -1]:i64)");
}

static tenon_edge_t join(lower_t *lower, tenon_edge_t a, tenon_edge_t b, int axis) {
  return a == EDGE_NONE ? b : lower_run(lower, EDGES(a, b), "concat([a, b], axis=%d)", axis);
}

/* Adds one layer. The result replaces x, and the layer's states are appended to `states`. */
static tenon_edge_t run_layer(lower_t *lower, stack_t *s, int64_t layer, tenon_edge_t x,
                              const tenon_edge_t initial[2], tenon_edge_t states[2]) {
  tenon_edge_t w = EDGE_NONE;
  tenon_edge_t r = EDGE_NONE;
  tenon_edge_t b = EDGE_NONE;
  tenon_edge_t own[2] = {EDGE_NONE, EDGE_NONE};
  int64_t inputs = layer ? s->hidden * s->directions : s->inputs;
  long long first = layer * s->directions;
  long long rest = first + s->directions;
  for (int64_t d = 0; d < s->directions; d++) {
    w = join(lower, w, take_part(lower, s, &s->weights, inputs), 0);
    r = join(lower, r, take_part(lower, s, &s->weights, s->hidden), 0);
    tenon_edge_t of_w = take_part(lower, s, &s->biases, 0);
    tenon_edge_t of_r = take_part(lower, s, &s->biases, 0);
    b = join(lower, b, join(lower, of_w, of_r, 1), 0);
  }
  for (int i = 0; i < 2; i++)
    if (initial[i] != EDGE_NONE)
      own[i] = lower_run(lower, initial + i, 1, "slice(a, [%lld]:i64, [%lld]:i64)", first, rest);
  bool is_lstm = s->kind->gates == 4;
  const char *cell = is_lstm ? ", k" : "";
  const char *initial_cell = is_lstm ? ", f" : "";
  const char *direction = s->directions > 1 ? "bidirectional" : "forward";
  const char *more = s->kind->more;
  if (s->directions == 1 && *more && s->kind->gates == 1) more = ", activations=['Relu']";
  values_t all = lower_run_all(lower, EDGES(x, w, r, b, own[0], own[1]),
                               "y, h%s = %s(a, b, c, d, _, e%s, direction='%s'%s); (y, h%s)", cell,
                               s->kind->op, initial_cell, direction, more, cell);
  for (int i = 0; i + 1 < all.count; i++)
    states[i] = join(lower, states[i], all.edges[i + 1], 0);
  return all.count ? lower_run(lower, all.edges, 1,
                               "reshape(transpose(a, perm=[0, 2, 1, 3]), [0, 0, -1]:i64)")
                   : EDGE_NONE;
}

/* Determines the size of the input from the number of parameters that remain for it. */
static void find_inputs(lower_t *lower, stack_t *s) {
  int64_t total = lower_extent(lower, s->params, 0);
  int64_t each = s->directions * s->kind->gates * s->hidden;
  int64_t later = (s->layers - 1) * each * (s->hidden * s->directions + s->hidden);
  int64_t biases = 2 * s->layers * each;
  if (total < 0) lower_missing(lower, "parameters whose number is not known");
  s->inputs = each > 0 ? (total - later - biases) / each - s->hidden : 0;
  if (s->inputs < 1 || each * (s->inputs + s->hidden) + later + biases != total)
    lower_fail(lower, "%lld parameters do not suit %lld layers of %lld cells", (long long)total,
               (long long)s->layers, (long long)s->hidden);
  s->biases = total - biases;
}

static void lower_rnn(lower_t *lower) {
  stack_t s = {.params = lower->inputs[1],
               .directions = attr_bool(lower, "bidirectional", false) ? 2 : 1};
  tenon_edge_t x = lower->inputs[0];
  tenon_edge_t initial[2] = {EDGE_NONE, EDGE_NONE};
  tenon_edge_t states[2] = {EDGE_NONE, EDGE_NONE};
  const char *mode = attr_text(lower, "mode", "");
  s.layers = attr_int(lower, "num_layers", 1);
  s.hidden = attr_int(lower, "state_size", 0);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(kinds[i].mode, mode) == 0) s.kind = &kinds[i];
  if (!s.kind)
    lower_fail(lower, "attribute 'mode': expected lstm, gru, rnn_tanh or rnn_relu, found '%.40s'",
               mode);
  if (s.layers < 1 || s.layers > 1000 || s.hidden < 1 || s.hidden > 1 << 20)
    lower_fail(lower, "%lld layers of %lld cells", (long long)s.layers, (long long)s.hidden);
  if (attr_bool(lower, "use_sequence_length", false))
    lower_missing(lower, "its attribute use_sequence_length=True");
  if (attr_bool(lower, "lstm_state_clip_nan", false))
    lower_missing(lower, "its attribute lstm_state_clip_nan=True");
  if (!lower_stopped(lower)) find_inputs(lower, &s);
  /* Initial states of zeros are the default, so a node _zeros is not passed on, whatever its
   * shape. */
  for (int32_t i = 2; i < lower->input_count && i < 4; i++) {
    const symbol_node_t *from = &lower->model->symbol.nodes[lower->node->inputs[i].node];
    if (strcmp(from->op, "_zeros") != 0) initial[i - 2] = lower->inputs[i];
  }
  for (int64_t layer = 0; layer < s.layers && !lower_stopped(lower); layer++)
    x = run_layer(lower, &s, layer, x, initial, states);
  lower_give(lower, x);
  if (!attr_bool(lower, "state_outputs", false)) return;
  for (int i = 0; i < 2; i++)
    if (states[i] != EDGE_NONE) lower_give(lower, states[i]);
}

/* clang-format off: a table with one lowering in each entry */
/* clang-format off */
static const lowering_t lowerings[] = {
  {"RNN(x=%, params!, state?%, cell?%, -p)", lower_rnn},
};
/* clang-format on */

LOWERINGS(lowerings_recurrent);
