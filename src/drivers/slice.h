/* Calls of a kernel on some of the rows of its arguments: its driver, or its function, runs with
 * headers that begin at the first of these rows. Regions call kernels of rows in this way. */
#ifndef TN_DRIVERS_SLICE_H
#define TN_DRIVERS_SLICE_H

#include "operator/frame.h"

/* One thread's calls on rows of the arguments of one call. */
typedef struct tn_slice_t {
  tn_frame_t frame;
  tenon_tensor_t *headers; /* of each operand: inputs, then results */
  const int32_t *axes;
  char **data;   /* of each operand: its first row; in a tile: the row of each slice */
  int64_t *step; /* bytes from row to row; 0: the operand is in a tile, or all rows share it */
  int64_t count; /* rows for which the headers have extents; 0: none yet */
} tn_slice_t;

/* Prepares calls on rows of `frame`, which stays unchanged, in scratch memory.
 * Arguments: `rows`: the number of rows of the whole call; `axes`: for each operand the axis that
 * has all rows, with those before it, or -1 if all rows share it or it is absent; `tiles`: for each
 * operand the memory of the rows of a slice, or NULL. */
tenon_status_t tn_slice_begin(const tn_frame_t *frame, int64_t rows, const int32_t *axes,
                              char *const *tiles, tn_slice_t *out_slice);
/* Runs the kernel for rows [first, first + count). */
tenon_status_t tn_slice_run(tn_slice_t *slice, int64_t first, int64_t count);

#endif
