/* Numbers that are none, in one tensor. */
#ifndef TN_RECORD_NAN_H
#define TN_RECORD_NAN_H

#include "base/text.h"

typedef struct tn_unnumbers_t {
  int64_t nans;
  int64_t infinities; /* how many */
  int64_t first_nan;
  int64_t first_infinity; /* row-major, where there are some */
} tn_unnumbers_t;

/* Of a tensor in host memory, of any strides; nothing in dtypes that have none. */
tn_unnumbers_t tn_unnumbers(const tenon_tensor_t *tensor);
void tn_unnumbers_position(const tenon_tensor_t *tensor, int64_t index,
                           tn_text_t *text); /* "[1, 3]" */

#endif
