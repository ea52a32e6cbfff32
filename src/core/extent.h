/* Symbolic extents: the integers that shapes of one graph are made of.  A tenon_dim_t below
 * TENON_DIM_LEAST is a symbol: INT64_MIN + index in this table.  Same expression, same symbol.  Not
 * safe for threads: one compilation owns it. */
#ifndef TN_CORE_EXTENT_H
#define TN_CORE_EXTENT_H

#include <stdbool.h>
#include <tenon/tenon.h>

#include "base/text.h"

typedef struct tn_extents_t tn_extents_t;

tenon_status_t tn_extents_create(tn_extents_t **out_extents);
void tn_extents_release(tn_extents_t *extents); /* NULL is fine */
/* The symbol of that name ("batch"), made on first use; NULL or "": a fresh one.  Symbols are
 * extents: at least 0. */
tenon_status_t tn_extents_symbol(tn_extents_t *extents, const char *name, tenon_dim_t *out_dim);
/* TENON_DIM_... with the meanings in op.h.  Known operands give known results; + - * are kept in a
 * normal form (sums of products, so that n + n - n = n, (b * s * 12) / 12 = b * s when exactly
 * divisible); EQUAL unites symbols or binds one to a number; BROADCAST of a symbol and a number > 1
 * binds the symbol's class to "1 or that number" and gives the number, of two different symbols
 * gives an expression.  A contradiction (3 = 4, broadcast of 3 and 4, division by 0, overflow)
 * fails with a message that prints both sides. */
tenon_status_t tn_extents_operate(tn_extents_t *extents, uint32_t operation, tenon_dim_t a,
                                  tenon_dim_t b, tenon_dim_t *out_dim);
/* What is known now: a number if equalities made it one, else the class's symbol. */
tenon_dim_t tn_extents_resolve(tn_extents_t *extents, tenon_dim_t dim);
/* Is it a symbol of this table? */
bool tn_extents_has(const tn_extents_t *extents, tenon_dim_t dim);
/* How an extent is made, one step. */
typedef struct tn_extent_part_t {
  uint32_t kind;
  uint32_t operation; /* TENON_PART_..., TENON_DIM_... */
  tenon_dim_t a;
  tenon_dim_t
      /* NUMBER, SYMBOL: a is it; OPERATION: what it is of; FOUND: at most a (-1: no bound), at
       * least b */
      b;
} tn_extent_part_t;
tenon_status_t tn_extents_part(tn_extents_t *extents, tenon_dim_t dim, tn_extent_part_t *out_part);
void tn_extents_print(tn_extents_t *extents, tenon_dim_t dim,
                      tn_text_t *text); /* "4", "batch", "2*seq+1", "?3<=128" */

#endif
