/* lstm, gru and rnn: ONNX's recurrent layers in both directions, with all their options. One matrix
 * product computes the inputs' contribution to all steps; each step then needs one small product
 * and the cell.
 * Invariant: batch rows that end before the others neither change their state nor produce outputs
 * after their end. */
#include "recurrent.h"
#include "axes.h"
#include "capability.h"
#include "cell.h"
#include "dense.h"
#include "gemm.h"
#include <ctype.h>
#include <string.h>
#include <tenon/check.h>

enum {
  X,
  W,
  R,
  B,
  LENGTHS,
  INITIAL_H,
  INITIAL_C,
  PEEPHOLES,
}; /* inputs */
enum {
  DIRECTION,
  ACTIVATIONS,
  ALPHAS,
  BETAS,
  CLIP,
  LAYOUT,
  SPECIAL,
  /* input_forget, linear_before_reset */
};
enum {
  FORWARD,
  REVERSE,
  BIDIRECTIONAL,
};
enum { FUNCTIONS = RECURRENT_FUNCTIONS };

typedef struct layer_t {
  recurrent_shape_t shape;
  tenon_dtype_t dtype;
  int special;
  int batch_first;
  cell_function_t functions[RECURRENT_DIRECTIONS][FUNCTIONS];
  cell_t cell;
  const int64_t *lengths;
  char *x;
  char *gates;
  char *products;
  char *h;
  char *c;
  char *y;
  int64_t y_strides[4]; /* step, direction, batch, element */
  const recurrent_weights_t *weights;
} layer_t;

/* attributes */

static int64_t function_count(int kind) {
  if (kind == RECURRENT_LSTM) return 3;
  return kind == RECURRENT_GRU ? 2 : 1;
}

static int same_name(const tenon_string_t *given, const char *name) {
  uint64_t i = 0;
  for (; i < given->size && name[i]; i++)
    if (tolower((unsigned char)given->data[i]) != tolower((unsigned char)name[i])) return 0;
  return i == given->size && !name[i];
}

const tenon_string_t *core_recurrent_functions(const tenon_value_t *attrs, int kind, int directions,
                                               cell_function_t (*out)[RECURRENT_FUNCTIONS]) {
  static const int usual[3][FUNCTIONS] = {[RECURRENT_RNN] = {CELL_Tanh},
                                          [RECURRENT_GRU] = {CELL_Sigmoid, CELL_Tanh},
                                          [RECURRENT_LSTM] = {CELL_Sigmoid, CELL_Tanh, CELL_Tanh}};
  uint32_t alphas = 0;
  uint32_t betas = 0;
  uint32_t per = (uint32_t)function_count(kind);
  for (uint32_t i = 0; i < (uint32_t)directions * per; i++) {
    cell_function_t f = {.kind = usual[kind][i % per]};
    if (attrs[ACTIVATIONS].count) {
      const tenon_string_t *name = &attrs[ACTIVATIONS].as.strs[i];
      for (f.kind = 0; f.kind < CELL_COUNT && !same_name(name, core_cell_functions[f.kind].name);)
        f.kind++;
      if (f.kind == CELL_COUNT) return name;
    }
    const cell_info_t *info = &core_cell_functions[f.kind];
    f.alpha = info->alpha;
    f.beta = info->beta;
    if (info->parameters > 0 && alphas < attrs[ALPHAS].count)
      f.alpha = attrs[ALPHAS].as.floats[alphas++];
    if (info->parameters > 1 && betas < attrs[BETAS].count)
      f.beta = attrs[BETAS].as.floats[betas++];
    if (out) out[i / per][i % per] = f;
  }
  return 0;
}

static int directions_of(const tenon_value_t *attrs) {
  return attrs[DIRECTION].as.i == BIDIRECTIONAL ? 2 : 1;
}

