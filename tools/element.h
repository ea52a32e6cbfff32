/* Elements of dense host tensors as numbers, for every dtype of the contract.  Summaries,
 * comparison and generated inputs use it.  It decodes by itself and not through operators, because
 * it judges what operators gave. */
#ifndef TOOLS_ELEMENT_H
#define TOOLS_ELEMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <tenon/op.h>

typedef enum element_class_t {
  ELEMENT_OTHER, /* of no known dtype */
  ELEMENT_BOOL,
  ELEMENT_INT,
  ELEMENT_UINT,
  ELEMENT_FLOAT,
  ELEMENT_COMPLEX,
  ELEMENT_STRING,
  ELEMENT_LIST,
} element_class_t;

element_class_t element_class(tenon_dtype_t dtype);
/* Rows one after the other, without gaps. */
bool element_is_dense(const tenon_tensor_t *tensor);
/* The bits of element `index` (row-major), at most 64 of them. */
uint64_t element_bits(const tenon_tensor_t *tensor, int64_t index);
/* BOOL, INT, UINT, FLOAT, and the real part of COMPLEX. */
double element_number(const tenon_tensor_t *tensor, int64_t index);
double element_imaginary(const tenon_tensor_t *tensor, int64_t index);
/* An INT that is sign-extended, or a UINT. */
int64_t element_integer(const tenon_tensor_t *tensor, int64_t index);
tenon_string_t element_string(const tenon_tensor_t *tensor, int64_t index);
/* Rounds to nearest even; what is too large becomes the largest finite number.  Of COMPLEX the real
 * part is set. */
void element_set(const tenon_tensor_t *tensor, int64_t index, double number);
/* The largest value of an integer dtype, or 1 for bool. */
double element_largest(tenon_dtype_t dtype);

#endif
