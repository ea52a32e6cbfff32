/* Loading of the libraries that --ops names. Called by most verbs. */
#ifndef TOOLS_LIBRARY_H
#define TOOLS_LIBRARY_H

#include <tenon/tenon.h>

#include "text.h"

/* Loads each library for the rest of the process, if isolated each in a process of its own. Errors
 * are added to `why`. */
bool library_load_all(const texts_t *paths, bool is_isolated, text_t *why);
#define LIBRARY_ISOLATE                                                                            \
  "isolate-ops", 0, OPTION_FLAG, NULL,                                                             \
      "run each library in its own process: a crash of the library is then reported as an error "  \
      "(docs/isolation.md)"
/* The loader searches a name without a separator in its search path. This function returns a path
 * that denotes the file itself if it exists. */
void library_path(const char *file, text_t *out_path);

#endif
