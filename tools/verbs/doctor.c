/* `tenon doctor`: what this machine and build are, or what a library file is; runs none of its code
 * unless it is told to. */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "library.h"
#include "options.h"
#include "print_error.h"

/* What only loading tells: the version of a foreign library, what its functions refuse. */
static int try_load(const char *path) {
  tenon_library_t *library;
  if (tenon_library_load(path, 0, &library) != TENON_OK) return print_runtime_error(NULL);
  printf("loads:         yes, as %s %s, with %d operators\n", tenon_library_name(library),
         tenon_library_version(library), (int)tenon_library_op_count(library));
  tenon_library_release(library);
  return EXIT_FINE;
}

static int print_report(const char *file, bool loads) {
  char *text = NULL;
  uint32_t loadable = 1;
  text_t path = {NULL, 0, 0, false};
  if (file) library_path(file, &path);
  tenon_status_t status =
      file ? tenon_library_inspect(text_get(&path), &text, &loadable) : tenon_doctor(&text);
  if (status != TENON_OK) {
    text_free(&path);
    return print_runtime_error(NULL);
  }
  size_t size = strlen(text);
  printf("%s%s", text, size > 0 && text[size - 1] != '\n' ? "\n" : "");
  tenon_text_release(text);
  int code = !loadable ? EXIT_FAILED : file && loads ? try_load(text_get(&path)) : EXIT_FINE;
  text_free(&path);
  return code;
}

static int run_doctor_verb(const verb_t *verb, int argc, char **argv) {
  bool loads = false;
  const option_t options[] = {
      {"load", 'l', OPTION_FLAG, NULL, "load the files too, which runs their code", &loads},
      {NULL, 0, OPTION_FLAG, NULL, NULL, NULL}};
  command_line_t line = {verb, options, 0, -1, "LIB", {NULL, 0, 0}, NULL};
  int code = options_parse(&line, argc, argv);
  if (code == OPTIONS_PARSED) {
    code = line.operands.count == 0 ? print_report(NULL, false) : EXIT_FINE;
    for (int32_t i = 0; i < line.operands.count; i++)
      if (print_report(line.operands.items[i], loads) != EXIT_FINE) code = EXIT_FAILED;
  }
  texts_free(&line.operands);
  return code;
}

const verb_t verb_doctor = {
    "doctor", "[LIB]...", "report on this machine and build, or on a library file",
    "Without an argument: machine, build and settings.  With library files: kind, machine, what\n"
    "they export and need, and what keeps them from being loaded; none of their code is run "
    "without --load.\n"
    "Exit status 1: a file cannot be loaded.\n",
    run_doctor_verb};
