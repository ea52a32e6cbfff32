/* What the command says about its own failures; see say.h.
 * stdout is flushed first, so that on a terminal the words stand where they belong. */
#include "say.h"

#include <stdarg.h>
#include <stdio.h>
#include <tenon/tenon.h>

#include "verb.h"

static void say(const char *format, va_list arguments) {
  fflush(stdout);
  fputs("tenon: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
}

int say_failure(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say(format, arguments);
  va_end(arguments);
  return EXIT_FAILED;
}

int say_usage(const char *verb, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say(format, arguments);
  va_end(arguments);
  fprintf(stderr, "tenon: `tenon%s%s --help` says how it is used\n", verb ? " " : "",
          verb ? verb : "");
  return EXIT_USAGE;
}

int say_error(const char *what) {
  return what ? say_failure("%s: %s", what, tenon_error()) : say_failure("%s", tenon_error());
}
