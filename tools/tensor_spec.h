/* Dtype and shape of a tensor, parsed from a text such as "f32[rows, 4]" or "i64[]". Called by
 * model for its inputs and by bench for arguments. */
#ifndef TOOLS_TENSOR_SPEC_H
#define TOOLS_TENSOR_SPEC_H

#include <tenon/tenon.h>

#include "text.h"

typedef struct tensor_spec_t {
  tenon_dtype_t dtype;
  int32_t ndim;
  int64_t extents[TENON_RANK_MAX]; /* -1: the extent has a name */
  char names[TENON_RANK_MAX][32];  /* "" if the extent is a number */
  char name[64];                   /* the part before "="; "" if there is none */
} tensor_spec_t;

/* Parses "NAME=DTYPE[EXTENT,...]"; NAME= is optional. An extent is a nonnegative number or a
 * name. */
bool tensor_spec_parse(const char *text, tensor_spec_t *out_form, text_t *why);

#endif