static tenon_status_t validate_layer(tenon_node_t *node, int kind) {
  const tenon_value_t *attrs = node->attrs;
  uint32_t wanted = (uint32_t)(directions_of(attrs) * function_count(kind));
  if (attrs[ACTIVATIONS].count && attrs[ACTIVATIONS].count != wanted)
    return tenon_fail(node, TENON_INVALID, "activations lists %u functions; expected %u, or none",
                      attrs[ACTIVATIONS].count, wanted);
  const tenon_string_t *bad = core_recurrent_functions(attrs, kind, directions_of(attrs), 0);
  if (bad)
    return tenon_fail(node, TENON_INVALID,
                      "activations names '%.*s'; known are Relu, Tanh, Sigmoid, Affine, LeakyRelu, "
                      "ThresholdedRelu, ScaledTanh, HardSigmoid, Elu, Softsign and Softplus",
                      (int)bad->size, bad->data);
  if (attrs[CLIP].kind != TENON_KIND_NONE && !(attrs[CLIP].as.f >= 0))
    return tenon_fail(node, TENON_INVALID,
                      "clip is %g; expected 0 or more, because it limits magnitudes",
                      attrs[CLIP].as.f);
  return TENON_OK;
}

int core_recurrent_uses(int kind, const tenon_value_t *attrs, int weight) {
  int split = kind == RECURRENT_GRU &&
              !attrs[SPECIAL].as.i; /* the reset is applied between the gates and the rest */
  return weight == RECURRENT_W || (weight == RECURRENT_R ? !split : split);
}

/* steps */

static const cells_t *cells_of_isa(void) {
#if defined(__x86_64__) || defined(_M_X64)
  static const cells_t *const all[] = {&core_cells, &core_cells_avx2, &core_cells_avx512};
  return all[core_capability()];
#else
  return &core_cells;
#endif
}

typedef struct step_t {
  layer_t *layer;
  int direction;
  int64_t step;
  int part; /* for a gru that resets first: 0 gates, 1 the rest; -1: everything at once */
} step_t;

static tenon_status_t rows_run(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const step_t *s = (const step_t *)argument;
  layer_t *layer = s->layer;
  const recurrent_shape_t *shape = &layer->shape;
  int64_t size = layer->dtype.bits / 8;
  int64_t hidden = shape->hidden;
  int64_t width = recurrent_gates(shape->kind) * hidden;
  (void)call;
  for (int64_t b = begin; b < end; b++) {
    int64_t length = layer->lengths ? layer->lengths[b] : shape->steps;
    int64_t t = s->step;
    int backwards = layer->cell.backwards;
    if (t >= length) {
      if (layer->y && s->part != 0) {
        int64_t at =
            t * layer->y_strides[0] + s->direction * layer->y_strides[1] + b * layer->y_strides[2];
        memset(layer->y + at * size, 0, (size_t)(hidden * size));
      }
      continue;
    }
    if (backwards) t = length - 1 - t;
    int64_t row = layer->batch_first ? b * shape->steps + t : t * shape->batch + b;
    char *h = layer->h + b * hidden * size;
    char *c = layer->c ? layer->c + b * hidden * size : 0;
    int64_t columns = width;
    if (s->part == 0) columns = 2 * hidden;
    if (s->part == 1) columns = hidden;
    char *products = layer->products + b * columns * size;
    char *gates = layer->gates + row * width * size;
    if (layer->dtype.bits == 64)
      cells_of_isa()->f64(&layer->cell, s->part, (double *)(void *)gates,
                          (const double *)(void *)products, (double *)(void *)h,
                          (double *)(void *)c);
    else
      cells_of_isa()->f32(&layer->cell, s->part, (float *)(void *)gates,
                          (const float *)(void *)products, (float *)(void *)h, (float *)(void *)c);
    if (layer->y && s->part != 0) {
      int64_t at =
          t * layer->y_strides[0] + s->direction * layer->y_strides[1] + b * layer->y_strides[2];
      memcpy(layer->y + at * size, h, (size_t)(hidden * size));
    }
  }
  return TENON_OK;
}

