/* NaN and infinities of one tensor. */
#ifndef TN_RECORD_NAN_H
#define TN_RECORD_NAN_H

#include "base/text.h"

typedef struct tn_nonfinite_t {
  int64_t nans;
  int64_t infinities; /* counts */
  int64_t first_nan;
  int64_t first_infinity; /* row-major indices; valid if the counts are positive */
} tn_nonfinite_t;

/* Counts in a tensor in host memory, with any strides. A dtype without NaN and infinities has
 * none. */
tn_nonfinite_t tn_nonfinite_count(const tenon_tensor_t *tensor);
/* Adds the position, such as "[1, 3]". */
void tn_nonfinite_position(const tenon_tensor_t *tensor, int64_t index, tn_text_t *text);

#endif
