/* Compilers for `tenon build`: which one a source needs, and the command lines to compile and to link.
 * The invariant: a library that these commands make exports tenon_library and nothing else. */
#ifndef TOOLS_TOOLCHAIN_H
#define TOOLS_TOOLCHAIN_H

#include "text.h"

typedef struct build_t {                                               /* what was asked for */
  texts_t sources, folders, macros, library_folders, libraries, flags; /* flags: for every compiler, as given */
  const char *output, *level;                                          /* level: of optimisation, "3" */
  bool debug, verbose;
} build_t;

/* Compiles each source to an object in a temporary folder, as many at once as there are processors, and links them. */
bool toolchain_build(const build_t *build, text_t *why);
/* Whether the build has a source for an accelerator, whose code cannot be tried on every machine. */
bool toolchain_has_device_code(const build_t *build);

#endif
