/* Sizes to measure an operator at: those that are asked for by name, or three magnitudes of its
 * samples.  Called by bench. */
#ifndef TOOLS_BENCH_SIZES_H
#define TOOLS_BENCH_SIZES_H

#include "bench_call.h"

enum { BENCH_SIZES_MOST = 64 };
typedef struct bench_sizes_t {
  bench_size_t items[BENCH_SIZES_MOST];
  int32_t count;
  char names[BENCH_NAMES][64];
} bench_sizes_t;

/* `dims`: "n=1024,4096", each combination; none: by magnitudes, unless forms state the arguments.
 * Of `common` dtype, forms and attrs are read, and kept. */
bool bench_sizes_make(const tenon_op_t *op, const texts_t *dims, const bench_size_t *common,
                      bench_sizes_t *out_sizes, text_t *why);
/* By which results are compared: "n=1024 f64". */
void bench_size_label(const bench_size_t *size, text_t *out);

#endif
