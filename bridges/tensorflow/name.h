/* Names of inputs, results and attributes in TensorFlow. */
#ifndef BRIDGES_TENSORFLOW_NAME_H
#define BRIDGES_TENSORFLOW_NAME_H

#include <stdbool.h>

#include "operator.h"

/* Writes the name of an argument in lower case. `name`, which TensorFlow uses for nodes, becomes
 * `name_`. Returns false if TensorFlow does not allow the name. */
bool name_argument(const char *name, char out_name[NAME_MOST]);

#endif
