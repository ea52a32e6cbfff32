/* The entry of the bridge: recognises programs of StableHLO by the ends of their names. */
#include <tenon/bridge.h>

#include "model.h"
#include "write/program.h"

static const char *const suffixes[] = {".stablehlo", ".mlir", ".mlirbc", NULL};

static tenon_status_t read_model(tenon_bridge_call_t *call, const tenon_graph_t **out_graph) {
  tenon_graph_t *graph = NULL;
  tenon_status_t status = hlo_model_read(call->path, &graph);
  *out_graph = graph;
  return status;
}

static tenon_status_t write_model(tenon_bridge_call_t *call, const tenon_graph_t *graph) {
  return hlo_program_write(graph, call->path);
}

static const tenon_bridge_table_t table = {.size = sizeof table,
                                           .abi = TENON_BRIDGE_ABI,
                                           .name = "stablehlo",
                                           .suffixes = suffixes,
                                           .read = read_model,
                                           .write = write_model};

TENON_LIBRARY(stablehlo_bridge, "1.0", TENON_BRIDGE(&table))
