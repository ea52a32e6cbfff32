/* This command again, under a debugger, a memory checker, or with a sanitizer's run-time library.
 * Called by verbs that run code of libraries. */
#ifndef TOOLS_REEXEC_H
#define TOOLS_REEXEC_H

#include "text.h"

typedef struct reexec_t {
  bool gdb;
  bool valgrind;
  bool sanitizer;              /* what the libraries below were built with */
  const texts_t *libraries;    /* that will be loaded */
  const char *breakpoint;      /* gdb: "FILE:LINE"; NULL: none */
  const char *const *left_out; /* options of the command line that are not for it, NULL ends them */
} reexec_t;

/* True: nothing of it is asked for.  Else the other program takes this one's place; false: it could
 * not, and `why` says so. */
bool reexec_under(const reexec_t *under, int argc, char **argv, text_t *why);

#endif
