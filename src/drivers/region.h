/* Regions: calls of loop kernels and of kernels of rows, which run piece by piece, so that a value
 * which one of them makes is still in cache when another reads it. A piece is some of the region's
 * rows: of each value, the elements that belong to them. Where no kernel needs rows, each element
 * is a row. A value that only the region reads exists as one piece for each thread, never as a
 * whole. */
#ifndef TN_DRIVERS_REGION_H
#define TN_DRIVERS_REGION_H

#include "drivers/chain_steps.h"
#include "operator/frame.h"
#include "operator/work.h"

typedef struct tn_region_member_t {
  tn_frame_t frame;
  const char *node; /* its name, for errors */
  /* Of each input and then of each result: the value in a tile that it is; -1: it is in memory. */
  const int32_t *tiles;
  int64_t width; /* elements of each result in a row of the region; 1 for a kernel of rows */
  /* Of a member that is called with some of its arguments, for each operand: the axis that has the
   * rows (the elements, if it is pointwise), with the axes before it; -1: all rows share the
   * operand, or it is absent. NULL: a loop. */
  const int32_t *axes;
  bool is_link; /* runs as one or some links of a chain (chain.h); its kernel is not called */
  const tn_chain_t *chain; /* that begins with this member; NULL: none */
  uint32_t packed;         /* of a link: the operands that are packed into tiles, as bits */
  uint32_t light;          /* of a link: those that need no room in the cache */
} tn_region_member_t;

typedef struct tn_region_t {
  tn_region_member_t *members;
  int32_t count;
  int64_t rows;
  int64_t width;            /* elements of the widest result in a row */
  int64_t piece;            /* rows of a piece */
  int32_t tile_count;       /* values in tiles */
  const int64_t *tile_size; /* bytes of a row of each of them */
  tn_chain_fn run_chain;
  /* Why the region has no more members: the first node that reads its values and is none (NULL:
   * there is no such node), and what it lacks. */
  const char *next;
  const char *next_op;
  const char *reason;
} tn_region_t;

/* Whether the region has so few elements that each member runs once, on all of them: making pieces
 * would cost more than they save. */
static inline bool tn_region_is_small(const tn_region_t *region) {
  enum { FEW = 8192 };
  return region->rows * region->width <= FEW;
}
/* Runs the members in order. Results that are not in tiles have memory, which they share with no
 * input. An error names the node. */
tenon_status_t tn_region_run(tn_region_t *region);
/* What the region does: the operations of its members, and the bytes of values in memory, each of
 * which is counted once. */
tn_work_t tn_region_work(const tn_region_t *region);

#endif
