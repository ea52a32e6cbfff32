/* What the lowerings of the domain com.microsoft share. */
#ifndef TN_ONNX_LOWER_CONTRIB_H
#define TN_ONNX_LOWER_CONTRIB_H

#include "import/onnx/lower.h"

/* lower_contrib.c */

/* x with its channels in the last axis instead of axis 1, or the other way round. */
tn_ref_t *tn_contrib_move_channels(tn_lower_t *lower, tn_ref_t *x, int32_t rank, bool to_last);

/* lower_contrib_attention.c */

/* The attribute `name`, a number of heads. Fails unless it is from 1 to 2^20. */
int64_t tn_contrib_heads(tn_lower_t *lower, const char *name);
/* Writes "scale=VALUE, " if the node has a scale other than 0, which stands for the default, else
 * "". */
void tn_contrib_scale(tn_lower_t *lower, char out_text[40]);

/* lower_contrib_quantised.c */

/* a b * a_scale * b_scale as a float tensor; a and b are 8-bit integers, and their zero points may
 * be NULL. */
tn_ref_t *tn_contrib_integer_matmul(tn_lower_t *lower, tn_ref_t *a, tn_ref_t *b, tn_ref_t *a_scale,
                                    tn_ref_t *b_scale, tn_ref_t *a_zero, tn_ref_t *b_zero);

#endif
