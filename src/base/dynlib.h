/* Dynamic libraries: open, look up a symbol, close. Used by the loader, by device plug-ins through
 * the loader, and for libraries that are optional at run time (libdw). */
#ifndef TN_BASE_DYNLIB_H
#define TN_BASE_DYNLIB_H

#include <stdbool.h>
#include <tenon/op.h>

typedef struct tn_dynlib_t tn_dynlib_t;

/* Opens a library and runs its initialisers. All symbols are resolved at once (RTLD_NOW) and the
 * library's own names stay local (RTLD_LOCAL). */
tenon_status_t tn_dynlib_open(const char *path, tn_dynlib_t **out_library);
/* The same for a sealed copy made by tn_file_copy (base/trust.h); the library takes over the
 * descriptor. The system's loader knows the copy by a path under /proc, so $ORIGIN has no meaning
 * in it and a debugger must be told where the original file is. */
tenon_status_t tn_dynlib_open_copy(int copy, tn_dynlib_t **out_library);
/* Returns NULL if the library has no such symbol. */
tenon_any_fn tn_dynlib_function(tn_dynlib_t *library, const char *name);
/* Looks up a symbol in the program and the libraries loaded at its start, in the order in which the
 * system's loader searches them. Returns NULL if there is none. */
tenon_any_fn tn_dynlib_global(const char *name);
/* Whether both handles refer to the same library of the system's loader. dlopen returns an existing
 * handle when it considers the file already loaded. */
bool tn_dynlib_same(const tn_dynlib_t *a, const tn_dynlib_t *b);
void tn_dynlib_close(tn_dynlib_t *library); /* NULL is allowed */
void tn_dynlib_keep(tn_dynlib_t *library);  /* releases the handle; the code stays loaded */

#endif
