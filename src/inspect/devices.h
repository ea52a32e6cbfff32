/* Whether a backend serves a device, and the message for one that does not. */
#ifndef TN_INSPECT_DEVICES_H
#define TN_INSPECT_DEVICES_H

#include "operator/key.h"

/* Checks that a backend has a plug-in, a kernel or a fallback. Asking for the device of a name
 * makes the name known as a backend, so a misspelt name is known as well.
 *
 * Errors: NOT_FOUND; the message lists the devices that there are, and suggests one of them. */
tenon_status_t tn_device_check(const tn_backend_t *backend);

#endif
