/* Kernels, fallbacks and operators that a running program registers, each with a handle that
 * undoes it. */
#ifndef TN_REGISTRY_REGISTRATION_H
#define TN_REGISTRY_REGISTRATION_H

#include "base/thread.h"

tn_mutex_t *tn_registrations_mutex(void); /* start.c holds it during a fork */
void tn_registrations_clear(void);        /* at shutdown, after tn_registry_clear */

#endif
