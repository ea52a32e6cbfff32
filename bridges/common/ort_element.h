/* Element types of ONNX Runtime and dtypes of Tenon. */
#ifndef BRIDGES_COMMON_ORT_ELEMENT_H
#define BRIDGES_COMMON_ORT_ELEMENT_H

#include <stdbool.h>
#include <tenon/op.h>

#include "common/ort_interface.h"

/* Returns the element type of a dtype; UNDEFINED if ONNX Runtime has none. */
ort_element_t element_of(tenon_dtype_t dtype);
/* Finds the dtype of an element type. Returns false for UNDEFINED and for unknown numbers. */
bool element_dtype(ort_element_t element, tenon_dtype_t *out_dtype);
/* Returns the name of the dtype; "any" for UNDEFINED. */
const char *element_name(ort_element_t element);

#endif
