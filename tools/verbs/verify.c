/* `tenon verify` runs test cases in ONNX's layout and compares the results. This file handles
 * options, counts and output; worker_posix.c runs cases in other processes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "cases.h"
#include "device.h"
#include "library.h"
#include "options.h"
#include "print_error.h"
#include "process.h"
#include "progress.h"
#include "system.h"

typedef struct reason_t { /* a reason for skipping, and how often it occurred */
  char *words;
  int32_t count;
} reason_t;

typedef struct verify_t {
  texts_t libraries;
  texts_t shape_only;
  bool isolates_ops;
  tolerance_t tolerance;
  const char *device;
  devices_t devices;
  tenon_compile_t options;
  cases_t cases;
  bool verbose;
  bool isolate;
  int32_t done;
  int32_t counts[3]; /* indexed by outcome */
  int64_t jobs;      /* 0: not given */
  reason_t *reasons; /* allocated for one reason per case */
  int32_t reason_count;
} verify_t;

static bool start_worker(void *context, text_t *why) {
  verify_t *verify = context;
  if (verify->jobs > 1) /* each process gets its share */
    tenon_threads_set(1 + (system_processors() - 1) / (int32_t)verify->jobs);
  return library_load_all(&verify->libraries, verify->isolates_ops, why) &&
         devices_open(&verify->devices, verify->device, NULL, &verify->options, why);
}

static int32_t run_case(void *context, int32_t index, text_t *words) {
  verify_t *verify = context;
  const case_t *item = &verify->cases.items[index];
  tolerance_t tolerance = verify->tolerance;
  for (int32_t i = 0; i < verify->shape_only.count; i++)
    if (text_matches(item->name, verify->shape_only.items[i])) tolerance.shape_only = true;
  return (int32_t)cases_run(item, &verify->options, &tolerance, words);
}

/* Adds a reason without the names that differ from case to case: "node 'relu_3' ..." becomes "node
 * ...". */
static void add_common(text_t *out, const char *words) {
  static const char *const nouns[] = {"node '", "value '", "input '", "output '"};
  while (*words) {
    size_t size = 0;
    for (size_t i = 0; i < sizeof nouns / sizeof *nouns && !size; i++)
      if (strncmp(words, nouns[i], strlen(nouns[i])) == 0) size = strlen(nouns[i]);
    const char *end = size ? strchr(words + size, '\'') : NULL;
    text_bytes(out, words, end ? size - 2 : 1); /* without the blank and the quote */
    words = end ? end + 1 : words + 1;
  }
}

static void count_reason(verify_t *verify, const char *words) {
  text_t common = {NULL, 0, 0, false};
  bool found = false;
  add_common(&common, words);
  for (int32_t i = 0; i < verify->reason_count && !found; i++)
    if ((found = strcmp(verify->reasons[i].words, text_get(&common)) == 0))
      verify->reasons[i].count++;
  char *copy = found ? NULL : malloc(strlen(text_get(&common)) + 1);
  if (copy)
    verify->reasons[verify->reason_count++] = (reason_t){strcpy(copy, text_get(&common)), 1};
  text_free(&common);
}

static void case_done(void *context, int32_t index, int32_t outcome, const char *words) {
  static const char *const labels[] = {"ok  ", "FAIL", "skip"};
  verify_t *verify = context;
  verify->counts[outcome]++;
  if (outcome == OUTCOME_SKIPPED) count_reason(verify, words);
  if (outcome == OUTCOME_FAILED || verify->verbose) {
    progress_clear();
    printf("%s  %s%s%s\n", labels[outcome], verify->cases.items[index].name, *words ? "  " : "",
           words);
    fflush(stdout); /* so that a case that crashes this process takes no line with it */
  }
  progress_show("verify", ++verify->done, verify->cases.count, verify->cases.items[index].name);
}

static bool run_here(verify_t *verify, text_t *why) {
  if (!start_worker(verify, why)) return false;
  text_t words = {NULL, 0, 0, false};
  for (int32_t i = 0; i < verify->cases.count; i++) {
    text_clear(&words);
    progress_show("verify", i, verify->cases.count, verify->cases.items[i].name);
    int32_t outcome = run_case(verify, i, &words);
    case_done(verify, i, outcome, text_get(&words));
  }
  text_free(&words);
  return true;
}

static int compare_reasons(const void *a, const void *b) {
  const reason_t *left = a;
  const reason_t *right = b;
  if (left->count == right->count) return strcmp(left->words, right->words);
  return left->count < right->count ? 1 : -1;
}

