/* Indices of the attributes, inputs and outputs of core::attention, and its implementation by other
 * operators. Included by the kernel (simd/attention.c) and by attention_parts.c. */
#ifndef TENON_OPS_ATTENTION_H
#define TENON_OPS_ATTENTION_H

#include "dense.h"

enum { /* attributes */
       ATTENTION_SCALE,
       ATTENTION_CAUSAL,
       ATTENTION_SOFTCAP,
       ATTENTION_Q_HEADS,
       ATTENTION_KV_HEADS,
       ATTENTION_QK_MODE,
       ATTENTION_NAN_IS_ZERO,
};
enum {
  ATTENTION_MASK = 3,
  ATTENTION_PAST_KEY,
  ATTENTION_PAST_VALUE,
  ATTENTION_NONPAD,
}; /* inputs */
enum {
  ATTENTION_QK_RAW,
  ATTENTION_QK_CAPPED,
  ATTENTION_QK_MASKED,
  ATTENTION_QK_SOFTMAX,
}; /* what output 3, qk_matmul_output, holds */

#define ATTENTION_USES                                                                             \
  DENSE_USES                                                                                       \
  ", core::matmul, core::mul, core::tanh, core::add, core::where, core::softmax, "                 \
  "core::transpose, "                                                                              \
  "core::reshape, core::expand, core::unsqueeze, core::concat, core::cast_like, core::slice, "     \
  "core::is_nan, "                                                                                 \
  "core::not, core::or, core::trilu, core::cum_sum, core::less, core::pad"

/* Computes the whole call with other operators, which have gradients. */
tenon_status_t core_attention_parts(tenon_call_t *call);

#endif
