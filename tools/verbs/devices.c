/* `tenon devices` lists the accelerators of this machine, and says why others cannot be used. */
#include <stdio.h>
#include <tenon/tenon.h>

#include "library.h"
#include "options.h"
#include "print_error.h"

static int print_devices(const texts_t *libraries) {
  char *text = NULL;
  text_t why = {NULL, 0, 0, false};
  library_supervise();
  bool fine = library_load_all(libraries, false, &why);
  if (!fine) print_runtime_error(text_get(&why));
  text_free(&why);
  if (!fine) return EXIT_FAILED;
  if (tenon_devices(&text) != TENON_OK) return print_runtime_error(NULL);
  printf("%s", text);
  tenon_text_release(text);
  return EXIT_FINE;
}

static int run_devices_verb(const verb_t *verb, int argc, char **argv) {
  texts_t libraries = {NULL, 0, 0};
  const option_t options[] = {{"ops", 0, OPTION_TEXTS, "LIB",
                               "load a library that provides a device; may be repeated",
                               &libraries},
                              {NULL, 0, OPTION_FLAG, NULL, NULL, NULL}};
  command_line_t line = {verb, options, 0, 0, NULL, {NULL, 0, 0}, NULL};
  int code = options_parse(&line, argc, argv);
  if (code == OPTIONS_PARSED) code = print_devices(&libraries);
  texts_free(&line.operands);
  texts_free(&libraries);
  return code;
}

const verb_t verb_devices = {"devices", "", "list accelerators with their properties and memory",
                             "Lists each device plug-in, the devices that it found with their "
                             "properties and memory, and the reason why a device cannot be used.",
                             run_devices_verb};
