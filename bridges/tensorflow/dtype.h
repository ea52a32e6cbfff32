/* Dtypes of TensorFlow and of Tenon. Quantised dtypes, resources, variants, and dtypes that Tenon
 * packs into parts of bytes have no counterpart. */
#ifndef BRIDGES_TENSORFLOW_DTYPE_H
#define BRIDGES_TENSORFLOW_DTYPE_H

#include <stdbool.h>
#include <tenon/tenon.h>

#include "tf.h"

/* Returns false if Tenon has no such dtype. */
bool tf_dtype_from(int code, tenon_dtype_t *out_dtype);
/* Returns 0 if TensorFlow has no such dtype. */
int tf_dtype_to(tenon_dtype_t dtype);
/* Returns the name of a dtype in the specification of an operator, such as "float"; NULL if there
 * is none. */
const char *dtype_word(int code);
/* Describes a dtype in a message, such as "qint8". */
const char *dtype_name(int code);

#endif
