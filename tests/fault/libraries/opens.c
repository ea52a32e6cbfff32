/* No fault: its open function makes a state, which its close function frees. */
#include "planted.h"

#include <stdlib.h>

static tenon_status_t open_library(tenon_node_t *node) {
  node->state = malloc(64);
  return node->state ? TENON_OK : tenon_fail(node, TENON_MEMORY, "no memory for the state");
}

static void close_library(void *state) { free(state); }

/* clang-format off */
TENON_LIBRARY(opens, "1.0.0",
  TENON_OPEN(open_library, close_library),
  TENON_OP("op(Tensor x) -> Tensor", SAME, TENON_GRADIENT("x: none"), NOTHING))
