/* The order of checks; see ranks.h. A check that is not listed here has the last rank. */
#include "ranks.h"

#include <stddef.h>
#include <string.h>

static const char *const ranks[RANKS - 1][12] = {
    {"call.plain"},
    {"environment.kept"}, /* a changed process state affects all later calls */
    {"write.outside", "threads.after", "pointer.kept",
     "pointer.infer"},   /* memory that does not belong to the call */
    {"write.unwritten"}, /* such memory can hold anything */
    {"determinism.repeat", "determinism.seed", "types.each", "shapes.infer", "shapes.unknown",
     "alias.declared"},
    {"types.agree", "reference.values", "attrs.defaults", "read.strides", "strides.offset",
     "pointwise.elements", "optional.absent", "optional.output", "state.balance",
     "gradient.differences"}};

int rank_of(const char *id) {
  for (int r = 0; r < RANKS - 1; r++)
    for (int i = 0; i < 12 && ranks[r][i]; i++)
      if (strcmp(ranks[r][i], id) == 0) return r;
  return RANKS - 1;
}

bool rank_is_fresh(int rank) { return rank == 1; }
