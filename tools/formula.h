/* Arithmetic expressions such as "2 * m * n * k": numbers, names, + - * / and brackets. Called by
 * bench to count operations. */
#ifndef TOOLS_FORMULA_H
#define TOOLS_FORMULA_H

#include "text.h"

/* Returns the value of a name, or with an index (else -1) that of x[index]; false if the name is
 * unknown. */
typedef bool (*formula_fn)(void *context, const char *name, int64_t index, double *out_value);
bool formula_value(const char *text, formula_fn find, void *context, double *out_value,
                   text_t *why);

#endif
