/* The order of checks; see ranks.h.  What a rank does not name is of the last. */
#include "ranks.h"

#include <stddef.h>
#include <string.h>

static const char *const ranks[RANKS - 1][12] = {
    {"call.plain"},
    {"environment.kept"}, /* what is left behind is there for all later calls */
    {"write.outside", "threads.after", "pointer.kept",
     "pointer.infer"},   /* memory that is not the call's */
    {"write.unwritten"}, /* and that holds anything */
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
