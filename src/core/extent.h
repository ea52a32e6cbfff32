/* Symbolic extents: the integers that the shapes of one graph consist of. A tenon_dim_t below
 * TENON_DIM_LEAST is a symbol: INT64_MIN plus an index into this table. Equal expressions give the
 * same symbol. Not thread-safe: each table belongs to one compilation. */
#ifndef TN_CORE_EXTENT_H
#define TN_CORE_EXTENT_H

#include <stdbool.h>
#include <tenon/tenon.h>

#include "base/text.h"

typedef struct tn_extents_t tn_extents_t;

tenon_status_t tn_extents_create(tn_extents_t **out_extents);
void tn_extents_release(tn_extents_t *extents); /* NULL is allowed */
/* The symbol with this name ("batch"), created on first use; NULL or "" creates a fresh symbol. A
 * symbol is at least 0. */
tenon_status_t tn_extents_symbol(tn_extents_t *extents, const char *name, tenon_dim_t *out_dim);
/* Applies TENON_DIM_... with the meanings in op.h. Known operands give known results. Sums,
 * differences and products are kept in a normal form (sums of products, so that n + n - n = n, and
 * (b * s * 12) / 12 = b * s because the division is exact). EQUAL unites two symbols or binds one
 * to a number. BROADCAST of a symbol and a number above 1 records that the symbol is 1 or that
 * number, and gives the number; BROADCAST of two different symbols gives an expression. A
 * contradiction (3 = 4, broadcast of 3 and 4, division by 0, overflow) fails with a message that
 * prints both operands. */
tenon_status_t tn_extents_operate(tn_extents_t *extents, uint32_t operation, tenon_dim_t a,
                                  tenon_dim_t b, tenon_dim_t *out_dim);
/* The extent as it is known now: a number if equalities fixed it, otherwise the representative
 * symbol. */
tenon_dim_t tn_extents_resolve(tn_extents_t *extents, tenon_dim_t dim);
/* Whether the extent is a symbol of this table. */
bool tn_extents_has(const tn_extents_t *extents, tenon_dim_t dim);
/* One step of the expression of an extent. */
typedef struct tn_extent_part_t {
  uint32_t kind;      /* TENON_PART_... */
  uint32_t operation; /* TENON_DIM_... */
  /* NUMBER, SYMBOL: `a` is the extent. OPERATION: the operands. FOUND: at most `a` (-1: no limit)
   * and at least `b`. */
  tenon_dim_t a;
  tenon_dim_t b;
} tn_extent_part_t;
tenon_status_t tn_extents_part(tn_extents_t *extents, tenon_dim_t dim, tn_extent_part_t *out_part);
/* Appends the extent as text: "4", "batch", "2*seq+1", "?3<=128". */
void tn_extents_print(tn_extents_t *extents, tenon_dim_t dim, tn_text_t *text);

#endif
