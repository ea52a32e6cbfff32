/* Texts that call core operators. The language:
 *   texts    = value {";" value}
 *   value    = call | letter (the edge with this letter: a is the first one) | "_" (absent)
 *            | "[" value {"," value} "]" (a list) | constant
 *   call     = core operator "(" [argument {"," argument}] ")"
 *   argument = value | attribute "=" literal
 *   constant = number ":" (letter | dtype)     a scalar of the dtype of an edge, or of this dtype
 *            | "[" [integer {"," integer}] "]" with integers: a host list of i64 */
#ifndef BRIDGES_STABLEHLO_LOWER_EXPRESSION_H
#define BRIDGES_STABLEHLO_LOWER_EXPRESSION_H

#include "lower/lower.h"

/* Runs a text and returns its first result. */
tenon_edge_t hlo_run(hlo_lower_t *lower, const tenon_edge_t *edges, size_t count,
                     const char *format, ...) TENON_FORMAT(4, 5);
/* Runs a text of one call and returns all results of the call. */
hlo_edges_t hlo_run_all(hlo_lower_t *lower, const tenon_edge_t *edges, size_t count,
                        const char *format, ...) TENON_FORMAT(4, 5);
/* Runs a text without a format. The second value of "a; b" goes to *out_second, which may be NULL.
 */
tenon_edge_t hlo_run_text(hlo_lower_t *lower, const tenon_edge_t *edges, size_t count,
                          const char *text, tenon_edge_t *out_second);
/* The number of operands that a text expects: the greatest letter that stands alone. */
int32_t hlo_text_operands(const char *text);
#define EDGES(...)                                                                                 \
  (tenon_edge_t[]){__VA_ARGS__}, sizeof((tenon_edge_t[]){__VA_ARGS__}) / sizeof(tenon_edge_t)

#endif
