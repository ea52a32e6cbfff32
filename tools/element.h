/* Elements of dense host tensors as numbers, for every dtype of the contract. Used by summaries,
 * comparison and generated inputs. The decoding does not call operators, because it is used to
 * check their results. */
#ifndef TOOLS_ELEMENT_H
#define TOOLS_ELEMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <tenon/op.h>

typedef enum element_class_t {
  ELEMENT_OTHER, /* not a dtype of the contract */
  ELEMENT_BOOL,
  ELEMENT_INT,
  ELEMENT_UINT,
  ELEMENT_FLOAT,
  ELEMENT_COMPLEX,
  ELEMENT_STRING,
  ELEMENT_LIST,
} element_class_t;

element_class_t element_class(tenon_dtype_t dtype);
/* Whether the rows follow one another without gaps. */
bool element_is_dense(const tenon_tensor_t *tensor);
/* Bits of element `index` (row-major), at most 64 of them. */
uint64_t element_bits(const tenon_tensor_t *tensor, int64_t index);
/* Value of a BOOL, INT, UINT or FLOAT, and the real part of a COMPLEX. */
double element_number(const tenon_tensor_t *tensor, int64_t index);
double element_imaginary(const tenon_tensor_t *tensor, int64_t index);
/* Value of an INT, sign-extended, or of a UINT. */
int64_t element_integer(const tenon_tensor_t *tensor, int64_t index);
tenon_string_t element_string(const tenon_tensor_t *tensor, int64_t index);
/* Rounds to nearest even; a number that is too large becomes the largest finite one. The real part
 * of a COMPLEX is set. */
void element_set(const tenon_tensor_t *tensor, int64_t index, double number);
/* Largest value of an integer dtype, or 1 for bool. */
double element_largest(tenon_dtype_t dtype);

#endif
