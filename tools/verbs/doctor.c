/* `tenon doctor` reports on this machine and build, or inspects a library file. Code of the file is
 * executed only with --load. */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "library.h"
#include "options.h"
#include "print_error.h"

/* Loads the library, which reveals what inspection cannot: the version of a foreign library, and
 * operators that it fails to register. */
static int try_load(const char *path) {
  tenon_library_t *library;
  if (library_load(path, 0, &library) != TENON_OK) return print_runtime_error(NULL);
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
  int code = loadable ? EXIT_FINE : EXIT_FAILED;
  if (loadable && file && loads) code = try_load(text_get(&path));
  text_free(&path);
  return code;
}

static int run_doctor_verb(const verb_t *verb, int argc, char **argv) {
  bool loads = false;
  const option_t options[] = {
      {"load", 'l', OPTION_FLAG, NULL, "also load the files, which executes their code", &loads},
      {NULL, 0, OPTION_FLAG, NULL, NULL, NULL}};
  command_line_t line = {verb, options, 0, -1, "LIB", {NULL, 0, 0}, NULL};
  int code = options_parse(&line, argc, argv);
  if (code == OPTIONS_PARSED) {
    if (loads) library_supervise();
    code = line.operands.count == 0 ? print_report(NULL, false) : EXIT_FINE;
    for (int32_t i = 0; i < line.operands.count; i++)
      if (print_report(line.operands.items[i], loads) != EXIT_FINE) code = EXIT_FAILED;
  }
  texts_free(&line.operands);
  return code;
}

const verb_t verb_doctor = {
    "doctor", "[LIB]...", "report on this machine and build, or inspect a library file",
    "Without an argument: reports machine, build and settings. With library files: reports kind, "
    "architecture, exports and dependencies of each, and what prevents it from being loaded. No "
    "code of the files is executed without --load.\nExit status: 0: all files can be loaded; 1: a "
    "file cannot be loaded.",
    run_doctor_verb};
