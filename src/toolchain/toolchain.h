/* The system's compilers: which one a source file needs, the command lines that compile and link,
 * and running them. Invariant: a library built here exports exactly one function. */
#ifndef TN_TOOLCHAIN_TOOLCHAIN_H
#define TN_TOOLCHAIN_TOOLCHAIN_H

#include <tenon/tenon.h>

#include "base/process.h"

enum {
  TN_LANGUAGE_C,
  TN_LANGUAGE_CXX,
  TN_LANGUAGE_ASSEMBLY,
  TN_LANGUAGE_CUDA,
  TN_LANGUAGE_OBJECT,
  TN_LANGUAGES,
};

typedef struct tn_toolchain_t {
  const tenon_build_t *build;
  const char *output; /* the library's name, for messages */
  const char *entry;  /* the function to export */
  /* C source text that is in no file and replaces the build's sources; or NULL */
  const tn_text_t *text;
  tn_words_t programs[TN_LANGUAGES]; /* program and its own arguments; empty if not needed */
  char include[4096];                /* folder that contains tenon/op.h */
  bool is_no_unique_known;           /* the C++ compiler accepts -fno-gnu-unique */
} tn_toolchain_t;

/* Checks the sources and finds compilers and headers; runs no program. The caller has set `build`,
 * `output`, `entry` and `text`. */
tenon_status_t tn_toolchain_open(tn_toolchain_t *toolchain);
void tn_toolchain_close(tn_toolchain_t *toolchain);
/* Describes everything that the result depends on except the contents of files: commands,
 * compilers, environment. */
void tn_toolchain_describe(const tn_toolchain_t *toolchain, tn_text_t *out_text);
/* Compiles the sources, as many in parallel as there are processors, and links FOLDER/library.so.
 * Appends the compilers' messages to `words` and the files that they read to `inputs`. The error
 * message includes the compilers' messages unless build->say receives them. */
tenon_status_t tn_toolchain_run(tn_toolchain_t *toolchain, const char *folder, tn_text_t *words,
                                tn_words_t *inputs);
/* The language of a file, by its suffix; -1 if the suffix is unknown. */
int tn_language_of(const char *source);

#endif
