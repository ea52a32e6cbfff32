/* `tenon check LIB.so [OP...]` and `tenon check --device LIB`: the conformance suites of operators
 * and of devices, which are programs of their own, since they run each case in a child that has
 * started nothing. */
#include <stdlib.h>
#include <string.h>

#include "library.h"
#include "options.h"
#include "print_error.h"
#include "process.h"
#include "system.h"

typedef struct check_t {
  const char *device;
  const char *settings;
  const char *ordinal; /* of devices */
  texts_t cases;
  texts_t excepts;
  const char *seed;
  const char *limit;
  const char *jobs;
  const char *junit;
  const char *samples;
  const char *save;
  const char *with;
  bool quick;
  bool first;
  bool no_contents;
  bool no_notes;
  bool builtin;
  bool json;
  bool verbose;
  bool list;
} check_t;

/* The program: installed in libexec beside bin, or built in the folder of tests. */
static bool find_program(const char *name, text_t *out_path, text_t *why) {
  static const char *const places[] = {"../libexec/tenon", "tests"};
  text_t own = {NULL, 0, 0, false};
  bool found = system_own_folder(&own);
  for (size_t i = 0; i < sizeof places / sizeof *places && (i == 0 || !found); i++) {
    text_clear(out_path);
    text_add(out_path, "%s/%s/%s", text_get(&own), places[i], name);
    found = system_is_file(text_get(out_path));
  }
  if (!found)
    text_add(why,
             "the suite, %s, was not found in ../libexec/tenon or tests of %s: reinstall Tenon, or "
             "build the target %s",
             name, text_get(&own), name);
  text_free(&own);
  return found;
}

static bool add_value(texts_t *command, const char *option, const char *value) {
  return !value || (texts_add(command, option) && texts_add(command, value));
}

static bool add_flag(texts_t *command, const char *option, bool is_set) {
  return !is_set || texts_add(command, option);
}

/* The options that both suites have, and those of one. */
static bool add_options(const check_t *check, texts_t *command) {
  bool fine = true;
  for (int32_t i = 0; i < check->cases.count; i++)
    fine = fine && add_value(command, "--case", check->cases.items[i]);
  for (int32_t i = 0; i < check->excepts.count; i++)
    fine = fine && add_value(command, "--except", check->excepts.items[i]);
  return fine && add_value(command, "--seed", check->seed) &&
         add_value(command, "--limit", check->limit) &&
         add_flag(command, "--quick", check->quick) && add_flag(command, "--first", check->first) &&
         add_flag(command, "--json", check->json) &&
         add_flag(command, "--verbose", check->verbose) &&
         add_flag(command, "--list", check->list) &&
         add_value(command, "--ordinal", check->ordinal) &&
         add_value(command, "--settings", check->settings) &&
         add_flag(command, "--no-contents", check->no_contents) &&
         add_value(command, "-j", check->jobs) && add_value(command, "--junit", check->junit) &&
         add_value(command, "--samples", check->samples) &&
         add_value(command, "--save", check->save) && add_value(command, "--with", check->with) &&
         add_flag(command, "--no-notes", check->no_notes) &&
         add_flag(command, "--builtin", check->builtin);
}

/* What is checked: the library, and names of operators. */
static bool add_operands(const check_t *check, const texts_t *operands, texts_t *command) {
  text_t library = {NULL, 0, 0, false};
  const char *path = check->device                        ? check->device
                     : !check->builtin && operands->count ? operands->items[0]
                                                          : NULL;
  if (path) library_path(path, &library);
  bool fine = !path || texts_add(command, text_get(&library));
  for (int32_t i = path && !check->device; i < operands->count; i++)
    fine = fine && texts_add(command, operands->items[i]);
  text_free(&library);
  return fine;
}

static int become_suite(const check_t *check, const texts_t *operands) {
  texts_t command = {NULL, 0, 0};
  text_t path = {NULL, 0, 0, false};
  text_t why = {NULL, 0, 0, false};
  bool is_device = check->device || check->settings || check->ordinal || check->no_contents;
  if (find_program(is_device ? "check_device" : "check_operator", &path, &why)) {
    bool fine = texts_add(&command, text_get(&path)) && add_options(check, &command) &&
                add_operands(check, operands, &command);
    if (fine)
      process_become(&command, &why); /* comes back only if it fails */
    else
      text_add(&why, "out of memory");
  }
  int code = print_failure("%s", text_get(&why));
  texts_free(&command);
  text_free(&path);
  text_free(&why);
  return code;
}

