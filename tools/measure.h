/* Time of a repeated function: a warm-up, then batches, then the median and its spread. Called by
 * bench. */
#ifndef TOOLS_MEASURE_H
#define TOOLS_MEASURE_H

#include "text.h"

typedef struct times_t { /* nanoseconds of one call; the quartiles are the spread */
  double median;
  double first;
  double third;
  double least;
  int64_t batches;
  int64_t count; /* calls in a batch */
} times_t;

/* Does the work `count` times; false: it failed, and *why has the reason. */
typedef bool (*measure_fn)(void *context, int64_t count, text_t *why);
/* Measures for about `seconds` after a warm-up of a tenth of that time. */
bool measure_times(measure_fn function, void *context, double seconds, times_t *out_times,
                   text_t *why);

#endif
