/* How a planned call can be a member of a region: as a loop, or by calls of its kernel on some rows
 * or elements. */
#ifndef TN_GRAPH_REGION_FORM_H
#define TN_GRAPH_REGION_FORM_H

#include "graph/executable.h"

typedef struct tn_region_form_t {
  const char *reason; /* why it can be in no region, as a predicate; NULL: it can */
  bool is_sliced;     /* its kernel is called with some of the arguments; false: a loop */
  int64_t elements;   /* of each result, or of what a kernel of rows reads first */
  int64_t rows;       /* 0: it is pointwise, and takes any of its elements */
  int32_t tail;       /* of a kernel of rows: the axes that a row has */
  /* A result of a loop, if it is not in row-major order; NULL: it is. All results are like it. */
  const tenon_tensor_t *like;
} tn_region_form_t;

/* Finds the form of an action of the stage with this index. */
tn_region_form_t tn_region_form(const tn_run_t *run, int32_t stage, tn_action_t *action);
/* Finds, for each operand of a call that is sliced, the axis that has the rows (the elements, if it
 * is pointwise), with those before it; -1: all rows share the operand, or it is absent. Returns
 * false if an operand has other rows. */
bool tn_region_axes(const tn_action_t *action, const tn_region_form_t *form, int32_t *out_axes);
/* Returns whether two tensors have their elements in the same places. */
bool tn_region_is_like(const tenon_tensor_t *a, const tenon_tensor_t *b);
/* Returns whether an operand has one element for each of these rows of a result, to which it is
 * broadcast along the row. */
bool tn_region_is_per_row(const tenon_tensor_t *operand, const tenon_tensor_t *result,
                          int64_t rows);

#endif