static int print_report(verify_t *verify) {
  progress_clear();
  if (verify->reason_count > 0) {
    qsort(verify->reasons, (size_t)verify->reason_count, sizeof *verify->reasons, compare_reasons);
    printf("skipped:\n");
  }
  for (int32_t i = 0; i < verify->reason_count; i++)
    printf("%6d  %s\n", (int)verify->reasons[i].count, verify->reasons[i].words);
  printf("%d passed, %d failed, %d skipped\n", (int)verify->counts[OUTCOME_PASSED],
         (int)verify->counts[OUTCOME_FAILED], (int)verify->counts[OUTCOME_SKIPPED]);
  return verify->counts[OUTCOME_FAILED] > 0 ? EXIT_FAILED : EXIT_FINE;
}

static int verify_cases(verify_t *verify, const texts_t *paths, double timeout) {
  text_t why = {NULL, 0, 0, false};
  bool fine = true;
  for (int32_t i = 0; fine && i < paths->count; i++) {
    int32_t before = verify->cases.count;
    fine = cases_find(paths->items[i], &verify->cases, &why);
    if (fine && verify->cases.count == before) {
      text_add(&why, "%s contains no test case: expected a folder with model.onnx",
               paths->items[i]);
      fine = false;
    }
  }
  verify->reasons = calloc((size_t)verify->cases.count + 1, sizeof *verify->reasons);
  if (fine && !verify->reasons) {
    text_add(&why, "out of memory");
    fine = false;
  }
  if (fine && (verify->isolate || verify->jobs > 0 || timeout > 0)) {
    workers_t workers = {.count = verify->cases.count,
                         .jobs = verify->jobs > 0 ? (int32_t)verify->jobs : 1,
                         .timeout_ms = timeout * 1e3,
                         .context = verify,
                         .start = start_worker,
                         .run = run_case,
                         .done = case_done,
                         .crashed = OUTCOME_FAILED};
    fine = workers_run(&workers, &why);
  } else if (fine) {
    fine = run_here(verify, &why);
  }
  progress_clear();
  int code = fine ? print_report(verify) : print_failure("%s", text_get(&why));
  text_free(&why);
  return code;
}

static int run_verify_verb(const verb_t *verb, int argc, char **argv) {
  verify_t verify = {.tolerance = {-1, -1, false}, .options = {.size = sizeof verify.options}};
  double timeout = 0;
  const option_t options[] = {
      {"ops", 0, OPTION_TEXTS, "LIB", "load an operator library first; may be repeated",
       &verify.libraries},
      {LIBRARY_ISOLATE, &verify.isolates_ops},
      {"device", 0, OPTION_TEXT, "NAME[:N]", DEVICE_HELP, &verify.device},
      {"rtol", 0, OPTION_NUMBER, "X",
       "relative tolerance (default: that of the test case, else 1e-3)",
       &verify.tolerance.relative},
      {"atol", 0, OPTION_NUMBER, "X",
       "absolute tolerance (default: that of the test case, else 1e-7)",
       &verify.tolerance.absolute},
      {"shape-only", 0, OPTION_TEXTS, "PATTERN",
       "compare only dtype and shape for cases whose name matches PATTERN (* and ?); may be "
       "repeated",
       &verify.shape_only},
      {"isolate", 0, OPTION_FLAG, NULL,
       "run each case in its own process, so that a crash is one failure", &verify.isolate},
      {"timeout", 0, OPTION_NUMBER, "S", "stop a case after S seconds; implies --isolate",
       &timeout},
      {"jobs", 'j', OPTION_INT, "N", "run N cases at once; implies --isolate", &verify.jobs},
      {"verbose", 'v', OPTION_FLAG, NULL, "print every case, and why it was skipped",
       &verify.verbose},
      {NULL, 0, OPTION_FLAG, NULL, NULL, NULL}};
  command_line_t line = {verb, options, 1, -1, "DIR", {NULL, 0, 0}, NULL};
  int code = options_parse(&line, argc, argv);
  if (verify.jobs > 256) verify.jobs = 256;
  if (code == OPTIONS_PARSED) code = verify_cases(&verify, &line.operands, timeout);
  for (int32_t i = 0; i < verify.reason_count; i++)
    free(verify.reasons[i].words);
  free(verify.reasons);
  cases_free(&verify.cases);
  devices_close(&verify.devices);
  texts_free(&verify.libraries);
  texts_free(&verify.shape_only);
  texts_free(&line.operands);
  return code;
}

const verb_t verb_verify = {
    "verify", "[option]... DIR...", "run ONNX test cases and compare with the expected results",
    "Runs test cases and compares the outputs. DIR is a test case in ONNX's layout (model.onnx, "
    "test_data_set_*/input_K.pb, output_K.pb), a "
    "folder of test cases, or a light model (NAME.onnx beside NAME_output_0.pb). The model may be "
    "an "
    "artifact, model.tenon or NAME.tenon. Floats are "
    "compared as onnx.backend.test does, everything else exactly; results of cases with random "
    "operators by their distribution. Cases that need something Tenon does not support are "
    "skipped, with the reason.",
    run_verify_verb};
