/* Generators of random numbers: one for each device, and those of programs. */
#ifndef TN_OPERATOR_GENERATOR_H
#define TN_OPERATOR_GENERATOR_H

#include "operator/op.h"

/* Takes `draws` numbers from the thread's generator, or else from the device's. */
tenon_random_t tn_random_take(tenon_device_t device, int64_t draws);
/* At shutdown: the generators of devices are as at the start. */
void tn_generators_clear(void);

#endif
