/* Loading of the libraries that --ops names. Called by most verbs. */
#ifndef TOOLS_LIBRARY_H
#define TOOLS_LIBRARY_H

#include <tenon/tenon.h>

#include "text.h"

/* Lets a supervisor watch the rest of the command: it reports a library that ends the process, or
 * that does not finish loading (supervise.h). Called once, before the first library is loaded. */
void library_supervise(void);
/* Loads a library as tenon_library_load does, and tells the supervisor about it. */
tenon_status_t library_load(const char *path, uint32_t flags, tenon_library_t **out_library);
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
