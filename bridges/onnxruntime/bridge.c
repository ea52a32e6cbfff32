/* The entry of the bridge: recognises libraries of custom operators for ONNX Runtime. */
#include <tenon/bridge.h>

#include "library.h"
#include "status.h"

static const char *const symbols[] = {"RegisterCustomOps", NULL};

static tenon_status_t inspect(tenon_bridge_call_t *call,
                              void (*say)(void *context, const char *line), void *context) {
  (void)call;
  say(context,
      "a library of custom operators for ONNX Runtime: `tenon ops FILE` loads it and lists "
      "them");
  return TENON_OK;
}

static tenon_status_t open_custom_ops(tenon_bridge_call_t *call, tenon_bridged_t *out) {
  char why[WHY] = "";
  library_t *library;
  tenon_status_t status = library_open(call->path, &library, why, sizeof why);
  if (status != TENON_OK) return tenon_fail(call, status, "%s", why);
  out->descriptor = &library->descriptor;
  out->context = library;
  return TENON_OK;
}

static const tenon_bridge_table_t table = {.size = sizeof table,
                                           .abi = TENON_BRIDGE_ABI,
                                           .name = "onnxruntime",
                                           .symbols = symbols,
                                           .inspect = inspect,
                                           .open = open_custom_ops};

TENON_LIBRARY(onnxruntime_bridge, "1.0", TENON_BRIDGE(&table))
