/* Times of kernels on devices, for TensorFlow's profiler. */
#ifndef BRIDGES_TENSORFLOW_DEVICE_PROFILER_H
#define BRIDGES_TENSORFLOW_DEVICE_PROFILER_H

#include "plugin.h"

/* A kernel that is being measured; NULL: the profiler is off. */
typedef struct span_t span_t;

/* Marks the beginning and the end of a kernel in its stream, which the thread uses. `name` must be
 * valid as long as the process. */
span_t *span_begin(stream_t *stream, const char *name);
void span_end(span_t *span);

/* States the device type of the next TF_InitProfiler. The text must not go away. */
void profiler_set_type(const char *type);

#endif
