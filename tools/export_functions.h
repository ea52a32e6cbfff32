/* The functions of tvm-ffi that `tenon export` makes of operators. */
#ifndef TOOLS_EXPORT_FUNCTIONS_H
#define TOOLS_EXPORT_FUNCTIONS_H

#include <tenon/tenon.h>

#include "text.h"

typedef struct functions_t {
  texts_t ops;     /* "demo::gelu" */
  texts_t names;   /* "gelu" */
  text_t left_out; /* a line for each operator that cannot be a function */
} functions_t;

/* Lists the functions of a library.
 *
 * Arguments: `asked`: the operators; none: all of the library. `prefix`: of the names; NULL: none.
 * Returns: an exit code, after a message. */
int export_functions_list(const tenon_library_t *library, const texts_t *asked, const char *prefix,
                          functions_t *out);
void export_functions_free(functions_t *functions);
/* Opens the library that was made, and prints what it exports. Returns an exit code. */
int export_functions_check(const functions_t *functions, const char *made, const char *output);

#endif
