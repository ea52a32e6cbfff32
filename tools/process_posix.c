/* Running other programs over POSIX; see process.h.  Called by `tenon check`, which is a program of its own.
 * A command is an argument list, never a shell's text. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void process_set(const char *name, const char *value) { (void)setenv(name, value, 1); }

bool process_become(const texts_t *command, text_t *why) {
  char **arguments = calloc((size_t)command->count + 1, sizeof *arguments);
  if (!arguments) return text_add(why, "out of memory"), false;
  for (int32_t i = 0; i < command->count; i++) arguments[i] = command->items[i];
  fflush(stdout);
  execv(arguments[0], arguments);
  text_add(why, "cannot run '%s': %s", arguments[0], strerror(errno));
  free(arguments);
  return false;
}
