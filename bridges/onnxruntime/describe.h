/* Declares the operators of a library to Tenon. */
#ifndef BRIDGES_ONNXRUNTIME_DESCRIBE_H
#define BRIDGES_ONNXRUNTIME_DESCRIBE_H

#include "operator.h"

/* Fills in the descriptor of the library. Returns false if memory is out. */
bool describe_library(library_t *library);

#endif
