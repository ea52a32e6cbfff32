/* Elements of string tensors of TensorFlow. */
#ifndef BRIDGES_TENSORFLOW_TEXT_H
#define BRIDGES_TENSORFLOW_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <tenon/tenon.h>

enum { TEXT_SIZE = 24 }; /* bytes of an element */

/* Reads an element. The bytes belong to the tensor. */
tenon_string_t text_read(const void *element);
/* Copies bytes into an empty element. Returns false without memory. */
bool text_write(void *element, const char *data, size_t size);

#endif
