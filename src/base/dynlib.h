/* Dynamic libraries: open, look up, close.  Called by the loader only, and by device plug-ins through it. */
#ifndef TN_BASE_DYNLIB_H
#define TN_BASE_DYNLIB_H

#include <tenon/op.h>

typedef struct tn_dynlib_t tn_dynlib_t;

/* Resolves every symbol now and keeps the library's own names to itself.  Runs its initialisers. */
tenon_status_t tn_dynlib_open(const char *path, tn_dynlib_t **out_library);
tenon_any_fn tn_dynlib_function(tn_dynlib_t *library, const char *name); /* NULL: absent */
/* Of the program and what it was started with, as libraries that are opened find it; NULL: absent. */
tenon_any_fn tn_dynlib_global(const char *name);
void tn_dynlib_close(tn_dynlib_t *library); /* NULL is fine */

#endif
