/* One node of a symbol. */
#ifndef BRIDGES_MXNET_MODELS_NODE_H
#define BRIDGES_MXNET_MODELS_NODE_H

#include "lower.h"

/* Adds what the index-th node becomes to model->builder, and sets model->values[index]. An
 * unsupported operator is added to model->missing. Errors name the node. */
tenon_status_t node_lower(model_t *model, int32_t index);

#endif
