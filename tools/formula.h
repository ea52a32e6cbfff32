/* Arithmetic in a text: "2 * m * n * k", of numbers, names, + - * / and brackets.  Called by bench
 * for counts of operations. */
#ifndef TOOLS_FORMULA_H
#define TOOLS_FORMULA_H

#include "text.h"

/* The value of a name, of x[2] with its index (-1: none); false: there is no such name. */
typedef bool (*formula_fn)(void *context, const char *name, int64_t index, double *out_value);
bool formula_value(const char *text, formula_fn find, void *context, double *out_value,
                   text_t *why);

#endif
