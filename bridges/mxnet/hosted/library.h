/* Opens libraries. */
#ifndef BRIDGES_MXNET_LIBRARY_H
#define BRIDGES_MXNET_LIBRARY_H

#include "hosted.h"

/* Opens a library, or finds it if it is open already. After a failure `why` has the reason. */
tenon_status_t hosted_open(const char *path, hosted_t **out, char *why, size_t capacity);

#endif
