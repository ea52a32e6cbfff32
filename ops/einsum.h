/* Equations of einsum, read. Labels are numbers below 64, so that sets are masks: letters, then the
 * axes of the ellipsis, counted from its end. */
#ifndef TENON_OPS_EINSUM_H
#define TENON_OPS_EINSUM_H

#include <tenon/op.h>

enum {
  EINSUM_LETTERS = 52,
  EINSUM_DOTS = 64 - EINSUM_LETTERS,
  EINSUM_OPERANDS = 64,
};

typedef struct einsum_term_t {
  int32_t count;
  uint8_t labels[TENON_RANK_MAX];
} einsum_term_t;

typedef struct einsum_t {
  int32_t operands;
  int32_t dots; /* dots: axes of the widest ellipsis */
  einsum_term_t terms[EINSUM_OPERANDS];
  einsum_term_t out;
} einsum_t;

static inline uint64_t einsum_bit(int label) { return (uint64_t)1 << label; }
/* The labels of a term. */
uint64_t core_einsum_labels(const einsum_term_t *term);
/* ranks[i]: axes of operand i.  Gives why the equation is wrong, or NULL. */
const char *core_einsum_read(const char *text, int32_t operands, const int32_t *ranks,
                             einsum_t *out);

#endif
