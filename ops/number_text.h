/* Numbers as text and back, whatever the locale; cast and other operators on strings use it. Text
 * is a decimal number with an optional exponent, or in any case of letters "inf" (also "infinity"),
 * "nan", "true" or "false", with a sign and white space around it.  Invariant: what
 * core_number_to_text writes, core_number_of_text reads as the same number. */
#ifndef TENON_OPS_NUMBER_TEXT_H
#define TENON_OPS_NUMBER_TEXT_H

#include <tenon/op.h>

enum { NUMBER_TEXT_SIZE = 40 };

/* 0 if the text is no number, or is longer than 500 bytes. */
int core_number_of_text(tenon_string_t text, double *out);
int core_single_of_text(tenon_string_t text, float *out); /* rounded once */
/* Whole numbers exactly, in two's complement; others rounded towards zero. */
int core_integer_of_text(tenon_string_t text, int64_t *out);

/* The shortest digits that become x again by `narrow`, which rounds to x's dtype, in plain notation
 * from 1e-4 to 1e16; "NaN", "INF", "-INF".  Gives the bytes written to `out`. */
typedef double (*core_narrow_fn)(double x, const void *context);
uint64_t core_number_to_text(double x, core_narrow_fn narrow, const void *context,
                             char out[NUMBER_TEXT_SIZE]);

#endif
