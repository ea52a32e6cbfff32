/* Copies by tables: for each axis of the result, a table gives the index of the input for each
 * position, or -1 for positions that take a given value. pad and nearest resize are such tables.
 * Invariant: an entry is -1 or a valid index. */
#ifndef TENON_OPS_LOOKUP_H
#define TENON_OPS_LOOKUP_H

#include <tenon/op.h>

typedef struct lookup_t {
  const tenon_tensor_t *x;        /* dense */
  tenon_tensor_t *out;            /* dense, with the rank and dtype of x, which may be any */
  const tenon_tensor_t *value;    /* one element; NULL: zero */
  int64_t *table[TENON_RANK_MAX]; /* one table per axis of the result */
} lookup_t;

/* Allocates the tables. */
tenon_status_t core_lookup_tables(tenon_call_t *call, lookup_t *lookup);
/* Fills out from x. */
tenon_status_t core_lookup(tenon_call_t *call, lookup_t *lookup);

#endif
