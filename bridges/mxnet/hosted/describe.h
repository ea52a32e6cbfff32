/* The operators of a library, as declarations for Tenon. */
#ifndef BRIDGES_MXNET_DESCRIBE_H
#define BRIDGES_MXNET_DESCRIBE_H

#include "hosted.h"

/* Sets library->descriptor. After a failure `why` has the reason. */
bool hosted_describe(hosted_t *library, char *why, size_t capacity);

#endif
