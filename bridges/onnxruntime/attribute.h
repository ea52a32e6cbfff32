/* Attributes of a node. Tenon passes them as texts "name=value", because libraries do not declare
 * their attributes; a text is read as the type that the library asks for. */
#ifndef BRIDGES_ONNXRUNTIME_ATTRIBUTE_H
#define BRIDGES_ONNXRUNTIME_ATTRIBUTE_H

#include <stdbool.h>
#include <tenon/op.h>

#include "common/ort_interface.h"

/* Finds the value of an attribute in a list of texts "name=value". */
bool attribute_find(const tenon_value_t *list, const char *name, tenon_string_t *out_value);
/* Read a value. The functions that read lists allocate *out, which the caller frees; they return
 * false if the text is no such list. */
bool attribute_int(tenon_string_t text, int64_t *out);
bool attribute_float(tenon_string_t text, float *out);
bool attribute_ints(tenon_string_t text, int64_t **out, size_t *out_count);
bool attribute_floats(tenon_string_t text, float **out, size_t *out_count);
/* The strings and the list are one block of memory; each string ends with a zero byte. */
bool attribute_strings(tenon_string_t text, char ***out, size_t *out_count);
/* Reads a tensor: dtype, shape and two hexadecimal digits for each byte, "f32[2] 0000803f00000040".
 * Errors: the text is no tensor, or memory is out, as a message of Tenon. */
tenon_status_t attribute_tensor(tenon_string_t text, tenon_tensor_t **out);

#endif
