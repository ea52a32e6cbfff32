/* What bench measured: one line for each operator, size and device; as a table, as JSON, and beside
 * an earlier result. */
#ifndef TOOLS_BENCH_RESULTS_H
#define TOOLS_BENCH_RESULTS_H

#include "machine.h"
#include "measure.h"
#include "text.h"

typedef struct bench_result_t {
  char *op;
  char *device;
  char *size;
  char *arguments; /* owned; size is the label by which results are compared */
  times_t times;
  double bytes;
  double operations; /* of one call; operations 0: not known */
  bool is_f64;
  /* of --against and --baseline: what the other took, nanoseconds; 0: there is none */
  double other;
  double other_first;
  double other_third;
} bench_result_t;

typedef struct bench_results_t {
  bench_result_t *items;
  int32_t count;
  int32_t capacity;
} bench_results_t;

bench_result_t *bench_results_add(bench_results_t *results, const char *op, const char *device,
                                  const char *size, const char *arguments);
void bench_results_free(bench_results_t *results);
/* `library` may be "". */
void bench_results_json(const bench_results_t *results, const machine_t *machine,
                        const char *library, text_t *out);
/* Fills in `other` of those that an earlier result (its JSON) has too, of the same operator, size
 * and device.  A second time: the mean of both, and a spread that has both.  How many. */
int32_t bench_results_compare(bench_results_t *results, const char *json);
/* One figure in words, some lines. */
void bench_result_describe(const bench_result_t *result, const machine_t *machine, text_t *out);

#endif
