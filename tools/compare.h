/* Comparison of what came out with what should have.  Called by verify. Floats as
 * numpy.testing.assert_allclose does, everything else exactly; equal infinities and two NaNs are
 * equal. */
#ifndef TOOLS_COMPARE_H
#define TOOLS_COMPARE_H

#include <tenon/tenon.h>

#include "text.h"

typedef struct tolerance_t {
  double relative;
  double absolute; /* |found - expected| <= absolute + relative * |expected| */
  bool shape_only; /* dtype and shape are compared and nothing else */
} tolerance_t;

/* True if they agree; else `why` says how they do not. */
bool compare_tensors(const tenon_tensor_t *expected, const tenon_tensor_t *found,
                     const tolerance_t *tolerance, text_t *why);

#endif
