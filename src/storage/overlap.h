/* Whether tensors share bytes.  A range of addresses answers quickly; where ranges intersect, an
 * exact analysis of the strides decides. */
#ifndef TN_STORAGE_OVERLAP_H
#define TN_STORAGE_OVERLAP_H

#include "operator/op.h"

/* Returns whether an element of `a` shares a byte with an element of `b`, for dense or strided
 * tensors anywhere.  Strides for which the analysis takes too long count as sharing. */
bool tn_tensors_share(const tenon_tensor_t *a, const tenon_tensor_t *b);
/* Returns whether two elements of a tensor share a byte. */
bool tn_tensor_folds(const tenon_tensor_t *tensor);
/* Returns whether element i of both tensors lies in the same place, for every i. */
bool tn_tensors_coincide(const tenon_tensor_t *a, const tenon_tensor_t *b);
#endif
