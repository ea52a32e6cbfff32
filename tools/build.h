/* Building of a library from what a command line says.  Called by build and watch. */
#ifndef TOOLS_BUILD_H
#define TOOLS_BUILD_H

#include <tenon/tenon.h>

#include "options.h"
#include "text.h"

typedef struct build_t { /* on the command line */
  texts_t sources;
  texts_t folders;
  texts_t macros;
  texts_t library_folders;
  texts_t libraries;
  texts_t flags;
  const char *output;
  const char *level;
  bool debug;
  bool verbose;
  bool fresh;
  bool was_reused; /* set: by the last build: it was made before */
} build_t;

/* Rows of an option table. */
#define BUILD_OPTIONS(b)                                                                           \
  {"output",    'o', OPTION_TEXT, "LIB", "name of the library (the first source's name with .so)", \
   &(b)->output},                                                                                  \
      {"verbose", 'v', OPTION_FLAG, NULL, "show the commands", &(b)->verbose},                     \
      {"optimize", 'O', OPTION_TEXT, "LEVEL", "level of optimisation (3)", &(b)->level},           \
      {"debug", 'g', OPTION_FLAG, NULL, "with information for debuggers", &(b)->debug},            \
      {"include", 'I', OPTION_TEXTS, "DIR", "look for headers there too", &(b)->folders},          \
      {"define", 'D', OPTION_TEXTS, "NAME[=VALUE]", "define a macro", &(b)->macros},               \
      {"library", 'l', OPTION_TEXTS, "LIB", "link with a library", &(b)->libraries},               \
      {"library-dir",        'L', OPTION_TEXTS, "DIR", "look for libraries there too",             \
       &(b)->library_folders},                                                                     \
  {                                                                                                \
    "fresh", 0, OPTION_FLAG, NULL, "compile, also what the cache has", &(b)->fresh                 \
  }

/* Sets `output` where it is not stated; the text holds it. */
void build_name_output(build_t *build, text_t *room);
/* Builds it; what compilers say is on stderr. */
bool build_library(build_t *build, text_t *why);
/* Device code cannot be tried on every machine. */
bool build_has_device_code(const build_t *build);
void build_free(build_t *build);

#endif
