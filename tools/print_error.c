/* Prints the command's error messages; see print_error.h. stdout is flushed first, so that both
 * streams appear in order on a terminal. */
#include "print_error.h"

#include <stdarg.h>
#include <stdio.h>
#include <tenon/tenon.h>

#include "verbs/verb.h"

static void print_line(const char *format, va_list arguments) {
  fflush(stdout);
  fputs("tenon: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
}

int print_failure(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print_line(format, arguments);
  va_end(arguments);
  return EXIT_FAILED;
}

int print_usage_error(const char *verb, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print_line(format, arguments);
  va_end(arguments);
  if (verb)
    fprintf(stderr, "tenon: run `tenon %s --help` for usage\n", verb);
  else
    fputs("tenon: run `tenon --help` for usage\n", stderr);
  return EXIT_USAGE;
}

int print_runtime_error(const char *what) {
  return what ? print_failure("%s: %s", what, tenon_error()) : print_failure("%s", tenon_error());
}
