/* `tenon check --device LIB`: the conformance suite of devices, which is a program of its own, since it runs each case in a child
 * that has started nothing. */
#include <stdlib.h>
#include <string.h>

#include "library.h"
#include "options.h"
#include "process.h"
#include "say.h"
#include "system.h"

typedef struct check_t {
  const char *device, *settings;
  texts_t cases;
  const char *ordinal, *seed, *limit;
  bool quick, first, no_contents, json, verbose, list;
} check_t;

/* The program: installed in libexec beside bin, or built in the folder of tests. */
static bool find_program(text_t *out_path, text_t *why) {
  static const char *const places[] = {"../libexec/tenon/check_device", "tests/check_device"};
  text_t own = {NULL, 0, 0, false};
  bool found = system_own_folder(&own);
  for (size_t i = 0; i < sizeof places / sizeof *places && (i == 0 || !found); i++) {
    text_clear(out_path);
    text_add(out_path, "%s/%s", text_get(&own), places[i]);
    found = system_is_file(text_get(out_path));
  }
  if (!found)
    text_add(why,
             "the suite, check_device, was not found in ../libexec/tenon or tests of %s: reinstall Tenon, or build "
             "the target check_device",
             text_get(&own));
  text_free(&own);
  return found;
}

static bool add_value(texts_t *command, const char *option, const char *value) {
  return !value || (texts_add(command, option) && texts_add(command, value));
}

static bool add_flag(texts_t *command, const char *option, bool is_set) {
  return !is_set || texts_add(command, option);
}

static int perform(const check_t *check) {
  texts_t command = {NULL, 0, 0};
  text_t path = {NULL, 0, 0, false}, library = {NULL, 0, 0, false}, why = {NULL, 0, 0, false};
  int code = EXIT_FAILED;
  if (check->device) library_path(check->device, &library);
  if (find_program(&path, &why)) {
    bool fine = texts_add(&command, text_get(&path));
    for (int32_t i = 0; i < check->cases.count; i++)
      fine = fine && add_value(&command, "--case", check->cases.items[i]);
    fine = fine && add_value(&command, "--ordinal", check->ordinal) &&
           add_value(&command, "--settings", check->settings) && add_value(&command, "--seed", check->seed) &&
           add_value(&command, "--limit", check->limit) && add_flag(&command, "--quick", check->quick) &&
           add_flag(&command, "--first", check->first) && add_flag(&command, "--no-contents", check->no_contents) &&
           add_flag(&command, "--json", check->json) && add_flag(&command, "--verbose", check->verbose) &&
           add_flag(&command, "--list", check->list) && (!library.size || texts_add(&command, text_get(&library)));
    if (fine) process_become(&command, &why); /* comes back only if it fails */
    else text_add(&why, "out of memory");
  }
  code = say_failure("%s", text_get(&why));
  texts_free(&command), text_free(&path), text_free(&library), text_free(&why);
  return code;
}

static int run(const verb_t *verb, int argc, char **argv) {
  check_t check = {0};
  const option_t options[] = {
      {"device", 0, OPTION_TEXT, "LIB", "the library with the device's table", &check.device},
      {"case", 0, OPTION_TEXTS, "PREFIX", "only cases whose names begin so (orders.); may be repeated", &check.cases},
      {"ordinal", 0, OPTION_TEXT, "N", "only that ordinal", &check.ordinal},
      {"settings", 0, OPTION_TEXT, "KEY=VALUE,...", "handed to the device", &check.settings},
      {"seed", 0, OPTION_TEXT, "N", "of sizes and contents (1)", &check.seed},
      {"limit", 0, OPTION_TEXT, "S", "seconds without a move after which a case hangs (60)", &check.limit},
      {"quick", 0, OPTION_FLAG, NULL, "smaller sizes and fewer rounds", &check.quick},
      {"first", 0, OPTION_FLAG, NULL, "stop at the first finding", &check.first},
      {"no-contents", 0, OPTION_FLAG, NULL,
       "of a device that does no work: compare nothing that it should have written", &check.no_contents},
      {"json", 0, OPTION_FLAG, NULL, "results as JSON", &check.json},
      {"verbose", 'v', OPTION_FLAG, NULL, "a line for each case", &check.verbose},
      {"list", 0, OPTION_FLAG, NULL, "the cases and what they check; needs no library", &check.list},
      {NULL, 0, OPTION_FLAG, NULL, NULL, NULL}};
  command_line_t line = {verb, options, 0, 0, NULL, {NULL, 0, 0}, NULL};
  int code = options_parse(&line, argc, argv);
  if (code == OPTIONS_GO_ON && !check.device && !check.list)
    code = say_usage("check", "--device LIB or --list is missing");
  if (code == OPTIONS_GO_ON) code = perform(&check);
  texts_free(&check.cases), texts_free(&line.operands);
  return code;
}

const verb_t verb_check = {
    "check", "--device LIB [option]...", "run the conformance suite on a device",
    "Runs every case of the suite on each device of a library, in a process for each case, and says what\n"
    "was expected, what was found, and the command that repeats it.  Exit status: 0 without findings, 1\n"
    "with, 2 if the library cannot be checked.\n",
    run};
