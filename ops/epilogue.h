/* The epilogue of a matrix product: scale, bias, residual and activation, applied to a tile before
 * it is final. Used by the plain kernels of matmul, gemm and conv, and by their oneDNN kernels for
 * whatever oneDNN cannot fuse.
 * Invariant: this is the only list of activations; its order is the order of the attribute's
 * choices. */
#ifndef TENON_OPS_EPILOGUE_H
#define TENON_OPS_EPILOGUE_H

#include <tenon/op.h>

/* name, value at x; alpha and beta are attributes of the operator */
/* clang-format off */
#define FINISH_ACTIVATIONS(X)                                                                      \
  X(relu, x < 0 ? 0 : x)                                                                           \
  X(clip, FINISH_CLAMP(x, alpha, beta))                                                            \
  X(leaky_relu, x < 0 ? alpha * x : x)                                                             \
  X(elu, x < 0 ? alpha * EXPM1(x) : x)                                                             \
  X(gelu, x * NORMAL_CDF(x))                                                                       \
  X(gelu_tanh, x * (T)0.5 * (1 + TANH((T)0.79788456080286535588 * (x + (T)0.044715 * x * x * x)))) \
  X(tanh, TANH(x))                                                                                 \
  X(sigmoid, SIGMOID(x))                                                                           \
  X(silu, x * SIGMOID(x))                                                                          \
  X(hard_sigmoid, FINISH_CLAMP(alpha * x + beta, 0, 1))                                            \
  X(hard_swish, x * FINISH_CLAMP(x * (T)(1.0 / 6) + (T)0.5, 0, 1))                                 \
  X(mish, x * TANH((x < 0 ? 0 : x) + LOG1P_UNIT(EXP(-ABS(x)))))
/* clang-format on */

#define FINISH_CHOICE_(name, value) ", '" #name "'"
/* The last arguments of a schema. */
#define FINISH_ARGUMENTS                                                                           \
  "str['none'" FINISH_ACTIVATIONS(                                                                 \
      FINISH_CHOICE_) "] activation='none', float alpha=0.0, float beta=0.0"

#define FINISH_NAME_(name, value) FINISH_##name,
enum { FINISH_none, FINISH_ACTIVATIONS(FINISH_NAME_) FINISH_COUNT };

typedef struct finish_side_t { /* an added operand; data NULL: none */
  const void *data;
  int64_t row;
  int64_t column; /* strides in elements, 0 to repeat */
} finish_side_t;

typedef struct finish_t { /* c = activation(scale * c + bias_scale * bias + residual) */
  tenon_dtype_t dtype;    /* as in core_products; integers have no activation */
  double scale;
  double bias_scale;
  int64_t activation;
  double alpha;
  double beta;
  finish_side_t bias;
  finish_side_t residual;
  void *c;
  int64_t row;
  int64_t column;
} finish_t;

/* Does the epilogue change anything? */
static inline int finish_wanted(const finish_t *f) {
  return f->scale != 1 || f->bias.data || f->residual.data || f->activation != FINISH_none;
}

/* Applies the epilogue to rows [i, i_end) and columns [j, j_end). */
void core_finish(const finish_t *finish, int64_t i, int64_t i_end, int64_t j, int64_t j_end);

#endif
