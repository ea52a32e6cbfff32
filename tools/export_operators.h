/* The operators of ONNX Runtime that `tenon export` makes. */
#ifndef TOOLS_EXPORT_OPERATORS_H
#define TOOLS_EXPORT_OPERATORS_H

#include <stdbool.h>

/* Opens the library that was made, and prints what it exports.
 *
 * Arguments: `is_strict`: the user named the operators, so none may be left out.
 * Returns: an exit code, after a message. */
int export_operators_check(const char *made, const char *output, bool is_strict);

#endif
