/* finish_backward: the gradient of the activation that matmul, conv and others fuse. A composite of
 * the activations' own gradients; called by matmul_backward and conv_backward.
 * Invariant: the list of activations is that of epilogue.h. */
#include "composite.h"
#include "epilogue.h"

enum {
  RELU,
  LEAKY,
  ELU,
  GELU,
  SILU,
  HARD_SIGMOID,
  HARD_SWISH,
  MISH,
  TANH,
  SIGMOID,
  MUL,
  SUB,
  LESS,
  GREATER,
  WHERE,
};
#define BACKWARD_USES                                                                              \
  "core::relu_backward, core::leaky_relu_backward, core::elu_backward, core::gelu_backward, "      \
  "core::silu_backward, "                                                                          \
  "core::hard_sigmoid_backward, core::hard_swish_backward, core::mish_backward, core::tanh, "      \
  "core::sigmoid, "                                                                                \
  "core::mul, core::sub, core::less, core::greater, core::where"

static tenon_status_t activation_backward_infer(tenon_infer_t *infer) {
  return core_backward_infer(infer, 1, 0, NULL);
}

/* dy where x is not beyond the limit, 0 elsewhere. */
static tenon_status_t keep_within(tenon_call_t *call, int test, double limit, tenon_tensor_t **dy) {
  tenon_tensor_t *zero = core_number(call, (*dy)->dtype, 0);
  tenon_tensor_t *beyond;
  if (!zero) return TENON_MEMORY;
  TENON_TRY(core_with(call, test, call->inputs[1], limit, &beyond));
  return INVOKE(call, WHERE, NULL, dy, beyond, zero, *dy);
}

static tenon_status_t activation_backward_run(tenon_call_t *call) {
  tenon_tensor_t *dy = call->inputs[0];
  tenon_tensor_t *x = call->inputs[1];
  tenon_tensor_t *one, *y, *t;
  double alpha = call->attrs[1].as.f;
  double beta = call->attrs[2].as.f;
  tenon_value_t attrs[2] = {value_float(alpha), value_float(beta)};
  switch (call->attrs[0].as.i) {
  case FINISH_none:
    break;
  case FINISH_relu:
    TENON_TRY(INVOKE(call, RELU, NULL, &dy, dy, x));
    break;
  case FINISH_clip:
    TENON_TRY(keep_within(call, LESS, alpha, &dy));
    TENON_TRY(keep_within(call, GREATER, beta, &dy));
    break;
  case FINISH_leaky_relu:
    TENON_TRY(INVOKE(call, LEAKY, attrs, &dy, dy, x));
    break;
  case FINISH_elu:
    TENON_TRY(INVOKE(call, ELU, attrs, &dy, dy, x));
    break;
  case FINISH_gelu:
  case FINISH_gelu_tanh:
    attrs[0] = value_choice(call->attrs[0].as.i == FINISH_gelu_tanh);
    TENON_TRY(INVOKE(call, GELU, attrs, &dy, dy, x));
    break;
  case FINISH_tanh: /* 1 - y^2 */
    if (!(one = core_number(call, x->dtype, 1))) return TENON_MEMORY;
    TENON_TRY(INVOKE(call, TANH, NULL, &y, x));
    TENON_TRY(INVOKE(call, MUL, NULL, &t, y, y));
    TENON_TRY(INVOKE(call, SUB, NULL, &t, one, t));
    TENON_TRY(INVOKE(call, MUL, NULL, &dy, dy, t));
    break;
  case FINISH_sigmoid: /* y - y^2 */
    TENON_TRY(INVOKE(call, SIGMOID, NULL, &y, x));
    TENON_TRY(INVOKE(call, MUL, NULL, &t, y, y));
    TENON_TRY(INVOKE(call, SUB, NULL, &t, y, t));
    TENON_TRY(INVOKE(call, MUL, NULL, &dy, dy, t));
    break;
  case FINISH_silu:
    attrs[0] = value_float(1);
    TENON_TRY(INVOKE(call, SILU, attrs, &dy, dy, x));
    break;
  case FINISH_hard_sigmoid:
    TENON_TRY(INVOKE(call, HARD_SIGMOID, attrs, &dy, dy, x));
    break;
  case FINISH_hard_swish:
    TENON_TRY(INVOKE(call, HARD_SWISH, NULL, &dy, dy, x));
    break;
  case FINISH_mish:
    TENON_TRY(INVOKE(call, MISH, NULL, &dy, dy, x));
    break;
  default:
    return tenon_fail(call, TENON_INTERNAL, "activation %d has no gradient",
                      (int)call->attrs[0].as.i);
  }
  return call->host->assign(call, 0, dy);
}

/* clang-format off */
TENON_ITEMS(core_finish_backward,
  TENON_OP("finish_backward(Tensor dy, Tensor x, *, " FINISH_ARGUMENTS ") -> Tensor",
    TENON_DOC("dy times the derivative of an activation at x."),
    TENON_TYPES("dy, x: float; out = dy"),
    TENON_INFER(activation_backward_infer),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(BACKWARD_USES),
    TENON_COMPOSITE(activation_backward_run)))
/* clang-format on */
