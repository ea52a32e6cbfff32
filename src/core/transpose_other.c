/* Processors on which copy.c transposes every plane itself. */
#include "core/transpose.h"

bool tn_transpose_words(const char *from, int64_t from_stride, char *to, int64_t to_stride,
                        int64_t rows, int64_t columns) {
  (void)from;
  (void)from_stride;
  (void)to;
  (void)to_stride;
  (void)rows;
  (void)columns;
  return false;
}
