/* `tenon doctor`: what this machine and build are, or what a library file is; runs none of its code. */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "library.h"
#include "options.h"
#include "say.h"

static int report(const char *file) {
  char *text = NULL;
  uint32_t loadable = 1;
  text_t path = {NULL, 0, 0, false};
  if (file) library_path(file, &path);
  tenon_status_t status = file ? tenon_library_inspect(text_get(&path), &text, &loadable) : tenon_doctor(&text);
  text_free(&path);
  if (status != TENON_OK) return say_error(NULL);
  size_t size = strlen(text);
  printf("%s%s", text, size > 0 && text[size - 1] != '\n' ? "\n" : "");
  tenon_text_release(text);
  return loadable ? EXIT_FINE : EXIT_FAILED;
}

static int run(const verb_t *verb, int argc, char **argv) {
  const option_t options[] = {{NULL, 0, OPTION_FLAG, NULL, NULL, NULL}};
  command_line_t line = {verb, options, 0, -1, "LIB", {NULL, 0, 0}, NULL};
  int code = options_parse(&line, argc, argv);
  if (code == OPTIONS_GO_ON) {
    code = line.operands.count == 0 ? report(NULL) : EXIT_FINE;
    for (int32_t i = 0; i < line.operands.count; i++)
      if (report(line.operands.items[i]) != EXIT_FINE) code = EXIT_FAILED;
  }
  texts_free(&line.operands);
  return code;
}

const verb_t verb_doctor = {
    "doctor", "[LIB]...", "report on this machine and build, or on a library file",
    "Without an argument: machine, build and settings.  With library files: kind, machine, what\n"
    "they export and need, and what keeps them from being loaded; none of their code is run.\n"
    "Exit status 1: a file cannot be loaded.\n",
    run};
