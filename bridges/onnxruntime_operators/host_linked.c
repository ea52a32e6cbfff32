/* The functions of libtenon for the library that is linked to it. */
#include "host.h"

#define HOST_ADDRESS_(name) .name = name,
host_t host = {HOST_FUNCTIONS(HOST_ADDRESS_)};