static tenon_status_t step_rows(tenon_call_t *call, step_t *step, int part) {
  enum { WORK = 1 << 14 };
  const recurrent_shape_t *shape = &step->layer->shape;
  int64_t work = recurrent_gates(shape->kind) * shape->hidden + 1;
  step->part = part;
  if (shape->batch * work < WORK) return rows_run(call, step, 0, shape->batch);
  return call->host->parallel(call, shape->batch, 1 + WORK / work, rows_run, step);
}

/* Multiplies the rows of the batch by one of the weights of a step. */
static tenon_status_t step_product(tenon_call_t *call, const step_t *step, int weight, void *x,
                                   void *out) {
  const recurrent_weights_t *weights = step->layer->weights;
  const panels_t *panels = &weights->panels[step->direction][weight];
  int64_t batch = step->layer->shape.batch;
  if (panels->data) return core_panels_multiply(call, panels, x, batch, out, (int)(step->step % 2));
  return weights->product(call, weights->context, step->direction, weight, x, batch, out);
}

static tenon_status_t direction_run(tenon_call_t *call, layer_t *layer, int direction) {
  const recurrent_shape_t *shape = &layer->shape;
  int split = shape->kind == RECURRENT_GRU && !layer->special;
  int64_t size = layer->dtype.bits / 8;
  int64_t hidden = shape->hidden;
  int64_t rows = shape->steps * shape->batch;
  step_t step = {.layer = layer, .direction = direction};
  const recurrent_weights_t *weights = layer->weights;
  TENON_TRY(weights->product(call, weights->context, direction, RECURRENT_W, layer->x, rows,
                             layer->gates));
  for (step.step = 0; step.step < shape->steps; step.step++) {
    if (!split) {
      TENON_TRY(step_product(call, &step, RECURRENT_R, layer->h, layer->products));
      TENON_TRY(step_rows(call, &step, -1));
      continue;
    }
    char *reset = layer->products +
                  shape->batch * 2 * hidden * size; /* r * h, computed by part 0 of the cell */
    layer->cell.reset = reset;
    layer->cell.reset_base = layer->h;
    TENON_TRY(step_product(call, &step, RECURRENT_R_GATES, layer->h, layer->products));
    TENON_TRY(step_rows(call, &step, 0));
    TENON_TRY(step_product(call, &step, RECURRENT_R_HIDDEN, reset, layer->products));
    TENON_TRY(step_rows(call, &step, 1));
  }
  return TENON_OK;
}

/* products */

typedef struct plain_t {
  const tenon_tensor_t *weights[2]; /* w, r; dense */
  recurrent_shape_t shape;
  products_t products;
} plain_t;

static void plain_place(const void *context, int64_t index, product_t *product) {
  (void)context;
  (void)index;
  (void)product;
}

/* The rows of a weight, and how many there are. */
static const char *plain_rows(const plain_t *plain, int direction, int weight, int64_t *out_n) {
  const recurrent_shape_t *shape = &plain->shape;
  const tenon_tensor_t *w = plain->weights[weight == RECURRENT_W ? 0 : 1];
  int64_t first = 0;
  *out_n = recurrent_rows(shape, weight, &first);
  int64_t row = direction * recurrent_gates(shape->kind) * shape->hidden + first;
  return (const char *)w->data + row * w->shape[2] * (w->dtype.bits / 8);
}

static tenon_status_t plain_product(tenon_call_t *call, void *context, int direction, int weight,
                                    void *x, int64_t m, void *out) {
  plain_t *plain = (plain_t *)context;
  const tenon_tensor_t *w = plain->weights[weight == RECURRENT_W ? 0 : 1];
  int64_t n = 0;
  int64_t k = w->shape[2];
  const char *rows = plain_rows(plain, direction, weight, &n);
  products_t products = {.product = {m,
                                     n,
                                     k,
                                     {.data = x, .vector = k, .element = 1},
                                     {.data = rows, .vector = k, .element = 1},
                                     out,
                                     n,
                                     1,
                                     0,
                                     0},
                         .dtype = w->dtype,
                         .count = 1,
                         .place = plain_place,
                         .fast = 1};
  return core_products(call, &products);
}

