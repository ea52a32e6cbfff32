/* Copying by tables: for each axis of the result a table says which index of the input each
 * position takes, or -1 for positions that take a given value.  pad and the nearest kind of resize
 * are such tables. Invariant: a table's entry is -1 or a valid index. */
#ifndef TENON_OPS_LOOKUP_H
#define TENON_OPS_LOOKUP_H

#include <tenon/op.h>

typedef struct lookup_t {
  const tenon_tensor_t *value;    /* of one element; NULL: zero */
  int64_t *table[TENON_RANK_MAX]; /* by axis of the result */
} lookup_t;

/* Room for the tables of outputs[0]. */
tenon_status_t core_lookup_tables(tenon_call_t *call, lookup_t *lookup);
/* outputs[0] from inputs[0], which is dense, of the same rank and of any dtype. */
tenon_status_t core_lookup(tenon_call_t *call, lookup_t *lookup);

#endif
