/* Generators of random numbers: one for each device, and those that programs create. */
#ifndef TN_OPERATOR_GENERATOR_H
#define TN_OPERATOR_GENERATOR_H

#include "operator/op.h"

/* Takes `draws` numbers from the thread's generator, or else from the device's. */
tenon_random_t tn_random_take(tenon_device_t device, int64_t draws);
/* Returns the devices' generators to their initial state, at shutdown. */
void tn_generators_clear(void);

#endif
