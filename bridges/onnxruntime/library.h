/* Opens libraries. */
#ifndef BRIDGES_ONNXRUNTIME_LIBRARY_H
#define BRIDGES_ONNXRUNTIME_LIBRARY_H

#include "operator.h"

/* Opens a library, or finds it if it is open already. After a failure `why` has the reason. */
tenon_status_t library_open(const char *path, library_t **out, char *why, size_t capacity);

#endif
