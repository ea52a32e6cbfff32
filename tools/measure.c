/* Measures how long a function takes; see measure.h. A batch lasts long enough that the resolution
 * of the clock does not matter. */
#include "measure.h"

#include <stdlib.h>

#include "system.h"

enum {
  MOST_BATCHES = 400,
  LEAST_BATCHES = 5,
};
static const double batch_ms = 1; /* minimal duration of a batch */

static int compare_times(const void *a, const void *b) {
  double left = *(const double *)a;
  double right = *(const double *)b;
  return left < right ? -1 : left > right;
}

/* Interpolates linearly between neighbours, as NumPy's percentile does. */
static double quantile(const double *sorted, int64_t count, double share) {
  const double at = share * (double)(count - 1);
  const int64_t below = (int64_t)at;
  const double rest = at - (double)below;
  return below + 1 < count ? sorted[below] * (1 - rest) + sorted[below + 1] * rest : sorted[below];
}

bool measure_times(measure_fn function, void *context, double seconds, times_t *out_times,
                   text_t *why) {
  double times[MOST_BATCHES];
  double begin = system_clock_ms();
  double last = 0;
  int64_t count = 1;
  int64_t batches = 0;
  do { /* Warm-up: fills caches, plans memory and finds the number of calls in a batch. */
    double before = system_clock_ms();
    if (!function(context, count, why)) return false;
    last = system_clock_ms() - before;
    if (last < batch_ms && count < 1 << 24) count *= 2;
  } while (system_clock_ms() - begin < seconds * 100 || (last < batch_ms && count < 1 << 24));
  begin = system_clock_ms();
  while (batches < MOST_BATCHES &&
         (batches < LEAST_BATCHES || system_clock_ms() - begin < seconds * 1000)) {
    double before = system_clock_ms();
    if (!function(context, count, why)) return false;
    times[batches++] = (system_clock_ms() - before) * 1e6 / (double)count;
  }
  qsort(times, (size_t)batches, sizeof *times, compare_times);
  *out_times = (times_t){quantile(times, batches, 0.5),
                         quantile(times, batches, 0.25),
                         quantile(times, batches, 0.75),
                         times[0],
                         batches,
                         count};
  return true;
}
