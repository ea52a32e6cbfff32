/* check_device runs the conformance suite on the devices of a library. `tenon check --device LIB`
 * executes it. */
#include "conformance.h"
#include "supervise.h"
#include <dlfcn.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct report_t {
  const char *library;
  const char *settings;
  const char *skipped[2000];
  unsigned long long seed;
  int passed;
  int failed;
  int skips;
  int json;
  int verbose;
  int any;
} report_t;

static report_t report;
static conformance_options_t options = {.size = sizeof options, .ordinal = -1, .seed = 1};
static const char *cases[64]; /* ends with NULL */

static void json_text(const char *text) {
  putchar('"');
  for (; *text; text++) {
    if (*text == '"' || *text == '\\')
      printf("\\%c", *text);
    else if ((unsigned char)*text < 0x20)
      printf("\\u%04x", (unsigned)*text);
    else
      putchar(*text);
  }
  putchar('"');
}

/* Adds words to a command of `room` bytes. A command that does not fit is cut. */
__attribute__((format(printf, 3, 4))) static void add_words(char *command, size_t room,
                                                            const char *format, ...) {
  const size_t length = strlen(command);
  va_list list;
  va_start(list, format);
  vsnprintf(command + length, room - length, format, list);
  va_end(list);
}

/* Writes the command that checks this case again, with the options that were given. */
static void repeat(char *command, size_t room, const report_t *of, const conformance_result_t *r) {
  *command = 0;
  add_words(command, room, "tenon check --device %s --case %s --seed %llu", of->library, r->name,
            of->seed);
  if (r->ordinal >= 0) add_words(command, room, " --ordinal %d", r->ordinal);
  if (of->settings) add_words(command, room, " --settings '%s'", of->settings);
  if (options.limit) add_words(command, room, " --limit %u", options.limit);
  if (options.quick) add_words(command, room, " --quick");
  if (options.no_contents) add_words(command, room, " --no-contents");
}

static void result(void *context, const conformance_result_t *r) {
  static const char *const words[] = {"passed", "failed", "skipped"};
  static const char *const marks[] = {"ok  ", "FAIL", "skip"};
  (void)context;
  char command[6000];
  repeat(command, sizeof command, &report, r);
  if (r->outcome == CONFORMANCE_PASSED) report.passed++;
  if (r->outcome == CONFORMANCE_FAILED) report.failed++;
  if (r->outcome == CONFORMANCE_SKIPPED && report.skips < 2000)
    report.skipped[report.skips++] = strdup(r->text);
  if (report.json) {
    printf("%s\n  {\"case\": ", report.any++ ? "," : "{\"results\": [");
    json_text(r->name);
    printf(", \"ordinal\": %d, \"outcome\": \"%s\", \"about\": ", r->ordinal, words[r->outcome]);
    json_text(r->about);
    printf(", \"text\": ");
    json_text(r->text);
    printf(", \"repeat\": ");
    json_text(command);
    putchar('}');
    return;
  }
  if (r->outcome == CONFORMANCE_FAILED)
    printf("FAIL %s, ordinal %d: %s\n  checks: %s\n  repeat: %s\n", r->name, r->ordinal, r->text,
           r->about, command);
  else if (report.verbose) {
    printf("%s %s", marks[r->outcome], r->name);
    if (r->ordinal >= 0) printf(":%d", r->ordinal);
    printf("  %s%s%s\n", r->about, r->text[0] ? "  " : "", r->text);
  }
  fflush(stdout);
}

static void list(void *context, const conformance_result_t *r) {
  ++*(int *)context;
  printf("%-32s %s\n", r->name, r->about);
}

