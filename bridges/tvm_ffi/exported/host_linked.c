/* The functions of libtenon for the bridge, which is linked to it. */
#include "host.h"

#define HOST_ADDRESS_(name) .name = name,
host_t host = {HOST_FUNCTIONS(HOST_ADDRESS_)};
