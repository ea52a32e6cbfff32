/* Nodes of a graph of ONNX Runtime as a model in the format of ONNX, in memory. Tenon's importer
 * reads it, so both ways into Tenon accept the same. */
#ifndef BRIDGES_ONNXRUNTIME_PROVIDER_MODEL_H
#define BRIDGES_ONNXRUNTIME_PROVIDER_MODEL_H

#include "common/message.h"
#include "nodes.h"

/* Nodes that become a model. Constants that they read are written as initialisers, which start at
 * multiples of 16 bytes so that Tenon can use them where they are. */
typedef struct part_t {
  const nodes_t *nodes; /* the graph, for its operator sets */
  node_t *const *items;
  size_t count;
  values_t inputs;
  values_t outputs;
} part_t;

/* Writes the model.
 *
 * Ownership: the caller frees the message, also after a failure. */
tenon_status_t model_write(const part_t *part, message_t *out_model);

#endif
