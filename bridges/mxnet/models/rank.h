/* The number of axes of values whose shapes the model does not state. */
#ifndef BRIDGES_MXNET_MODELS_RANK_H
#define BRIDGES_MXNET_MODELS_RANK_H

#include "lower.h"

/* Sets model->ranks. Ranks are propagated forwards and backwards through the marks of the inputs,
 * so that the ranks of variables become known. */
tenon_status_t rank_find(model_t *model);

#endif
