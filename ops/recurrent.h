/* Recurrent layers: the loop over steps. The product of the inputs of all steps is delegated to a
 * function: recurrent.c has a plain one, dnn/recurrent.c one with weights packed by oneDNN. The
 * products of a step are with panels (panels.h), packed by a call or once.
 * Invariant: every product is x [m, k] times one of the layer's weights, transposed. */
#ifndef TENON_OPS_RECURRENT_H
#define TENON_OPS_RECURRENT_H

#include "cell.h"
#include "dense.h"
#include "panels.h"

enum {
  RECURRENT_RNN,
  RECURRENT_GRU,
  RECURRENT_LSTM,
};
enum {
  RECURRENT_DIRECTIONS = 2,
  RECURRENT_FEW = 16, /* most rows of a batch for which the steps use panels */
};
/* The weights of a direction: all of w; all of r; and, for a gru that resets before the product,
 * the rows of r for gates z and r, and the remaining rows. */
enum {
  RECURRENT_W,
  RECURRENT_R,
  RECURRENT_R_GATES,
  RECURRENT_R_HIDDEN,
  RECURRENT_WEIGHTS,
};

/* Computes out [m, n] = x [m, k] times a transposed weight. Both tensors are dense and have the
 * dtype of the operator. */
typedef tenon_status_t (*recurrent_product_fn)(tenon_call_t *call, void *context, int direction,
                                               int weight, void *x, int64_t m, void *out);

/* Weights that a plan has packed. */
typedef struct recurrent_weights_t {
  int64_t hidden;
  recurrent_product_fn product;
  void *context;
  /* The weights of a step; data NULL: `product` multiplies by them. */
  panels_t panels[RECURRENT_DIRECTIONS][RECURRENT_WEIGHTS];
} recurrent_weights_t;

typedef struct recurrent_shape_t {
  int kind;
  int directions;
  int64_t steps;
  int64_t batch;
  int64_t inputs;
  int64_t hidden;
} recurrent_shape_t;

/* The number of gates: 1, 3 or 4. */
static inline int64_t recurrent_gates(int kind) {
  if (kind == RECURRENT_RNN) return 1;
  return kind == RECURRENT_GRU ? 3 : 4;
}
/* The number of rows of a weight, which start at *out_first. */
static inline int64_t recurrent_rows(const recurrent_shape_t *shape, int weight,
                                     int64_t *out_first) {
  int64_t hidden = shape->hidden;
  int64_t gates = recurrent_gates(shape->kind);
  *out_first = weight == RECURRENT_R_HIDDEN ? 2 * hidden : 0;
  if (weight == RECURRENT_R_GATES) return 2 * hidden;
  return weight == RECURRENT_R_HIDDEN ? hidden : gates * hidden;
}
enum {
  RECURRENT_X = 0,
  RECURRENT_B = 3,
  RECURRENT_LENGTHS,
  RECURRENT_INITIAL_H,
  RECURRENT_INITIAL_C,
  RECURRENT_PEEPHOLES,
};
enum { /* attributes; SPECIAL is input_forget or linear_before_reset */
       RECURRENT_DIRECTION,
       RECURRENT_ACTIVATIONS,
       RECURRENT_ALPHAS,
       RECURRENT_BETAS,
       RECURRENT_CLIP,
       RECURRENT_LAYOUT,
       RECURRENT_SPECIAL,
};
enum { RECURRENT_FUNCTIONS = 3 };
/* Reads the activation functions of all directions; `out` NULL only checks them. Returns an unknown
 * name, or NULL. */
const tenon_string_t *core_recurrent_functions(const tenon_value_t *attrs, int kind, int directions,
                                               cell_function_t (*out)[RECURRENT_FUNCTIONS]);

#define RECURRENT_USES                                                                             \
  DENSE_USES                                                                                       \
  ", core::relu, core::tanh, core::sigmoid, core::leaky_relu, core::thresholded_relu, "            \
  "core::hard_sigmoid, "                                                                           \
  "core::elu, core::softsign, core::softplus, core::mul, core::add, core::sub, core::matmul, "     \
  "core::slice, "                                                                                  \
  "core::concat, core::unsqueeze, core::transpose, core::reshape, core::expand, core::where, "     \
  "core::less, "                                                                                   \
  "core::clip, core::reverse_sequence"
/* Computes the whole layer with other operators, which have gradients. */
tenon_status_t core_recurrent_parts(tenon_call_t *call, int kind);

/* Does the layer multiply by this weight? */
int core_recurrent_uses(int kind, const tenon_value_t *attrs, int weight);

/* Runs the whole layer. weights NULL: the weights are inputs 1 and 2. Otherwise these inputs are
 * never read. */
tenon_status_t core_recurrent_run(tenon_call_t *call, int kind, const recurrent_weights_t *weights);

#endif
