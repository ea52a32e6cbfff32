/* The host's services, and giving unallocated outputs their memory. */
#ifndef TN_DISPATCH_SERVICES_H
#define TN_DISPATCH_SERVICES_H

#include "operator/frame.h"

extern const tenon_host_t tn_host;
/* An unallocated output (UNSET) becomes that tensor: shares its memory where that can be kept
 * alive, else copies it. */
tenon_status_t tn_unallocated_take(tenon_tensor_t *unallocated, tenon_tensor_t *tensor);
/* Sets tn_host_services. */
void tn_services_install(void);

#endif
