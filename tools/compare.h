/* Comparison of actual with expected tensors. Called by verify, compare and replay. Floats are
 * compared as numpy.testing.assert_allclose does, everything else exactly. Equal infinities and two
 * NaNs count as equal. */
#ifndef TOOLS_COMPARE_H
#define TOOLS_COMPARE_H

#include <tenon/tenon.h>

#include "text.h"

typedef struct tolerance_t {
  double relative;
  double absolute; /* |found - expected| <= absolute + relative * |expected| */
  bool shape_only; /* only dtype and shape are compared */
} tolerance_t;

/* Returns true if the tensors agree; else `why` describes the difference. */
bool compare_tensors(const tenon_tensor_t *expected, const tenon_tensor_t *found,
                     const tolerance_t *tolerance, text_t *why);

#endif
