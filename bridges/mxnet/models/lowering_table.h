/* The table of all lowerings. */
#ifndef BRIDGES_MXNET_MODELS_LOWERING_TABLE_H
#define BRIDGES_MXNET_MODELS_LOWERING_TABLE_H

#include "lowering.h"

/* Returns the lowering of an operator of MXNet; NULL: the operator has none. */
const lowering_t *lowering_find(const char *op);

#endif