/* Packs the weights of a step, unless packing takes longer than the steps gain. Batches of many
 * rows take oneDNN's product as it is. */
static tenon_status_t plain_weights(tenon_call_t *call, plain_t *plain, recurrent_weights_t *out) {
  enum { STEPS = 4 };
  const recurrent_shape_t *shape = &plain->shape;
  *out = (recurrent_weights_t){.product = plain_product, .context = plain};
  if (shape->steps < STEPS || shape->batch > RECURRENT_FEW) return TENON_OK;
  for (int i = 0; i < shape->directions * RECURRENT_WEIGHTS; i++) {
    int direction = i / RECURRENT_WEIGHTS;
    int weight = i % RECURRENT_WEIGHTS;
    if (weight == RECURRENT_W || !core_recurrent_uses(shape->kind, call->attrs, weight)) continue;
    panels_t *panels = &out->panels[direction][weight];
    *panels = (panels_t){.dtype = plain->weights[1]->dtype, .k = shape->hidden};
    const char *rows = plain_rows(plain, direction, weight, &panels->n);
    panels->data = call->host->allocate(call, core_panels_size(panels));
    if (!panels->data) return TENON_MEMORY;
    core_panels_pack(panels, rows, shape->hidden, 1);
  }
  return TENON_OK;
}

/* the layer */

/* Copies the dense state [batch, hidden] of one direction from or to a tensor [directions, batch,
 * hidden], or batch first. */
static void state_move(const layer_t *layer, char *state, const tenon_tensor_t *t, int direction,
                       int back) {
  int64_t size = layer->dtype.bits / 8 * layer->shape.hidden;
  for (int64_t b = 0; b < layer->shape.batch; b++) {
    int64_t row = layer->batch_first ? b * layer->shape.directions + direction
                                     : direction * layer->shape.batch + b;
    char *there = t ? (char *)t->data + row * size : 0;
    char *here = state + b * size;
    if (back)
      memcpy(there, here, (size_t)size);
    else if (there)
      memcpy(here, there, (size_t)size);
    else
      memset(here, 0, (size_t)size);
  }
}

/* Makes the inputs and the results dense in `dtype`. A caller that has packed weights keeps those
 * inputs as they are. */
static tenon_status_t make_dense(tenon_call_t *call, int kind, int has_weights, tenon_dtype_t dtype,
                                 tenon_tensor_t **in, tenon_tensor_t **out) {
  int inputs = kind == RECURRENT_LSTM ? PEEPHOLES + 1 : INITIAL_C;
  int outputs = kind == RECURRENT_LSTM ? 3 : 2;
  for (int i = 0; i < inputs; i++) {
    if (!call->inputs[i] || (has_weights && (i == W || i == R))) continue;
    in[i] = core_dense(call, call->inputs[i], i == LENGTHS ? tenon_dtype(TENON_I64) : dtype);
    if (!in[i]) return TENON_MEMORY;
  }
  for (int i = 0; i < outputs; i++) {
    if (!call->outputs[i]) continue;
    out[i] = core_place_dense(call, call->outputs[i], dtype);
    if (!out[i]) return TENON_MEMORY;
  }
  return TENON_OK;
}

/* The cell of direction `d`. */
static cell_t cell_of(const layer_t *layer, const tenon_value_t *attrs, tenon_tensor_t *const *in,
                      int d) {
  int64_t size = layer->dtype.bits / 8;
  int64_t hidden = layer->shape.hidden;
  int64_t width = recurrent_gates(layer->shape.kind) * hidden;
  const char *bias = in[B] ? (const char *)in[B]->data + d * 2 * width * size : 0;
  const char *peepholes = in[PEEPHOLES] ? (const char *)in[PEEPHOLES]->data : 0;
  return (cell_t){.kind = layer->shape.kind,
                  .special = layer->special,
                  .hidden = hidden,
                  .functions = layer->functions[d],
                  .has_clip = attrs[CLIP].kind != TENON_KIND_NONE,
                  .clip = attrs[CLIP].as.f,
                  .bias = bias,
                  .bias_r = bias ? bias + width * size : 0,
                  .peepholes = peepholes ? peepholes + d * 3 * hidden * size : 0,
                  .backwards = attrs[DIRECTION].as.i == REVERSE || d == 1};
}

