/* The entry of the bridge: recognises programs of StableHLO by the ends of their names. */
#include <tenon/bridge.h>

#include "model.h"

static const char *const symbols[] = {NULL}; /* No library is one of StableHLO's. */
static const char *const suffixes[] = {".stablehlo", ".mlir", NULL};

/* The table requires the function; the host never calls it, because no symbols are listed. */
static tenon_status_t open_library(tenon_bridge_call_t *call, tenon_bridged_t *out) {
  (void)out;
  return tenon_fail(call, TENON_UNIMPLEMENTED,
                    "%s: StableHLO has programs, not libraries: load it as a model", call->path);
}

static tenon_status_t read_model(tenon_bridge_call_t *call, const tenon_graph_t **out_graph) {
  tenon_graph_t *graph = NULL;
  tenon_status_t status = hlo_model_read(call->path, &graph);
  *out_graph = graph;
  return status;
}

static const tenon_bridge_table_t table = {.size = sizeof table,
                                           .abi = TENON_BRIDGE_ABI,
                                           .name = "stablehlo",
                                           .symbols = symbols,
                                           .open = open_library,
                                           .suffixes = suffixes,
                                           .read = read_model};

TENON_LIBRARY(stablehlo_bridge, "1.0", TENON_BRIDGE(&table))
