/* The passes and partitioners of a library, as tables for Tenon. */
#ifndef BRIDGES_MXNET_TRANSFORMS_H
#define BRIDGES_MXNET_TRANSFORMS_H

#include "hosted.h"

/* Reads the passes and partitioners of the library. transforms_free frees them. After a failure
 * `why` has the reason. */
bool transforms_read(hosted_t *library, char *why, size_t capacity);
void transforms_free(hosted_t *library);

#endif
