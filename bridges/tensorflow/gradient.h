/* The operator that computes gradients by Tenon's tape. */
#ifndef BRIDGES_TENSORFLOW_GRADIENT_H
#define BRIDGES_TENSORFLOW_GRADIENT_H

#include <stdbool.h>
#include <stddef.h>

/* Registers the operator with TensorFlow. Returns false with the reason. */
bool gradient_define(char *why, size_t capacity);

#endif
