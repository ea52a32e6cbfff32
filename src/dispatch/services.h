/* The host's services, and how unallocated outputs get their memory. */
#ifndef TN_DISPATCH_SERVICES_H
#define TN_DISPATCH_SERVICES_H

#include "operator/frame.h"

extern const tenon_host_t tn_host;
/* Gives an unallocated output (UNSET) the contents of a tensor: shares the tensor's memory if that
 * can be kept alive, otherwise copies it. */
tenon_status_t tn_unallocated_take(tenon_tensor_t *unallocated, tenon_tensor_t *tensor);
/* Sets tn_host_services. */
void tn_services_install(void);

#endif