/* Allocates what the steps work in: the gates of all steps, the products of one step (a gru that
 * resets first also stores the reset state there) and the state. */
static tenon_status_t layer_allocate(tenon_call_t *call, layer_t *layer) {
  const recurrent_shape_t *shape = &layer->shape;
  int64_t size = layer->dtype.bits / 8;
  int64_t width = recurrent_gates(shape->kind) * shape->hidden;
  layer->gates = (char *)CORE_SCRATCH(call, (uint64_t)size, shape->batch, shape->steps + 1, width);
  layer->h = (char *)CORE_SCRATCH(call, 2 * (uint64_t)size, shape->batch, shape->hidden);
  if (!layer->gates || !layer->h) return TENON_MEMORY;
  layer->products = layer->gates + shape->steps * shape->batch * width * size;
  if (shape->kind == RECURRENT_LSTM) layer->c = layer->h + shape->batch * shape->hidden * size;
  return TENON_OK;
}

static void layer_place_y(layer_t *layer, const tenon_tensor_t *y) {
  const recurrent_shape_t *shape = &layer->shape;
  int64_t d = shape->directions;
  int64_t b = shape->batch;
  int64_t hidden = shape->hidden;
  int64_t strides[2][3] = {{d * b * hidden, b * hidden, hidden},
                           {d * hidden, hidden, shape->steps * d * hidden}};
  layer->y = (char *)y->data;
  memcpy(layer->y_strides, strides[layer->batch_first], sizeof strides[0]);
}

tenon_status_t core_recurrent_run(tenon_call_t *call, int kind,
                                  const recurrent_weights_t *weights) {
  const tenon_value_t *attrs = call->attrs;
  tenon_tensor_t *in[PEEPHOLES + 1] = {0};
  tenon_tensor_t *out[3] = {0};
  recurrent_weights_t packed;
  const int is_special = kind != RECURRENT_RNN && attrs[SPECIAL].as.i != 0; /* rnn has none */
  layer_t layer = {.special = is_special, .batch_first = attrs[LAYOUT].as.i != 0};
  layer.dtype = core_gemm_dtype(call->inputs[X]->dtype);
  TENON_TRY(make_dense(call, kind, weights != NULL, layer.dtype, in, out));
  const tenon_tensor_t *x = in[X];
  recurrent_shape_t *shape = &layer.shape;
  *shape = (recurrent_shape_t){kind,
                               directions_of(attrs),
                               x->shape[layer.batch_first],
                               x->shape[!layer.batch_first],
                               x->shape[2],
                               weights ? weights->hidden : in[R]->shape[2]};
  if (shape->batch == 0 || shape->hidden == 0) return TENON_OK;
  layer.x = (char *)x->data;
  layer.lengths = in[LENGTHS] ? (const int64_t *)in[LENGTHS]->data : 0;
  core_recurrent_functions(attrs, kind, shape->directions, layer.functions);
  plain_t plain = {.weights = {in[W], in[R]}, .shape = *shape};
  if (!weights) TENON_TRY(plain_weights(call, &plain, &packed));
  layer.weights = weights ? weights : &packed;
  TENON_TRY(layer_allocate(call, &layer));
  if (out[0]) layer_place_y(&layer, out[0]);
  for (int d = 0; d < shape->directions; d++) {
    layer.cell = cell_of(&layer, attrs, in, d);
    state_move(&layer, layer.h, in[INITIAL_H], d, 0);
    if (layer.c) state_move(&layer, layer.c, in[INITIAL_C], d, 0);
    TENON_TRY(direction_run(call, &layer, d));
    if (out[1]) state_move(&layer, layer.h, out[1], d, 1);
    if (out[2]) state_move(&layer, layer.c, out[2], d, 1);
  }
  for (int i = 0; i < 3; i++)
    if (out[i]) TENON_TRY(core_settle(call, call->outputs[i], out[i]));
  return TENON_OK;
}

