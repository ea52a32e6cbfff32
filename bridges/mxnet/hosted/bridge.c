/* The entry of the bridge: recognises files of MXNet and reads them as libraries or models of
 * Tenon. */
#include <string.h>

#include "library.h"
#include "models/model.h"

static const char *const symbols[] = {"_opVersion", "initialize", NULL};
static const char *const suffixes[] = {"-symbol.json", NULL};

static tenon_status_t inspect(tenon_bridge_call_t *call,
                              void (*say)(void *context, const char *line), void *context) {
  (void)call;
  say(context, "a library of operators, partitioners or passes for MXNet: `tenon ops FILE` loads "
               "it and lists them");
  return TENON_OK;
}

static tenon_status_t open_hosted_library(tenon_bridge_call_t *call, tenon_bridged_t *out) {
  char why[WHY] = "";
  hosted_t *library;
  tenon_status_t status = hosted_open(call->path, &library, why, sizeof why);
  if (status != TENON_OK) return tenon_fail(call, status, "%s", why);
  out->descriptor = &library->descriptor;
  out->context = library;
  return TENON_OK;
}

static tenon_status_t read_model(tenon_bridge_call_t *call, const tenon_graph_t **out_graph) {
  const tenon_import_t options = {.size = sizeof options, .folder = call->folder};
  tenon_graph_t *graph = NULL;
  tenon_status_t status = mxnet_model_read(call->path, &options, &graph);
  *out_graph = graph;
  return status;
}

static const tenon_bridge_table_t table = {.size = sizeof table,
                                           .abi = TENON_BRIDGE_ABI,
                                           .name = "mxnet",
                                           .symbols = symbols,
                                           .inspect = inspect,
                                           .open = open_hosted_library,
                                           .suffixes = suffixes,
                                           .read = read_model};

TENON_LIBRARY(mxnet_bridge, "1.0", TENON_BRIDGE(&table))
