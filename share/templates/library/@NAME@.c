/* @NAME@.c: the library itself: what it is called, its groups of operators, and what is done when it comes and goes.
 *
 * decode.c and gain.c have operators, @NAME@.h what the files share.  Each file states its own by TENON_ITEMS, this one lists
 * them by TENON_GROUP. */
#include "@NAME@.h"

#include <math.h>
#include <stdlib.h>

float *@NAME@_levels;

/* The light of each grey level, by the curve of sRGB (IEC 61966-2-1). */
static tenon_status_t open_library(tenon_node_t *node) {
  @NAME@_levels = (float *)malloc(@NAME@_LEVELS * sizeof *@NAME@_levels);
  if (!@NAME@_levels) return tenon_fail(node, TENON_MEMORY, "a table of %d levels", @NAME@_LEVELS);
  for (int i = 0; i < @NAME@_LEVELS; i++) {
    const double v = i / 255.0;
    @NAME@_levels[i] = (float)(v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4));
  }
  node->state = @NAME@_levels; /* what close gets */
  return TENON_OK;
}

static void close_library(void *state) { free(state); }

/* clang-format off */
TENON_LIBRARY(@NAME@, "0.1.0",
  TENON_ABOUT("author: you\nlicence: your choice"),
  TENON_OPEN(open_library, close_library),
  TENON_GROUP(@NAME@_decode),
  TENON_GROUP(@NAME@_gain))
/* clang-format on */
