/* Rows of results of pools (../pool_line.h), as one table per instruction set. Called from parts of
 * a parallel loop. */
#include "../pool_line.h"
#include "isa.h"
#include <math.h>
#include <string.h>

/* The greater one; NaN wins. */
static inline float greater_of(float a, float b) {
  float most = b > a ? b : a;
  return b != b ? b : most;
}

#define START (-INFINITY)
#define JOIN(a, b) greater_of(a, b)
#define FINISH(joined, divisor) (joined)
#define NAME(x) max_##x
#include "../pool_line_kernel.h"

#define START 0.0f
#define JOIN(a, b) ((a) + (b))
#define FINISH(joined, divisor) ((joined) / (divisor))
#define NAME(x) average_##x
#include "../pool_line_kernel.h"

#ifdef TENON_SIMD
const pool_lines_t ISA_JOIN(core_pool_lines, TENON_SIMD) = {max_pool_line, average_pool_line};
#else
const pool_lines_t core_pool_lines = {max_pool_line, average_pool_line};
#endif
