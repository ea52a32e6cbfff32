/* Chains as plans state them: the links, with the operands of members where each finds its
 * elements. An operand that is broadcast or strided is read where it lies, run by run; then the
 * chain runs for a few elements at a time. */
#ifndef TN_DRIVERS_CHAIN_STEPS_H
#define TN_DRIVERS_CHAIN_STEPS_H

#include <tenon/op.h>

#include "drivers/chain.h"

/* Where the elements of an operand lie that belong to those of the results. */
typedef enum tn_reach_t {
  TN_REACH_EVEN,   /* one after the other, as those of the results */
  TN_REACH_NUMBER, /* one for all */
  TN_REACH_RUNS,   /* in runs: one after the other, or one for all of a run */
  TN_REACH_PACKED, /* anywhere: they are copied to a tile first */
} tn_reach_t;

/* Runs of an operand. The axes are those of the runs, the last one first to move. */
typedef struct tn_runs_t {
  int64_t length; /* elements of the results for a run */
  int32_t ndim;
  const int64_t *extents;
  const int64_t *strides; /* in bytes */
} tn_runs_t;

typedef struct tn_chain_step_t {
  int32_t code;    /* of the link */
  int32_t member;  /* of the region, whose operands these are: inputs, then results */
  int32_t operand; /* that is read; -1: none */
  int32_t result;  /* that gets the results; -1: none */
  float number;    /* of an operator that has one as an attribute */
  bool is_number;  /* the operand is the link's number, for all or for each run */
  tn_reach_t reach;
  tn_runs_t runs;
  tenon_dtype_t dtype; /* of the operand */
} tn_chain_step_t;

typedef struct tn_chain_t {
  tn_chain_step_t *steps;
  int32_t count;
  int32_t members; /* that run as this chain */
  bool packs;      /* an operand of a step is packed */
  bool has_runs;   /* an operand of a step lies in runs */
} tn_chain_t;

/* Where the operands of a step are. What is of a piece begins with the piece's elements. */
typedef struct tn_chain_place_t {
  char *data;
  char *out;
  bool is_piece;
  bool is_piece_out;
} tn_chain_place_t;

/* What a link reads or writes one after the other: element `at` is at `data` plus at * size. */
typedef struct tn_chain_move_t {
  void **at; /* the field of the link */
  char *data;
  int64_t size;
  bool is_piece;
} tn_chain_move_t;

/* One thread's links of a chain. */
typedef struct tn_chain_pass_t {
  const tn_chain_t *chain;
  tn_chain_fn function;
  tn_link_t *links;
  tn_chain_place_t *places; /* of each step; the caller sets them */
  tn_chain_move_t *moves;   /* what changes from piece to piece */
  int32_t move_count;
  int32_t *runs; /* the steps whose operands lie in runs */
  int32_t run_count;
} tn_chain_pass_t;

/* Makes the link of a step, whose operands begin at these addresses (NULL: none). Its operand does
 * not lie in runs. */
void tn_chain_make_link(const tn_chain_step_t *step, void *data, void *out, tn_link_t *out_link);
/* Makes the links in scratch memory. */
tenon_status_t tn_chain_begin(const tn_chain_t *chain, tn_chain_fn function,
                              tn_chain_pass_t *out_pass);
/* Prepares the links, when the places are set. */
void tn_chain_place(tn_chain_pass_t *pass);
/* States where the operand of a step has the elements of the next piece. */
void tn_chain_set_piece(tn_chain_pass_t *pass, int32_t step, void *data);
/* Runs the chain on a piece: elements [first, first + count) of the results. */
void tn_chain_run(const tn_chain_pass_t *pass, int64_t first, int64_t count);

#endif
