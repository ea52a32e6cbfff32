/* Building a library from command-line options. Called by the verbs build and watch. */
#ifndef TOOLS_BUILD_H
#define TOOLS_BUILD_H

#include <tenon/tenon.h>

#include "options.h"
#include "text.h"

typedef struct build_t { /* the command line */
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
  bool was_reused; /* output of build_library: the result came from the cache */
} build_t;

/* Rows of an option table. */
#define BUILD_OPTIONS(b)                                                                           \
  {"output",                                                                                       \
   'o',                                                                                            \
   OPTION_TEXT,                                                                                    \
   "LIB",                                                                                          \
   "name of the library (default: the first source's name with .so)",                              \
   &(b)->output},                                                                                  \
      {"verbose", 'v', OPTION_FLAG, NULL, "show the commands", &(b)->verbose},                     \
      {"optimize", 'O', OPTION_TEXT, "LEVEL", "optimisation level (default: 3)", &(b)->level},     \
      {"debug", 'g', OPTION_FLAG, NULL, "add debug information", &(b)->debug},                     \
      {"include", 'I', OPTION_TEXTS, "DIR", "also search this folder for headers", &(b)->folders}, \
      {"define", 'D', OPTION_TEXTS, "NAME[=VALUE]", "define a macro", &(b)->macros},               \
      {"library", 'l', OPTION_TEXTS, "LIB", "link with a library", &(b)->libraries},               \
      {"library-dir",        'L', OPTION_TEXTS, "DIR", "also search this folder for libraries",    \
       &(b)->library_folders},                                                                     \
  {                                                                                                \
    "fresh", 0, OPTION_FLAG, NULL, "compile even what the cache already has", &(b)->fresh          \
  }

/* Sets `output` if the command line does not; `room` owns the name. */
void build_name_output(build_t *build, text_t *room);
/* Builds the library. Compiler output goes to stderr. */
bool build_library(build_t *build, text_t *why);
/* Whether a source is CUDA. Such a library is not loaded to check it, because not every machine can
 * run it. */
bool build_has_device_code(const build_t *build);
void build_free(build_t *build);

#endif