/* NULL: the options go together. */
static const char *option_conflict(const check_t *check, const texts_t *operands) {
  bool of_devices = check->settings || check->ordinal || check->no_contents;
  bool of_operators = check->jobs || check->junit || check->samples || check->save ||
                      check->no_notes || check->builtin || check->excepts.count;
  if (check->with && !check->samples)
    return "--with FILE.py is of `python -m tenon check`, which makes the calls for --samples";
  if (check->device && operands->count) return "with --device there are no further arguments";
  if (check->device && of_operators)
    return "-j, --junit, --samples, --no-notes and --builtin are of operators, not of --device";
  if (!check->device && of_devices)
    return "--settings, --ordinal and --no-contents are of --device LIB, which is missing";
  if (!check->device && !check->builtin && !check->list && !operands->count)
    return "LIB.so, --builtin, --device LIB or --list is missing";
  return NULL;
}

static int run_check_verb(const verb_t *verb, int argc, char **argv) {
  check_t check = {0};
  const option_t options[] = {
      {"device", 0, OPTION_TEXT, "LIB", "check the devices of that library", &check.device},
      {"builtin", 0, OPTION_FLAG, NULL, "check the built-in operators", &check.builtin},
      {"case", 0, OPTION_TEXTS, "PREFIX",
       "only checks whose names begin so (strides.); may be repeated", &check.cases},
      {"except", 0, OPTION_TEXTS, "[OP:]ID",
       "what is known and meant: findings of it are not told; may be repeated", &check.excepts},
      {"seed", 0, OPTION_TEXT, "N", "of sizes and contents (1)", &check.seed},
      {"limit", 0, OPTION_TEXT, "S",
       "seconds after which a case hangs (10; of devices 60, without a move)", &check.limit},
      {"quick", 0, OPTION_FLAG, NULL, "fewer calls, smaller sizes", &check.quick},
      {"first", 0, OPTION_FLAG, NULL, "stop at the first finding", &check.first},
      {"json", 0, OPTION_FLAG, NULL, "results as JSON", &check.json},
      {"junit", 0, OPTION_TEXT, "FILE", "results as JUnit's XML, too", &check.junit},
      {"verbose", 'v', OPTION_FLAG, NULL, "a line for each case", &check.verbose},
      {"list", 0, OPTION_FLAG, NULL, "the cases and what they check; needs no library",
       &check.list},
      {"jobs", 'j', OPTION_TEXT, "N", "processes at once (processors)", &check.jobs},
      {"no-notes", 0, OPTION_FLAG, NULL, "findings only", &check.no_notes},
      {"samples", 0, OPTION_TEXT, "DIR", "recorded calls that are tried too", &check.samples},
      {"with", 0, OPTION_TEXT, "FILE.py",
       "which --samples is of: python -m tenon check LIB.so --with FILE.py makes both",
       &check.with},
      {"save", 0, OPTION_TEXT, "DIR",
       "save the calls that would be tried, without results, and check nothing", &check.save},
      {"ordinal", 0, OPTION_TEXT, "N", "of --device: only that ordinal", &check.ordinal},
      {"settings", 0, OPTION_TEXT, "KEY=VALUE,...", "of --device: handed to the device",
       &check.settings},
      {"no-contents", 0, OPTION_FLAG, NULL,
       "of a device that does no work: compare nothing that it should have written",
       &check.no_contents},
      {NULL, 0, OPTION_FLAG, NULL, NULL, NULL}};
  command_line_t line = {verb, options, 0, -1, "LIB.so and operators", {NULL, 0, 0}, NULL};
  int code = options_parse(&line, argc, argv);
  const char *wrong = code == OPTIONS_PARSED ? option_conflict(&check, &line.operands) : NULL;
  if (wrong) code = print_usage_error("check", "%s", wrong);
  if (code == OPTIONS_PARSED) code = become_suite(&check, &line.operands);
  texts_free(&check.cases);
  texts_free(&check.excepts);
  texts_free(&line.operands);
  return code;
}

const verb_t verb_check = {"check", "LIB.so [OP]... | --builtin [OP]... | --device LIB",
                           "find what is wrong with operators, or with a device",
                           "Tries the operators of a library in many ways, each in a process of "
                           "its own, and compares what they do\n"
                           "with what they state; or runs every case of the devices' suite on each "
                           "device of a library.  Says what\n"
                           "was called, expected and found, and the command that repeats it.  Exit "
                           "status: 0 without findings, 1\n"
                           "with, 2 if the library cannot be checked.\n",
                           run_check_verb};
