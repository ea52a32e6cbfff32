/* One step of a recurrent layer for one row of the batch, after its matrix products. Called by
 * recurrent.c for f32 and f64.
 * Invariant: only the row's own gates and state are written. */
#ifndef TENON_OPS_CELL_H
#define TENON_OPS_CELL_H

#include <stdint.h>

/* name, number of parameters, default alpha, default beta, value at x */
/* clang-format off */
#define CELL_FUNCTIONS(F)                                                                          \
  F(Relu, 0, 0, 0, x > 0 ? x : 0)                                                                  \
  F(Tanh, 0, 0, 0, TANH(x))                                                                        \
  F(Sigmoid, 0, 0, 0, SIGMOID(x))                                                                  \
  F(Affine, 2, 1, 0, alpha * x + beta)                                                             \
  F(LeakyRelu, 1, 0.01, 0, x < 0 ? alpha * x : x)                                                  \
  F(ThresholdedRelu, 1, 1, 0, x > alpha ? x : 0)                                                   \
  F(ScaledTanh, 2, 1, 1, alpha * TANH(beta * x))                                                   \
  F(HardSigmoid, 2, 0.2, 0.5, UNIT(alpha * x + beta))                                              \
  F(Elu, 1, 1, 0, x < 0 ? alpha * EXPM1(x) : x)                                                    \
  F(Softsign, 0, 0, 0, x / (1 + ABS(x)))                                                           \
  F(Softplus, 0, 0, 0, (x < 0 ? 0 : x) + LOG1P_UNIT(EXP(-ABS(x))))
/* clang-format on */
#define CELL_NAME_(name, parameters, alpha, beta, value) CELL_##name,
enum { CELL_FUNCTIONS(CELL_NAME_) CELL_COUNT };

typedef struct cell_info_t {
  const char *name;
  int parameters; /* 1: alpha; 2: alpha and beta */
  double alpha;
  double beta;
} cell_info_t;
extern const cell_info_t core_cell_functions[CELL_COUNT];

typedef struct cell_function_t {
  int kind;
  double alpha;
  double beta;
} cell_function_t;

typedef struct cell_t {
  int kind;
  int special;
  int has_clip;
  /* `kind` is one of recurrent.h. `special` is input_forget (lstm) or linear_before_reset (gru). */
  int backwards;
  int64_t hidden;
  double clip;
  const cell_function_t *functions; /* f, g, h */
  const void *bias;
  const void *bias_r;
  const void *peepholes; /* NULL: no peepholes */
  void *reset;
  /* For gru that resets first: where r * h is written, and where h of the first row is. */
  void *reset_base;
} cell_t;

/* `gates` holds the products of the inputs and `products` those of the state, both without bias.
 * For `part` see recurrent.c. `c` is NULL unless the layer is an lstm. */
typedef struct cells_t { /* for one instruction set, in simd/cell.c */
  void (*f32)(const cell_t *cell, int part, float *gates, const float *products, float *h,
              float *c);
  void (*f64)(const cell_t *cell, int part, double *gates, const double *products, double *h,
              double *c);
} cells_t;
extern const cells_t core_cells, core_cells_avx2, core_cells_avx512;

#endif
