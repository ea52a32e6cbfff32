/* Fault: its open function fails with a message of its own. */
#include "planted.h"

static tenon_status_t open_library(tenon_node_t *node) {
  return tenon_fail(node, TENON_UNAVAILABLE, "the licence server at port %d does not answer", 4711);
}

static void close_library(void *state) { (void)state; }

/* clang-format off */
TENON_LIBRARY(refuses, "1.0.0",
  TENON_OPEN(open_library, close_library),
  TENON_OP("op(Tensor x) -> Tensor", SAME, TENON_GRADIENT("x: none"), NOTHING))
