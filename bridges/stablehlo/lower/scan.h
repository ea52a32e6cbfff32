/* Loops that write one row of a tensor in each iteration, as jax.lax.scan does. Such a tensor is
 * not carried from one iteration to the next, which would copy it each time: the rows are stacked
 * when the loop ends. The rows are found while the body is lowered, through calls and index
 * arithmetic: values are tagged as linear functions of the counter, or as known truths. */
#ifndef BRIDGES_STABLEHLO_LOWER_SCAN_H
#define BRIDGES_STABLEHLO_LOWER_SCAN_H

#include "lower/lower.h"

typedef struct hlo_row_write_t { /* What is known of one stacked state. */
  bool is_stacked;
  bool is_bad;         /* The body uses the state in another way. */
  bool is_reversed;    /* The last iteration writes the first row. */
  tenon_edge_t update; /* The row; EDGE_NONE: it has not been written yet. */
} hlo_row_write_t;

typedef struct hlo_scan_t {
  const struct hlo_scan_t *outer;
  tenon_builder_t *builder; /* Of the body. */
  hlo_row_write_t *writes;  /* One for each state of the loop. */
  int32_t counter;          /* The state that counts the iterations from 0. */
  int64_t trips;
} hlo_scan_t;

/* Finds the counter of the current operation, a while, and which states may be stacked. Returns
 * false if there are none. */
bool hlo_scan_find(hlo_lower_t *lower, hlo_scan_t *scan);
/* The value of a state in the body: `bound` with the tag of the counter, or one without an edge. */
hlo_bound_t hlo_scan_state(const hlo_scan_t *scan, int32_t index, hlo_bound_t bound);
/* Tags the results of the current operation, which has been lowered. */
void hlo_scan_tag(hlo_lower_t *lower);
/* Lowers a dynamic_update_slice of a stacked state; returns false if it is none. */
bool hlo_scan_write(hlo_lower_t *lower);
/* Checks that the body returns a stacked state with one row written. */
bool hlo_scan_is_written(const hlo_scan_t *scan, int32_t index, const hlo_bound_t *result);

#endif
