/* Reads programs of StableHLO: any text or bytecode becomes a graph, or is refused with a
 * message. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

#include "model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tenon_graph_t *graph = NULL;
  const tenon_status_t status = hlo_program_read((const char *)data, size, "the input", &graph);
  if (status != TENON_OK && !*tenon_error()) {
    fprintf(stderr, "wrong: a failure without a message\n");
    abort();
  }
  if (status == TENON_INTERNAL) {
    fprintf(stderr, "wrong: an internal error: %s\n", tenon_error());
    abort();
  }
  if (status == TENON_OK) tenon_graph_release(graph);
  return 0;
}
