/* Transposes planes of elements. Those of four bytes have instructions of the processor:
 * transpose_x86.c or transpose_other.c is compiled; copy.c has the rest. */
#ifndef TN_CORE_TRANSPOSE_H
#define TN_CORE_TRANSPOSE_H

#include <stdbool.h>
#include <stdint.h>

enum { TN_TRANSPOSE_SIDE = 8 };

/* Copies the element at from + column * from_stride + 4 * row to to + row * to_stride + 4 * column.
 *
 * Arguments: rows and columns are multiples of TN_TRANSPOSE_SIDE; the strides are bytes.
 * Returns: false, and copies nothing, if the processor has no such instructions, or
 * TENON_CPU_CAPABILITY excluded them when the process asked first. */
bool tn_transpose_words(const char *from, int64_t from_stride, char *to, int64_t to_stride,
                        int64_t rows, int64_t columns);
/* Does the same for elements of `size` bytes, which are 1, 2, 4 or 8, and any rows and columns. */
void tn_transpose_plane(int64_t size, const char *from, int64_t from_stride, char *to,
                        int64_t to_stride, int64_t rows, int64_t columns);

#endif
