/* `tenon check LIB.so [OP]...` and `tenon check --device LIB` run the conformance suites of
 * operators and of devices. Each suite is a program of its own, because it runs every check in a
 * forked child and must not have started threads before. */
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
  const char *ordinal; /* options of the device suite only */
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

/* Finds the suite's program: in libexec of an installation, or in the folder tests of a build. */
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
             "the conformance suite %s was not found in ../libexec/tenon or tests of %s: reinstall "
             "Tenon, or build the target %s",
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

/* Adds the options of both suites. */
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

/* Adds the library and the names of operators to check. */
static bool add_operands(const check_t *check, const texts_t *operands, texts_t *command) {
  text_t library = {NULL, 0, 0, false};
  const char *path = check->device;
  if (!path && !check->builtin && operands->count) path = operands->items[0];
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
      process_become(&command, &why); /* returns only on failure */
    else
      text_add(&why, "out of memory");
  }
  int code = print_failure("%s", text_get(&why));
  texts_free(&command);
  text_free(&path);
  text_free(&why);
  return code;
}

/* Returns an error message if the options cannot be combined, else NULL. */
static const char *option_conflict(const check_t *check, const texts_t *operands) {
  bool of_devices = check->settings || check->ordinal || check->no_contents;
  bool of_operators = check->jobs || check->junit || check->samples || check->save ||
                      check->no_notes || check->builtin || check->excepts.count;
  if (check->with && !check->samples)
    return "--with FILE.py needs --samples: use `python -m tenon check LIB.so --with FILE.py`, "
           "which generates the calls for --samples";
  if (check->device && operands->count) return "--device LIB takes no operator names";
  if (check->device && of_operators)
    return "-j, --junit, --samples, --no-notes and --builtin apply to operators and cannot be "
           "combined with --device";
  if (!check->device && of_devices)
    return "--settings, --ordinal and --no-contents apply to devices: add --device LIB";
  if (!check->device && !check->builtin && !check->list && !operands->count)
    return "nothing to check: give LIB.so, --builtin, --device LIB or --list";
  return NULL;
}

static int run_check_verb(const verb_t *verb, int argc, char **argv) {
  check_t check = {0};
  const option_t options[] = {
      {"device", 0, OPTION_TEXT, "LIB", "check the devices of this library", &check.device},
      {"builtin", 0, OPTION_FLAG, NULL, "check the built-in operators", &check.builtin},
      {"case", 0, OPTION_TEXTS, "PREFIX",
       "run only the checks whose id begins with PREFIX (strides.), of operators or of devices; "
       "may "
       "be repeated",
       &check.cases},
      {"except", 0, OPTION_TEXTS, "[OP:]ID",
       "ignore known findings of this id, on all operators or on OP; may be repeated",
       &check.excepts},
      {"seed", 0, OPTION_TEXT, "N", "seed of generated sizes and values (default: 1)", &check.seed},
      {"limit", 0, OPTION_TEXT, "S",
       "seconds after which a check, or loading the library, counts as hanging (default: 10; for "
       "devices 60 without progress)",
       &check.limit},
      {"quick", 0, OPTION_FLAG, NULL, "run fewer calls with smaller sizes", &check.quick},
      {"first", 0, OPTION_FLAG, NULL, "stop at the first finding", &check.first},
      {"json", 0, OPTION_FLAG, NULL, "print the results as JSON", &check.json},
      {"junit", 0, OPTION_TEXT, "FILE", "also write the results to FILE as JUnit XML",
       &check.junit},
      {"verbose", 'v', OPTION_FLAG, NULL, "print one line for each check", &check.verbose},
      {"list", 0, OPTION_FLAG, NULL, "list the checks and what they test; needs no library",
       &check.list},
      {"jobs", 'j', OPTION_TEXT, "N",
       "number of processes to run at once (default: all processors)", &check.jobs},
      {"no-notes", 0, OPTION_FLAG, NULL, "print findings only, no notes", &check.no_notes},
      {"samples", 0, OPTION_TEXT, "DIR", "also try the saved calls in DIR", &check.samples},
      {"with", 0, OPTION_TEXT, "FILE.py",
       "the Python file that generated --samples: python -m tenon check LIB.so --with FILE.py sets "
       "both",
       &check.with},
      {"save", 0, OPTION_TEXT, "DIR",
       "save the calls that would be tried, without results, and check nothing", &check.save},
      {"ordinal", 0, OPTION_TEXT, "N", "with --device: check only the device with this ordinal",
       &check.ordinal},
      {"settings", 0, OPTION_TEXT, "KEY=VALUE,...",
       "with --device: settings that are passed to the device", &check.settings},
      {"no-contents", 0, OPTION_FLAG, NULL,
       "for a device that does no work: do not compare contents that it should have written",
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

const verb_t verb_check = {
    "check", "LIB.so [OP]... | --builtin [OP]... | --device LIB",
    "check operators against their declarations, or a device against its contract",
    "Checks the operators of a library against their declarations with about fifty checks, which "
    "run in child processes; or runs the conformance suite on each device of a library. A finding "
    "shows "
    "the call, what was expected, what was found, and the command that repeats the check.\nExit "
    "status: 0: no findings; 1: findings; 2: the library cannot be checked, or --case selects "
    "nothing.",
    run_check_verb};
