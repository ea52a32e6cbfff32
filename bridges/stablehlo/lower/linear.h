/* Factorisation and solution of triangular systems, for operations and for custom calls. */
#ifndef BRIDGES_STABLEHLO_LOWER_LINEAR_H
#define BRIDGES_STABLEHLO_LOWER_LINEAR_H

#include "lower/lower.h"

/* The lower factor of symmetric matrices; its upper half is 0. */
tenon_edge_t hlo_cholesky(hlo_lower_t *lower, tenon_edge_t a, bool is_lower);

/* The factors L and U in one matrix, as LAPACK's getrf gives them, and the exchanges of rows. */
tenon_edge_t hlo_lu(hlo_lower_t *lower, tenon_edge_t a, tenon_edge_t *out_pivots);

typedef struct hlo_solve_t {
  bool is_left;  /* A x = b, else x A = b. */
  bool is_lower; /* Of A as it is stored. */
  bool is_unit;  /* The diagonal counts as 1. */
  bool is_transposed;
} hlo_solve_t;
tenon_edge_t hlo_triangular_solve(hlo_lower_t *lower, tenon_edge_t a, tenon_edge_t b,
                                  const hlo_solve_t *solve);

#endif
