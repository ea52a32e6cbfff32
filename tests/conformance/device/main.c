/* check_device runs the conformance suite on the devices of a library. `tenon check --device LIB`
 * executes it. */
#include "conformance.h"
#include <dlfcn.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct report_t {
  const char *program;
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

static void repeat(char *at, size_t room, const report_t *report, const conformance_result_t *r) {
  int n = snprintf(at, room, "%s %s --case %s --seed %llu", report->program, report->library,
                   r->name, report->seed);
  if (r->ordinal >= 0) n += snprintf(at + n, room - (size_t)n, " --ordinal %d", r->ordinal);
  if (report->settings) snprintf(at + n, room - (size_t)n, " --settings '%s'", report->settings);
}

static void result(void *context, const conformance_result_t *r) {
  static const char *const words[] = {"passed", "failed", "skipped"};
  static const char *const marks[] = {"ok  ", "FAIL", "skip"};
  report_t *report = context;
  char command[2000];
  repeat(command, sizeof command, report, r);
  if (r->outcome == CONFORMANCE_PASSED) report->passed++;
  if (r->outcome == CONFORMANCE_FAILED) report->failed++;
  if (r->outcome == CONFORMANCE_SKIPPED && report->skips < 2000)
    report->skipped[report->skips++] = strdup(r->text);
  if (report->json) {
    printf("%s\n  {\"case\": ", report->any++ ? "," : "");
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
  else if (report->verbose) {
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
      "tenon/device.h; each case runs on each ordinal.\n\n  --case NAME      run only this case, "
      "or with a dot at the end a group of cases (\"copies.\"); may be repeated\n  --ordinal N     "
      " check only this ordinal\n  --settings TEXT  settings that are passed to the device: "
      "\"key=value,key=value\"\n  --seed N         seed of data and of random programs (default: "
      "1)\n  --limit SECONDS  time without progress after which a case counts as hanging (default: "
      "60)\n  --quick          smaller data and fewer rounds\n  --first          stop at the first "
      "finding\n  --json           print the results as JSON\n  --verbose        print one line "
      "for each case\n  --list           list the cases and what they check; needs no "
      "library\nExit status: 0: no findings; 1: findings; 2: the library cannot be checked.\n",
      to);
}

static void skips_print(const report_t *report) { /* each reason once, with its count */
  for (int i = 0; i < report->skips; i++) {
    int count = 0;
    int seen = 0;
    for (int k = 0; k < report->skips; k++) {
      int same = strcmp(report->skipped[i], report->skipped[k]) == 0;
      count += same;
      seen |= same && k < i;
    }
    if (!seen) printf("skip: %d: %s\n", count, report->skipped[i]);
  }
}

int main(int count, char **arguments) {
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
  static report_t report;
  conformance_options_t options = {.size = sizeof options, .ordinal = -1, .seed = 1};
  const char *cases[64] = {NULL};
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
  report.program = arguments[0];
  report.library = options.library = arguments[optind];
  report.settings = options.settings;
  report.seed = options.seed;
  char path[4096];
  /* On failure dlopen reports the error. */
  if (realpath(options.library, path)) options.library = path;
  void *library = dlopen(options.library, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf(stderr, "check_device: %s\n", dlerror());
    return 2;
  }
  const tenon_descriptor_t *(*query)(void);
  *(void **)&query = dlsym(library, "tenon_library");
  if (!query) {
    fprintf(stderr, "check_device: %s does not export tenon_library()\n", options.library);
    return 2;
  }
  const tenon_descriptor_t *descriptor = query();
  if (!descriptor || descriptor->abi >> 16 != TENON_ABI >> 16 ||
      descriptor->layout != TENON_LAYOUT) {
    fprintf(stderr,
            "check_device: %s was built for another version of the contract, expected %u.%u\n",
            options.library, TENON_ABI >> 16, TENON_ABI & 0xFFFF);
    return 2;
  }
  const tenon_device_table_t *tables[16];
  uint32_t table_count = conformance_device_tables(descriptor->items, tables, 16);
  if (!table_count) {
    fprintf(stderr, "check_device: %s contains no item TENON_DEVICE(&table)\n", options.library);
    return 2;
  }
  if (report.json) printf("{\"results\": [");
  for (uint32_t i = 0; i < table_count; i++)
    if (conformance_device_run(tables[i], &options, &(conformance_sink_t){&report, result}) < 0) {
      fprintf(stderr, "check_device: the system cannot create a process\n");
      return 2;
    }
  if (report.json)
    printf("\n], \"passed\": %d, \"failed\": %d, \"skipped\": %d}\n", report.passed, report.failed,
           report.skips);
  else {
    skips_print(&report);
    printf("%d passed, %d failed, %d skipped\n", report.passed, report.failed, report.skips);
  }
  if (!report.passed && !report.failed && !report.skips) {
    fprintf(stderr, "check_device: no case has this name (--list shows all cases)\n");
    return 2;
  }
  return report.failed > 0;
}