static tenon_status_t rnn_run(tenon_call_t *call) {
  return core_recurrent_run(call, RECURRENT_RNN, NULL);
}
static tenon_status_t gru_run(tenon_call_t *call) {
  return core_recurrent_run(call, RECURRENT_GRU, NULL);
}
static tenon_status_t lstm_run(tenon_call_t *call) {
  return core_recurrent_run(call, RECURRENT_LSTM, NULL);
}
static tenon_status_t rnn_validate(tenon_node_t *node) {
  return validate_layer(node, RECURRENT_RNN);
}
static tenon_status_t gru_validate(tenon_node_t *node) {
  return validate_layer(node, RECURRENT_GRU);
}
static tenon_status_t lstm_validate(tenon_node_t *node) {
  return validate_layer(node, RECURRENT_LSTM);
}

/* shapes */

static tenon_status_t shape_check(tenon_infer_t *infer, uint32_t input, const char *name,
                                  int32_t rank, const tenon_dim_t *want) {
  const tenon_meta_t *t = infer->inputs[input];
  if (!t) return TENON_OK;
  int wrong = t->ndim != rank;
  for (int32_t i = 0; !wrong && i < rank; i++) {
    wrong = dim_differ(t->dims[i], want[i]);
    if (!wrong) tenon_dim(infer, TENON_DIM_EQUAL, t->dims[i], want[i]);
  }
  if (wrong)
    return tenon_fail(infer, TENON_INVALID, "%s has shape %s; expected %s", name,
                      dims_text(t->dims, t->ndim).text, dims_text(want, rank).text);
  return TENON_OK;
}

static tenon_status_t recurrent_infer(tenon_infer_t *infer, int kind) {
  const tenon_meta_t *x = infer->inputs[X];
  const tenon_meta_t *r = infer->inputs[R];
  int batch_first = infer->attrs[LAYOUT].as.i != 0;
  const tenon_dim_t directions = tenon_extent(directions_of(infer->attrs));
  if (x->ndim != 3 || r->ndim != 3)
    return tenon_fail(infer, TENON_INVALID,
                      "x has %d axes and r %d; expected 3 of each: steps, batch and inputs, and "
                      "directions, gates * hidden and hidden",
                      x->ndim, r->ndim);
  tenon_dim_t steps = x->dims[batch_first];
  tenon_dim_t batch = x->dims[!batch_first];
  tenon_dim_t hidden = r->dims[2];
  tenon_dim_t width = dim_mul(infer, hidden, tenon_extent(recurrent_gates(kind)));
  const tenon_dim_t w_dims[3] = {directions, width, x->dims[2]};
  const tenon_dim_t r_dims[3] = {directions, width, hidden};
  const tenon_dim_t b_dims[2] = {directions, dim_mul(infer, width, tenon_extent(2))};
  const tenon_dim_t state[2][3] = {{directions, batch, hidden}, {batch, directions, hidden}};
  const tenon_dim_t p_dims[2] = {directions, dim_mul(infer, hidden, tenon_extent(3))};
  const tenon_dim_t y[2][4] = {{steps, directions, batch, hidden},
                               {batch, steps, directions, hidden}};
  TENON_TRY(shape_check(infer, W, "w", 3, w_dims));
  TENON_TRY(shape_check(infer, R, "r", 3, r_dims));
  TENON_TRY(shape_check(infer, B, "b", 2, b_dims));
  TENON_TRY(shape_check(infer, LENGTHS, "sequence_lens", 1, &batch));
  TENON_TRY(shape_check(infer, INITIAL_H, "initial_h", 3, state[batch_first]));
  if (kind == RECURRENT_LSTM) {
    TENON_TRY(shape_check(infer, INITIAL_C, "initial_c", 3, state[batch_first]));
    TENON_TRY(shape_check(infer, PEEPHOLES, "p", 2, p_dims));
  }
  for (int i = 0; i < (kind == RECURRENT_LSTM ? 3 : 2); i++) {
    tenon_meta_t *out = infer->outputs[i];
    if (!out) continue;
    out->ndim = i ? 3 : 4;
    memcpy(out->dims, i ? state[batch_first] : y[batch_first],
           (size_t)out->ndim * sizeof *out->dims);
  }
  return TENON_OK;
}

