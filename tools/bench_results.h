/* Results of `tenon bench`: one for each operator, size and device, printed as text or JSON and
 * compared with earlier results. */
#ifndef TOOLS_BENCH_RESULTS_H
#define TOOLS_BENCH_RESULTS_H

#include "machine.h"
#include "measure.h"
#include "text.h"

typedef struct bench_result_t {
  char *op;
  char *device;
  char *size;
  char *arguments; /* the texts are owned; `size` is the label by which results are compared */
  times_t times;
  double bytes;
  double operations; /* arithmetic operations of one call; 0: unknown */
  bool is_f64;
  /* Times of the other operator or result (--against, --baseline) in nanoseconds; 0: none. */
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
/* Fills in `other` of each result that has a counterpart of the same operator, size and device in
 * `json`. A second call averages the medians and widens the spread to cover both. Returns the
 * number of counterparts. */
int32_t bench_results_compare(bench_results_t *results, const char *json);
/* Adds some lines of text about one result. */
void bench_result_describe(const bench_result_t *result, const machine_t *machine, text_t *out);

#endif
