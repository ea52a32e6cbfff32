/* Has an item of 1.2 with a tag that earlier hosts do not know: they skip it, or refuse it if it is
 * marked MUST. */
#include <tenon/op.h>
#ifndef MUST
#define MUST 0
#define NAME note
#else
#define NAME must
#endif

static tenon_status_t value(const tenon_loop_t *loop) {
  for (int64_t i = 0; i < loop->count; i++)
    ((double *)loop->data[1])[i] = ((const double *)loop->data[0])[i];
  return TENON_OK;
}

#define LIBRARY(name, ...) TENON_LIBRARY(name, __VA_ARGS__)
/* clang-format off */
LIBRARY(NAME, "1.0.0",
  TENON_OP("value(Tensor x) -> Tensor",
    TENON_TYPES("x: f64; out = x"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    {TENON_TAG_NOTE | MUST, 0, 0, "for the reader", 0}, TENON_GRADIENT("x: none"),
    TENON_LOOP("f64 -> f64", value)))
/* clang-format on */
