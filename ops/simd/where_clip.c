/* where and clip, operators that select one of their operands. where only moves elements of any
 * dtype of whole bytes. clip is min(max(x, min), max), so max wins if it is below min, and NaN in
 * any operand gives NaN.
 * Invariant: a loop reads all operands of an element before it writes its results. */
#include "pointwise.h"

typedef struct pair_t {
  uint64_t low;
  uint64_t high;
} pair_t;

/* X(dtype, type of the same size, unused, ...): the dtypes that NUMBERS does not list */
#define OTHERS(X, ...)                                                                             \
  X(bool, uint8_t, 0, __VA_ARGS__)                                                                 \
  X(f8e3m4, uint8_t, 0, __VA_ARGS__)                                                               \
  X(f8e4m3, uint8_t, 0, __VA_ARGS__)                                                               \
  X(f8e4m3b11fnuz, uint8_t, 0, __VA_ARGS__)                                                        \
  X(f8e4m3fn, uint8_t, 0, __VA_ARGS__)                                                             \
  X(f8e4m3fnuz, uint8_t, 0, __VA_ARGS__)                                                           \
  X(f8e5m2, uint8_t, 0, __VA_ARGS__)                                                               \
  X(f8e5m2fnuz, uint8_t, 0, __VA_ARGS__)                                                           \
  X(f8e8m0, uint8_t, 0, __VA_ARGS__)                                                               \
  X(f16, uint16_t, 0, __VA_ARGS__)                                                                 \
  X(bf16, uint16_t, 0, __VA_ARGS__)                                                                \
  X(c64, uint64_t, 0, __VA_ARGS__)                                                                 \
  X(c128, pair_t, 0, __VA_ARGS__)
#define MOVABLE                                                                                    \
  "a, b: "                                                                                         \
  "number|bool|complex|f8e3m4|f8e4m3|f8e4m3b11fnuz|f8e4m3fn|f8e4m3fnuz|f8e5m2|f8e5m2fnuz|f8e8m0|"  \
  "string; "                                                                                       \
  "condition: bool; out = a"

/* where */

#define BODY "../where_kernel.h"
#include "each_float.h"
#include "each_integer.h"
#undef BODY

/* the dtypes in OTHERS */
#define T uint8_t
#define NAME(x) x##_bool
#include "../where_kernel.h"
#define T uint8_t
#define NAME(x) x##_f8e3m4
#include "../where_kernel.h"
#define T uint8_t
#define NAME(x) x##_f8e4m3
#include "../where_kernel.h"
#define T uint8_t
#define NAME(x) x##_f8e4m3b11fnuz
#include "../where_kernel.h"
#define T uint8_t
#define NAME(x) x##_f8e4m3fn
#include "../where_kernel.h"
#define T uint8_t
#define NAME(x) x##_f8e4m3fnuz
#include "../where_kernel.h"
#define T uint8_t
#define NAME(x) x##_f8e5m2
#include "../where_kernel.h"
#define T uint8_t
#define NAME(x) x##_f8e5m2fnuz
#include "../where_kernel.h"
#define T uint8_t
#define NAME(x) x##_f8e8m0
#include "../where_kernel.h"
#define T uint16_t
#define NAME(x) x##_f16
#include "../where_kernel.h"
#define T uint16_t
#define NAME(x) x##_bf16
#include "../where_kernel.h"
#define T uint64_t
#define NAME(x) x##_c64
#include "../where_kernel.h"
#define T pair_t
#define NAME(x) x##_c128
#include "../where_kernel.h"

#define ITEM_WHERE(dtype, T, U, ...) LOOP("bool, " #dtype ", " #dtype " -> " #dtype, where_##dtype)

#ifdef TENON_SIMD
#define ITEM_WHERE_STRING
#else
/* Strings are owned by their tensor, so a loop cannot write them. */
static tenon_status_t where_string(tenon_call_t *call) {
  tenon_tensor_t *out = call->outputs[0];
  int64_t index[TENON_RANK_MAX] = {0};
  int64_t stride[3][TENON_RANK_MAX] = {{0}};
  int64_t at[3] = {0};
  int64_t count = tenon_count(out);
  for (int k = 0; k < 3; k++) {
    const tenon_tensor_t *t = call->inputs[k];
    int32_t added = out->ndim - t->ndim;
    for (int32_t d = 0; d < t->ndim; d++)
      stride[k][added + d] = t->shape[d] == 1 ? 0 : t->strides[d];
  }
  for (int64_t i = 0; i < count; i++) {
    int k = ((const uint8_t *)call->inputs[0]->data)[at[0]] ? 1 : 2;
    const tenon_string_t *s = (const tenon_string_t *)call->inputs[k]->data + at[k];
    TENON_TRY(call->host->set_string(call, out, i, s->data, s->size));
    for (int32_t d = out->ndim - 1; d >= 0; d--) {
      int wrap = ++index[d] == out->shape[d];
      for (k = 0; k < 3; k++)
        at[k] += wrap ? -stride[k][d] * (out->shape[d] - 1) : stride[k][d];
      if (!wrap) break;
      index[d] = 0;
    }
  }
  return TENON_OK;
}
#define ITEM_WHERE_STRING KERNEL("string", where_string)
#endif

