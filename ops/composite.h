/* Shared by operators that are composed of others: calls of the operators in TENON_USES, and the
 * small tensors and attributes that these take.
 * Invariant: everything created here is a temporary of the call. */
#ifndef TENON_OPS_COMPOSITE_H
#define TENON_OPS_COMPOSITE_H

#include <tenon/op.h>

enum { COMPOSITE_INPUTS = 8 }; /* inputs of a called operator */

/* Calls call->uses[use] and gives its first result. attrs NULL: defaults. */
tenon_status_t core_invoke(tenon_call_t *call, int use, const tenon_value_t *attrs,
                           tenon_tensor_t *const *inputs, tenon_tensor_t **out);
/* The same with the inputs as arguments; inputs that are not named are absent. */
#define INVOKE(call, use, attrs, out, ...)                                                         \
  core_invoke(call, use, attrs, (tenon_tensor_t *[COMPOSITE_INPUTS]){__VA_ARGS__}, out)

/* Create a list of i64 and a single number of a float dtype. Returns: NULL on failure; the error is
 * already set. */
tenon_tensor_t *core_ints(tenon_call_t *call, int64_t count, const int64_t *values);
tenon_tensor_t *core_number(tenon_call_t *call, tenon_dtype_t dtype, double value);

/* Reshapes t. */
tenon_status_t core_reshape(tenon_call_t *call, int use, tenon_tensor_t *t, int32_t ndim,
                            const int64_t *shape, tenon_tensor_t **out);
/* Applies a binary operator (core::add, core::mul, core::pow, ...) to t and a number. */
tenon_status_t core_with(tenon_call_t *call, int use, tenon_tensor_t *t, double number,
                         tenon_tensor_t **out);

/* Takes [begin, end) of one axis; `use` is core::slice. */
tenon_status_t core_slice(tenon_call_t *call, int use, tenon_tensor_t *t, int64_t axis,
                          int64_t begin, int64_t end, tenon_tensor_t **out);
/* Applies an operator to one axis: core::unsqueeze, core::squeeze, core::reduce_sum, ... */
tenon_status_t core_along(tenon_call_t *call, int use, tenon_tensor_t *t, int64_t axis,
                          tenon_tensor_t **out);
/* Concatenates along an axis; `use` is core::concat. */
tenon_status_t core_concat(tenon_call_t *call, int use, int64_t axis, int64_t count,
                           tenon_tensor_t **items, tenon_tensor_t **out);
/* a b, or a b' if transpose_b; `use` is core::matmul. */
tenon_status_t core_product(tenon_call_t *call, int use, tenon_tensor_t *a, tenon_tensor_t *b,
                            int transpose_b, tenon_tensor_t **out);

static inline tenon_value_t value_flag(int on) {
  return (tenon_value_t){TENON_KIND_BOOL, 0, {.i = on}};
}
static inline tenon_value_t value_int(int64_t i) {
  return (tenon_value_t){TENON_KIND_INT, 0, {.i = i}};
}
static inline tenon_value_t value_float(double f) {
  return (tenon_value_t){TENON_KIND_FLOAT, 0, {.f = f}};
}
static inline tenon_value_t value_choice(int64_t i) {
  return (tenon_value_t){TENON_KIND_CHOICE, 0, {.i = i}};
}
static inline tenon_value_t value_ints(uint32_t count, const int64_t *ints) {
  return (tenon_value_t){TENON_KIND_INTS, count, {.ints = ints}};
}

/* Infers that outputs 0 to count - 1 are gradients of the inputs from `first` on, with the same
 * shapes. */
tenon_status_t core_gradients_infer(tenon_infer_t *infer, uint32_t first, uint32_t count);
/* The same from input 1 on. Also checks that input 0 is the gradient of what `forward` infers for
 * the other inputs (NULL: has the shape of input 1) and that input 1 has at least `least` axes. */
tenon_status_t core_backward_infer(tenon_infer_t *infer, uint32_t count, int32_t least,
                                   tenon_infer_fn forward);
/* Checks that input 0 is the gradient of what `forward` infers for the inputs `of`, the first of
 * which must be present. */
tenon_status_t core_gradient_check(tenon_infer_t *infer, tenon_infer_fn forward,
                                   tenon_meta_t *const *of);
/* Infers that output 0 has the shape listed in input `shape`. Checks that input 0 is the gradient
 * of what `forward` infers for the inputs `of`, where of[at] is replaced by a tensor of that shape.
 * The check is skipped if extents are symbols. */
tenon_status_t core_shaped_infer(tenon_infer_t *infer, uint32_t shape, tenon_infer_fn forward,
                                 tenon_meta_t **of, uint32_t at);

#endif