static void usage(FILE *to) {
  fputs(
      "usage: check_device LIB.so [option]...\n\nChecks the devices of a library against "
      "tenon/device.h; each case runs on each ordinal.\n\n  --case PREFIX    run only the cases "
      "whose names begin so (\"copies.\"); may be repeated\n  --ordinal N      check only this "
      "ordinal\n  --settings TEXT  settings that are passed to the device: "
      "\"key=value,key=value\"\n  --seed N         seed of data and of random programs (default: "
      "1)\n  --limit SECONDS  time without progress after which a case counts as hanging (default: "
      "60)\n  --quick          smaller data and fewer rounds\n  --no-contents    do not compare "
      "the contents of memory\n  --first          stop at the first "
      "finding\n  --json           print the results as JSON\n  --verbose        print one line "
      "for each case\n  --list           list the cases and what they check; needs no "
      "library\nExit status: 0: no findings; 1: findings; 2: the library cannot be checked.\n",
      to);
}

static void skips_print(void) { /* each reason once, with its count */
  for (int i = 0; i < report.skips; i++) {
    int count = 0;
    int seen = 0;
    for (int k = 0; k < report.skips; k++) {
      int same = strcmp(report.skipped[i], report.skipped[k]) == 0;
      count += same;
      seen |= same && k < i;
    }
    if (!seen) printf("skip: %d: %s\n", count, report.skipped[i]);
  }
}

/* Returns -1, or the exit status if nothing is to be checked. */
static int read_options(int count, char **arguments) {
  enum {
    CASE,
    ORDINAL,
    SETTINGS,
    SEED,
    LIMIT,
    QUICK,
    FIRST,
    NO_CONTENTS,
    JSON,
    VERBOSE,
    LIST,
    HELP,
  };
  static const struct option known[] = {{"case", 1, 0, CASE},
                                        {"ordinal", 1, 0, ORDINAL},
                                        {"settings", 1, 0, SETTINGS},
                                        {"seed", 1, 0, SEED},
                                        {"limit", 1, 0, LIMIT},
                                        {"quick", 0, 0, QUICK},
                                        {"first", 0, 0, FIRST},
                                        {"no-contents", 0, 0, NO_CONTENTS},
                                        {"json", 0, 0, JSON},
                                        {"verbose", 0, 0, VERBOSE},
                                        {"list", 0, 0, LIST},
                                        {"help", 0, 0, HELP},
                                        {0, 0, 0, 0}};
  int case_count = 0;
  int cases_known = 0;
  for (int word; (word = getopt_long(count, arguments, "", known, NULL)) != -1;) {
    if (word == CASE && case_count < 63) {
      cases[case_count++] = optarg;
      options.cases = cases;
    } else if (word == ORDINAL)
      options.ordinal = atoi(optarg);
    else if (word == SETTINGS)
      options.settings = optarg;
    else if (word == SEED)
      options.seed = strtoull(optarg, NULL, 0);
    else if (word == LIMIT)
      options.limit = (uint32_t)atoi(optarg);
    else if (word == QUICK)
      options.quick = 1;
    else if (word == FIRST)
      options.first = 1;
    else if (word == NO_CONTENTS)
      options.no_contents = 1;
    else if (word == JSON)
      report.json = 1;
    else if (word == VERBOSE)
      report.verbose = 1;
    else if (word == HELP) {
      usage(stdout);
      return 0;
    } else if (word == LIST) {
      conformance_device_list(&(conformance_sink_t){&cases_known, list});
      printf("%d cases\n", cases_known);
      return 0;
    } else {
      usage(stderr);
      return 2;
    }
  }
  if (optind != count - 1) {
    usage(stderr);
    return 2;
  }
  report.library = options.library = arguments[optind];
  report.settings = options.settings;
  report.seed = options.seed;
  return -1;
}

static void print_end(const char *error) {
  if (!report.any) printf("{\"results\": [");
  printf("\n], ");
  if (error) {
    printf("\"error\": ");
    json_text(error);
    printf(", ");
  }
  printf("\"passed\": %d, \"failed\": %d, \"skipped\": %d}\n", report.passed, report.failed,
         report.skips);
}

