/* @NAME@.c: a running mean, updated in place: mean = decay * mean + (1 - decay) * x.
 *
 * `Tensor(a!) mean` in the schema says that the call writes to it, and the result `Tensor(a!)` that it is that same tensor.
 * The host never moves such calls past others that see the tensor, and never repeats or drops them. */
#include <tenon/check.h>

static tenon_status_t @NAME@_f32(const tenon_loop_t *loop) {
  const float decay = (float)loop->attrs[0].as.f;
  const float *mean = (const float *)loop->data[0], *x = (const float *)loop->data[1];
  float *out = (float *)loop->data[2]; /* the memory of mean: read an element before you write it */
  for (int64_t i = 0; i < loop->count; i++) out[i] = decay * mean[i] + (1 - decay) * x[i];
  return TENON_OK;
}

static tenon_status_t validate(tenon_node_t *node) {
  const double decay = node->attrs[0].as.f;
  if (decay >= 0 && decay <= 1) return TENON_OK;
  return tenon_fail(node, TENON_INVALID, "decay: expected a number from 0 to 1, found %g", decay);
}

/* clang-format off */
TENON_LIBRARY(@NAME@, "0.1.0",
  TENON_OP("@NAME@(Tensor(a!) mean, Tensor x, *, float decay=0.9) -> Tensor(a!)",
    TENON_DOC("Moves mean towards x, in place: decay mean + (1 - decay) x."),
    TENON_TYPES("mean, x: f32; out = mean"),
    TENON_TRAITS(TENON_POINTWISE), /* and not TENON_PURE: it has an effect */
    TENON_VALIDATE(validate),
    TENON_SAMPLES("mean: [3, n], x: [3, n]; mean: [n], x: [n], decay = 0.5"),
    TENON_LOOP("f32, f32 -> f32", @NAME@_f32)))
/* clang-format on */
