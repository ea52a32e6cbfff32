/* Regions: consecutive calls of loop kernels over equally many elements, which run piece by piece,
 * so that a value which one of them makes is still in cache when another reads it. A value that
 * only the region reads exists as one piece for each thread, never as a whole. */
#ifndef TN_DRIVERS_REGION_H
#define TN_DRIVERS_REGION_H

#include "operator/frame.h"

typedef struct tn_region_member_t {
  tn_frame_t frame;
  const char *node; /* its name, for errors */
  /* Of each input and then of each result: the value in a tile that it is; -1: it is in memory. */
  const int32_t *tiles;
} tn_region_member_t;

typedef struct tn_region_t {
  tn_region_member_t *members;
  int32_t count;
  int64_t total;            /* elements of each result */
  int64_t piece;            /* elements of a piece */
  int32_t tile_count;       /* values in tiles */
  const int64_t *tile_size; /* bytes of an element of each of them */
} tn_region_t;

/* Runs the members in order. Results that are not in tiles have memory, which they share with no
 * input. An error names the node. */
tenon_status_t tn_region_run(tn_region_t *region);

#endif
