/* Runs this command again under gdb or valgrind, or with the run-time library of a sanitizer.
 * Called by the verbs that run code of operator libraries. */
#ifndef TOOLS_REEXEC_H
#define TOOLS_REEXEC_H

#include "text.h"

typedef struct reexec_t {
  bool gdb;
  bool valgrind;
  bool sanitizer;           /* preload the sanitizer that the libraries below were built with */
  const texts_t *libraries; /* the libraries that will be loaded */
  const char *breakpoint;   /* gdb: "FILE:LINE"; NULL: none */
  /* Options that are removed from the new command line; ends with NULL. */
  const char *const *left_out;
} reexec_t;

/* Returns true if nothing was requested. Otherwise the other program replaces this process; false:
 * that failed, and `why` has the reason. */
bool reexec_under(const reexec_t *under, int argc, char **argv, text_t *why);

#endif
