/* Numbers as text and back, independent of the locale; used by cast and other operators on strings.
 * The text is a decimal number with an optional exponent or, in upper or lower case, "inf" (also
 * "infinity"), "nan", "true" or "false", with an optional sign and white space around it.
 * Invariant: core_number_of_text reads the output of core_number_to_text as the same number. */
#ifndef TENON_OPS_NUMBER_TEXT_H
#define TENON_OPS_NUMBER_TEXT_H

#include <tenon/op.h>

enum { NUMBER_TEXT_SIZE = 40 };

/* Return 0 if the text is not a number or is longer than 500 bytes. */
int core_number_of_text(tenon_string_t text, double *out);
int core_single_of_text(tenon_string_t text, float *out); /* rounded once */
/* Reads whole numbers exactly, in two's complement; rounds others towards zero. */
int core_integer_of_text(tenon_string_t text, int64_t *out);

/* Writes the fewest digits that `narrow`, which rounds to x's dtype, turns back into x: plain
 * notation from 1e-4 to 1e16; "NaN", "INF", "-INF". Returns the number of bytes written. */
typedef double (*core_narrow_fn)(double x, const void *context);
uint64_t core_number_to_text(double x, core_narrow_fn narrow, const void *context,
                             char out[NUMBER_TEXT_SIZE]);

#endif
