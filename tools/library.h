/* The libraries that --ops names, and lists of operators.  Called by most verbs. */
#ifndef TOOLS_LIBRARY_H
#define TOOLS_LIBRARY_H

#include <tenon/tenon.h>

#include "text.h"

/* Loads each of them for the rest of the process, isolated each in a process of its own; what is
 * wrong is added to `why`. */
bool library_load_all(const texts_t *paths, bool is_isolated, text_t *why);
#define LIBRARY_ISOLATE                                                                            \
  "isolate-ops", 0, OPTION_FLAG, NULL,                                                             \
      "load libraries into processes of their own: what goes wrong there is an error here "        \
      "(docs/isolation.md)"
/* A file name without a separator is looked for by the loader in its search path; this makes it the
 * file it is. */
void library_path(const char *file, text_t *out_path);

#endif