/* Reports that the library cannot be checked, on stderr and in the JSON. Returns 2. */
static int refuse(const char *format, ...) {
  char words[4096];
  va_list list;
  va_start(list, format);
  vsnprintf(words, sizeof words, format, list);
  va_end(list);
  fprintf(stderr, "check_device: %s\n", words);
  if (report.json) print_end(words);
  return 2;
}

/* Called in the supervisor. The results on stdout are complete if the cases are done. */
static void report_end_of_child(const char *message, bool is_done) {
  if (is_done)
    fprintf(stderr, "check_device: %s\n", message);
  else
    (void)refuse("%s", message);
}

typedef struct search_t { /* of the case that begins as --case says */
  const char *words;
  const char *nearest; /* has the longest beginning in common with it */
  size_t common;
  int is_found;
} search_t;

static void see_case(void *context, const conformance_result_t *r) {
  search_t *search = context;
  size_t common = 0;
  while (search->words[common] && search->words[common] == r->name[common])
    common++;
  search->is_found |= !search->words[common];
  if (common <= search->common) return;
  search->common = common;
  search->nearest = r->name;
}

/* Returns 0, or the exit status if a --case selects nothing. */
static int check_cases(void) {
  for (int i = 0; cases[i]; i++) {
    search_t search = {cases[i], NULL, 1, 0};
    conformance_device_list(&(conformance_sink_t){&search, see_case});
    if (search.is_found) continue;
    if (!search.nearest)
      return refuse("--case %s: no case begins so; --list lists the cases", cases[i]);
    return refuse("--case %s: no case begins so; did you mean %.*s (or %s)? --list lists the cases",
                  cases[i], (int)strcspn(search.nearest, ".") + 1, search.nearest, search.nearest);
  }
  return 0;
}

/* Loads the library and finds its devices. Returns 0 or the exit status. */
static int find_tables(const tenon_device_table_t **out_tables, uint32_t room,
                       uint32_t *out_count) {
  static char path[4096];
  /* On failure dlopen reports the error. */
  if (realpath(options.library, path)) options.library = path;
  supervise_loading(options.library);
  void *library = dlopen(options.library, RTLD_NOW | RTLD_LOCAL);
  if (!library) return refuse("%s", dlerror());
  const tenon_descriptor_t *(*query)(void);
  *(void **)&query = dlsym(library, "tenon_library");
  if (!query) return refuse("%s does not export tenon_library()", options.library);
  const tenon_descriptor_t *descriptor = query();
  supervise_loaded();
  if (!descriptor || descriptor->abi >> 16 != TENON_ABI >> 16 || descriptor->layout != TENON_LAYOUT)
    return refuse("%s was built for another version of the contract, expected %u.%u",
                  options.library, TENON_ABI >> 16, TENON_ABI & 0xFFFF);
  *out_count = conformance_device_tables(descriptor->items, out_tables, room);
  if (!*out_count) return refuse("%s contains no item TENON_DEVICE(&table)", options.library);
  return 0;
}

static int check_tables(void) {
  const tenon_device_table_t *tables[16];
  uint32_t table_count = 0;
  int code = find_tables(tables, 16, &table_count);
  if (code) return code;
  for (uint32_t i = 0; i < table_count; i++)
    if (conformance_device_run(tables[i], &options, &(conformance_sink_t){&report, result}) < 0)
      return refuse("the system cannot create a process");
  if (!report.passed && !report.failed && !report.skips)
    return refuse("no case was run: the selected cases do not apply to this device");
  if (report.json) {
    print_end(NULL);
  } else {
    skips_print();
    printf("%d passed, %d failed, %d skipped\n", report.passed, report.failed, report.skips);
  }
  return report.failed > 0;
}

int main(int count, char **arguments) {
  static supervise_t settings = {.failed = 2, .report = report_end_of_child};
  int code = read_options(count, arguments);
  if (code >= 0) return code;
  code = check_cases();
  if (code) return code;
  settings.limit_ms = options.limit ? options.limit * 1e3 : supervise_limit();
  supervise_begin(&settings);
  code = check_tables();
  fflush(stdout);
  return supervise_finished(code);
}
