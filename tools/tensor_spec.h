/* Dtype and shape of a tensor from a text: "f32[rows, 4]", "i64[]".  Called by model for its inputs
 * and by bench for arguments. */
#ifndef TOOLS_TENSOR_SPEC_H
#define TOOLS_TENSOR_SPEC_H

#include <tenon/tenon.h>

#include "text.h"

typedef struct tensor_spec_t {
  tenon_dtype_t dtype;
  int32_t ndim;
  int64_t extents[TENON_RANK_MAX]; /* -1: it has a name */
  char names[TENON_RANK_MAX][32];  /* "" where it is a number */
  char name[64];                   /* what stands before "=", "" : nothing */
} tensor_spec_t;

/* "NAME=DTYPE[EXTENT,...]"; NAME= may be missing.  An extent is a number that is not negative, or a
 * name. */
bool tensor_spec_parse(const char *text, tensor_spec_t *out_form, text_t *why);

#endif
