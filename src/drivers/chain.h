/* Links: pointwise operators of one or two f32 that take an instruction or two. Consecutive ones of
 * a region run together on a block of elements, which stays in the registers of the processor from
 * one link to the next. Invariant: a link gives the bits of the kernel whose place it takes. */
#ifndef TN_DRIVERS_CHAIN_H
#define TN_DRIVERS_CHAIN_H

#include <stdint.h>

/* X(OPERATOR) for those of one operand and of two. */
#define TN_LINKS_OF_ONE(X) X(ABS) X(NEG) X(RECIPROCAL) X(RELU) X(RSQRT) X(SQRT)
#define TN_LINKS_OF_TWO(X) X(ADD) X(DIV) X(MAX) X(MIN) X(MUL) X(SUB)

/* The codes of links. The block is the result of the link before, or what TN_LINK_LOAD made it. An
 * operator of two operands gets the block and a run of elements, a run and the block, the block and
 * one number, a number and the block, or the block twice. */
enum {
  TN_LINK_NONE,
  TN_LINK_LOAD,
#define TN_LINK_CODE(name) TN_LINK_##name,
  TN_LINKS_OF_ONE(TN_LINK_CODE)
#undef TN_LINK_CODE
#define TN_LINK_CODE(name)                                                                         \
  TN_LINK_##name, TN_LINK_RUN_##name, TN_LINK_##name##_NUMBER, TN_LINK_NUMBER_##name,              \
      TN_LINK_##name##_ITSELF,
      TN_LINKS_OF_TWO(TN_LINK_CODE)
#undef TN_LINK_CODE
};

/* What is added to the first code of an operator of two operands. */
enum {
  TN_FORM_BLOCK_RUN,
  TN_FORM_RUN_BLOCK,
  TN_FORM_BLOCK_NUMBER,
  TN_FORM_NUMBER_BLOCK,
  TN_FORM_ITSELF,
};

typedef struct tn_link_t {
  int32_t code;
  float number;
  const float *run; /* the elements of the other operand, or those to load */
  float *out;       /* gets the results; NULL: only the next link reads them */
} tn_link_t;

typedef void (*tn_chain_fn)(const tn_link_t *links, int32_t count, int64_t length);

/* Returns the function for this processor that runs the links on `length` elements, of which the
 * first link loads some. A link may write where it or an earlier one reads, if each element has the
 * same place in both. */
tn_chain_fn tn_chain_function(void);

#endif
