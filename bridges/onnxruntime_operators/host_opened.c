/* The functions of libtenon for an exported library, which finds them when it is registered. */
#include "host.h"

host_t host;