static tenon_status_t rnn_infer(tenon_infer_t *infer) {
  return recurrent_infer(infer, RECURRENT_RNN);
}
static tenon_status_t gru_infer(tenon_infer_t *infer) {
  return recurrent_infer(infer, RECURRENT_GRU);
}
static tenon_status_t lstm_infer(tenon_infer_t *infer) {
  return recurrent_infer(infer, RECURRENT_LSTM);
}

static tenon_status_t rnn_parts(tenon_call_t *call) {
  return core_recurrent_parts(call, RECURRENT_RNN);
}
static tenon_status_t gru_parts(tenon_call_t *call) {
  return core_recurrent_parts(call, RECURRENT_GRU);
}
static tenon_status_t lstm_parts(tenon_call_t *call) {
  return core_recurrent_parts(call, RECURRENT_LSTM);
}

/* clang-format off */
#define INPUTS                                                                                     \
  "Tensor x, Tensor w, Tensor r, Tensor? b=None, Tensor? sequence_lens=None, "                     \
  "Tensor? initial_h=None"
#define OPTIONS                                                                                    \
  "str['forward', 'reverse', 'bidirectional'] direction='forward', str[] activations=[], "         \
  "float[] activation_alpha=[], float[] activation_beta=[], float? clip=None, int layout=0"
#define TYPES "x: float; w = x; r = x; b = x; sequence_lens: i32|i64; initial_h = x"
#define LAYER(name, gates, inputs, options, results, types, result_types, doc)                     \
  TENON_OP(#name "(" INPUTS inputs ", *, " OPTIONS options ") -> (Tensor? y, Tensor? y_h" results  \
           ")",                                                                                    \
    TENON_DOC(doc                                                                                  \
              " x is [steps, batch, inputs] (layout 1: batch first); "                             \
              "w [directions, gates * hidden, inputs]; r\n"                                        \
              "[directions, gates * hidden, hidden]; "                                             \
              "b [directions, 2 * gates * hidden], biases of w, then of r."),                      \
    TENON_TYPES(TYPES types "; y = x; y_h = x" result_types),                                      \
    TENON_TRAITS(TENON_PURE),                                                                      \
    TENON_USES(RECURRENT_USES),                                                                    \
    TENON_SAMPLES("x: [t, n, 3], w: [1, " gates ", 3], r: [1, " gates ", 4]"),                     \
    TENON_VALIDATE(name##_validate),                                                               \
    TENON_INFER(name##_infer),                                                                     \
    TENON_KERNEL("cpu strided", name##_run),                                                       \
    TENON_COMPOSITE(name##_parts))

TENON_ITEMS(core_recurrent,
  LAYER(rnn, "4", "", "", "", "", "", "A recurrent layer h = f(w x + r h + b)."),
  LAYER(gru, "12", "", ", bool linear_before_reset=False", "", "", "",
        "A layer of gated recurrent units with gates in the order z r h."),
  LAYER(lstm, "16", ", Tensor? initial_c=None, Tensor? p=None", ", bool input_forget=False",
        ", Tensor? y_c", "; initial_c = x; p = x", "; y_c = x",
        "A layer of long short-term memory with gates in the order i o f c."))
/* clang-format on */
