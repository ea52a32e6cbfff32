/* Parsed equations of einsum. Labels are numbers below 64, so that a set of labels is a mask: first
 * the letters, then the axes of the ellipsis, counted from its end. */
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
  int32_t dots; /* axes of the widest ellipsis */
  einsum_term_t terms[EINSUM_OPERANDS];
  einsum_term_t out;
} einsum_t;

static inline uint64_t einsum_bit(int label) { return (uint64_t)1 << label; }
/* The set of labels of a term. */
uint64_t core_einsum_labels(const einsum_term_t *term);
/* Parses an equation; ranks[i] is the number of axes of operand i. Returns a description of the
 * error, or NULL. */
const char *core_einsum_read(const char *text, int32_t operands, const int32_t *ranks,
                             einsum_t *out);

#endif
