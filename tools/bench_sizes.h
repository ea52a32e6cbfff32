/* The sizes at which `tenon bench` measures an operator: those requested by name, or three orders
 * of magnitude of its example calls. */
#ifndef TOOLS_BENCH_SIZES_H
#define TOOLS_BENCH_SIZES_H

#include "bench_call.h"

enum { BENCH_SIZES_MOST = 64 };
typedef struct bench_sizes_t {
  bench_size_t items[BENCH_SIZES_MOST];
  int32_t count;
  char names[BENCH_NAMES][64];
} bench_sizes_t;

/* `dims` has texts such as "n=1024,4096"; every combination is made. Without dims three orders of
 * magnitude are chosen, unless --input states the arguments. The members dtype, forms and attrs of
 * `common` are copied to every size. */
bool bench_sizes_make(const tenon_op_t *op, const texts_t *dims, const bench_size_t *common,
                      bench_sizes_t *out_sizes, text_t *why);
/* Adds the label by which results are compared: "n=1024 f64". */
void bench_size_label(const bench_size_t *size, text_t *out);

#endif
