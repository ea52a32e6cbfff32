/* The system's compilers: which one a source needs, the command lines to compile and to link, and
 * running them. The invariant: a library that they make exports one function and nothing else. */
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
  const char *output;    /* the library's name, for messages */
  const char *entry;     /* the function to export */
  const tn_text_t *text; /* a source in C that is in no file, instead of the build's; or NULL */
  tn_words_t programs[TN_LANGUAGES]; /* program and its own arguments; empty: not needed */
  char include[4096];                /* where tenon/op.h is */
  bool is_no_unique_known;           /* the C++ compiler takes -fno-gnu-unique */
} tn_toolchain_t;

/* Checks the sources, finds compilers and headers; runs nothing.  `build`, `output`, `entry` and
 * `text` are set. */
tenon_status_t tn_toolchain_open(tn_toolchain_t *toolchain);
void tn_toolchain_close(tn_toolchain_t *toolchain);
/* All that the result depends on but the contents of files: commands, compilers, environment. */
void tn_toolchain_describe(const tn_toolchain_t *toolchain, tn_text_t *out_text);
/* Compiles, as many at once as there are processors, and links to FOLDER/library.so.  What the
 * compilers say goes to `words`, the files that they read to `inputs`.  Fails with their words, or,
 * with build->say, without. */
tenon_status_t tn_toolchain_run(tn_toolchain_t *toolchain, const char *folder, tn_text_t *words,
                                tn_words_t *inputs);
/* Which language a file is in, by its name; -1: none of them. */
int tn_language_of(const char *source);

#endif
