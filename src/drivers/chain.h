/* Links: pointwise operators on floats that take an instruction or two. Consecutive ones of a
 * region run together on a block of elements, which stays in the registers of the processor from
 * one link to the next. A block has f32, whatever is loaded and stored. Invariant: links give the
 * bits of the kernels whose place they take. */
#ifndef TN_DRIVERS_CHAIN_H
#define TN_DRIVERS_CHAIN_H

#include <stdbool.h>
#include <stdint.h>

/* X(OPERATOR) for those of one operand, of one and a number, and of two. A comparison makes a mask
 * of the block, and WHERE takes its first operand where the block that was fetched is a mask. */
#define TN_LINKS_OF_ONE(X)                                                                         \
  X(ABS) X(HARD_SWISH) X(NEG) X(RECIPROCAL) X(RELU) X(RSQRT) X(SQRT) X(UNIT) X(LEAKY_RELU)
#define TN_LINKS_OF_TWO(X)                                                                         \
  X(ADD)                                                                                           \
  X(DIV)                                                                                           \
  X(EQUAL)                                                                                         \
  X(GREATER)                                                                                       \
  X(GREATER_EQUAL) X(LESS) X(LESS_EQUAL) X(MAX) X(MIN) X(MUL) X(NOT_EQUAL) X(SUB) X(WHERE)

/* The codes of links. The block is the result of the link before, or what a LOAD made it. An
 * operator of two operands gets the block and a run of elements, a run and the block, the block and
 * one number, a number and the block, the block twice, or the block and one that was fetched. */
enum {
  TN_LINK_NONE, /* leaves the block as it is */
  TN_LINK_LOAD,
  TN_LINK_LOAD_AHEAD, /* from memory: vectors of 64 bytes of a later block come to the cache */
  TN_LINK_LOAD_BF16,
  TN_LINK_LOAD_BOOL, /* as 1 and 0 */
  TN_LINK_LOAD_F16,
  TN_LINK_LOAD_NUMBER,
  TN_LINK_FETCH_BF16,
  TN_LINK_FETCH_BOOL, /* as a mask */
  TN_LINK_FETCH_F16,
  TN_LINK_ROUND_BF16, /* to numbers of the format, which `narrow` gets */
  TN_LINK_ROUND_F16,
  TN_LINK_SAVE,       /* the block stays as if it were fetched, too */
  TN_LINK_SWAP,       /* exchanges the block and the one that was fetched */
  TN_LINK_STORE_BOOL, /* a mask, which stays as if it were fetched */
#define TN_LINK_CODE(name) TN_LINK_##name,
  TN_LINKS_OF_ONE(TN_LINK_CODE)
#undef TN_LINK_CODE
#define TN_LINK_CODE(name)                                                                         \
  TN_LINK_##name, TN_LINK_RUN_##name, TN_LINK_##name##_NUMBER, TN_LINK_NUMBER_##name,              \
      TN_LINK_##name##_ITSELF, TN_LINK_##name##_OTHER, TN_LINK_OTHER_##name,
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
  TN_FORM_BLOCK_OTHER,
  TN_FORM_OTHER_BLOCK,
};

typedef struct tn_link_t {
  int32_t code;
  float number;
  void *run;    /* the elements of the other operand, or those to load or to fetch */
  void *out;    /* gets the results; NULL: only the next link reads them */
  void *narrow; /* gets the results of a link that rounds them, or a mask; may be NULL too */
} tn_link_t;

typedef void (*tn_chain_fn)(const tn_link_t *links, int32_t count, int64_t length);

/* Returns the function for this processor that runs the links on `length` elements, of which the
 * first link loads some. A link may write where it or an earlier one reads, if each element has the
 * same place in both. */
tn_chain_fn tn_chain_function(void);
/* Whether the function has links that load, fetch and round f16. */
bool tn_chain_takes_f16(void);
/* Whether a block that is saved or fetched is in registers too. */
bool tn_chain_has_other(void);

#endif
