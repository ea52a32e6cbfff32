/* Dynamic libraries: open, look up, close.  Called by the loader only, and by device plug-ins
 * through it. */
#ifndef TN_BASE_DYNLIB_H
#define TN_BASE_DYNLIB_H

#include <stdbool.h>
#include <tenon/op.h>

typedef struct tn_dynlib_t tn_dynlib_t;

/* Resolves every symbol now and keeps the library's own names to itself.  Runs its initialisers. */
tenon_status_t tn_dynlib_open(const char *path, tn_dynlib_t **out_library);
/* The same of a copy (base/trust.h), which it takes over.  The system knows it by a path of /proc:
 * $ORIGIN means nothing in it, and a debugger must be told where the file is. */
tenon_status_t tn_dynlib_open_copy(int copy, tn_dynlib_t **out_library);
tenon_any_fn tn_dynlib_function(tn_dynlib_t *library, const char *name); /* NULL: absent */
/* Of the program and what it was started with, as libraries that are opened find it; NULL:
 * absent. */
tenon_any_fn tn_dynlib_global(const char *name);
/* Whether both are the system's one library: it takes a file that it has for the one that is asked
 * for. */
bool tn_dynlib_same(const tn_dynlib_t *a, const tn_dynlib_t *b);
void tn_dynlib_close(tn_dynlib_t *library); /* NULL is fine */
void tn_dynlib_keep(tn_dynlib_t *library);  /* lets the handle go: the code stays */

#endif