#define BODY "../where_backward_kernel.h"
#include "each_float.h"
#undef BODY

#define ITEM_WHERE_BACKWARD(dtype, T, U, ...)                                                      \
  LOOP(#dtype ", bool -> " #dtype ", " #dtype, where_backward_##dtype)

/* clip */

#define LARGER GREATEST
#define SMALLER LEAST
#define BODY "../clip_kernel.h"
#include "each_float.h"
#undef LARGER
#undef SMALLER

#define LARGER(x, y) ((x) > (y) ? (x) : (y))
#define SMALLER(x, y) ((x) < (y) ? (x) : (y))
#include "each_integer.h"
#undef LARGER
#undef SMALLER
#undef BODY

#define ITEM_CLIP(dtype, T, U, ...) LOOP(#dtype ", " #dtype ", " #dtype " -> " #dtype, clip_##dtype)

#define BODY "../clip_backward_kernel.h"
#include "each_float.h"
#undef BODY

#define ITEM_CLIP_BACKWARD(dtype, T, U, ...)                                                       \
  LOOP(#dtype ", " #dtype ", " #dtype ", " #dtype " -> " #dtype ", " #dtype ", " #dtype,           \
       clip_backward_##dtype)

#define BODY "../clip_second_kernel.h"
#include "each_float.h"
#undef BODY

#define ITEM_CLIP_SECOND(dtype, T, U, ...)                                                         \
  LOOP(#dtype ", " #dtype ", " #dtype ", " #dtype ", " #dtype ", " #dtype " -> " #dtype,           \
       clip_second_##dtype)

/* clang-format off */
FAMILY(core_selection,
  OPERATOR(where, "(Tensor condition, Tensor a, Tensor b) -> Tensor",
    FACTS("a where the condition is true, otherwise b", MOVABLE,
          "a, b: core::where_backward(grad, condition)"),
    NUMBERS(ITEM_WHERE, 0) OTHERS(ITEM_WHERE, 0) ITEM_WHERE_STRING)
  OPERATOR(where_backward, "(Tensor dy, Tensor condition) -> (Tensor? da, Tensor? db)",
    FACTS("dy for a where the condition is true and for b elsewhere, otherwise 0",
          "dy: float; condition: bool; da, db = dy",
          "dy: core::where(condition, grad.da, grad.db)"),
    FLOATS(ITEM_WHERE_BACKWARD, 0))
  OPERATOR(clip, "(Tensor x, Tensor? min=None, Tensor? max=None) -> Tensor",
    FACTS("min(max(x, min), max)", "x, min, max: number; out = x",
          "x, min, max: core::clip_backward(grad, x, min, max)"),
    NUMBERS(ITEM_CLIP, 0))
  OPERATOR(clip_backward,
    "(Tensor dy, Tensor x, Tensor? min=None, Tensor? max=None) -> (Tensor? dx, Tensor? dmin, "
    "Tensor? dmax)",
    FACTS("dy for the operand of clip that was selected: x, min or max; 0 for the others",
          "dy, x, min, max: float; dx, dmin, dmax = dy",
          "dy: core::clip_second(x, min, max, grad.dx, grad.dmin, grad.dmax); x, min, max: none"),
    FLOATS(ITEM_CLIP_BACKWARD, 0))
  OPERATOR(clip_second,
    "(Tensor x, Tensor? min=None, Tensor? max=None, Tensor? dx=None, Tensor? dmin=None, "
    "Tensor? dmax=None) -> Tensor",
    FACTS("The gradient of clip_backward: dx, dmin or dmax, for whichever of x, "
          "min and max clip selected", "x, min, max, dx, dmin, dmax: float; out = x",
          "x, min, max: none; dx, dmin, dmax: core::clip_backward(grad, x, min, max)"),
    FLOATS(ITEM_CLIP_SECOND, 0)))
/* clang-format on */
