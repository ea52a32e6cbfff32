/* `tenon run` runs a model once, or repeatedly for timing, on given or generated inputs, and prints
 * or saves the outputs. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "device.h"
#include "element.h"
#include "inputs.h"
#include "library.h"
#include "memory_timeline.h"
#include "options.h"
#include "passes.h"
#include "picture.h"
#include "print_error.h"
#include "profile_table.h"
#include "progress.h"
#include "reexec.h"
#include "summary.h"
#include "system.h"
#include "values.h"

enum { HOT_ROWS = 20 };

typedef struct run_t { /* the command line, and what was made from it */
  texts_t libraries;
  texts_t values;
  texts_t dims;
  texts_t dumps;
  texts_t pins;
  texts_t passes;
  texts_t pictures;
  texts_t operands;
  const char *model;
  const char *folder;
  const char *profile;
  const char *device;
  const char *claim;
  const char *values_folder;
  const char *nan;
  const char *optimize;
  const char *without;
  bool values_each;
  bool sanitizer;
  bool isolates_ops;
  devices_t devices;
  bool record;
  int64_t threads;
  int64_t repeat;
  int64_t seed;
  double timeout; /* seconds that a run may take; 0: any number */
  double end;     /* of that time, for the current run */
  tenon_graph_t *graph;
  tenon_executable_t *executable;
  tenon_compile_t options;
  tenon_tensor_t **inputs;
  tenon_tensor_t **outputs;
  int32_t input_count;
  int32_t output_count;
} run_t;

static void release_run_tensors(tenon_tensor_t **tensors, int32_t count) {
  for (int32_t i = 0; tensors && i < count; i++) {
    tenon_tensor_release(tensors[i]);
    tensors[i] = NULL;
  }
}

static tenon_status_t ask_clock(void *state) {
  const run_t *run = state;
  char message[100];
  if (system_clock_ms() < run->end) return TENON_OK;
  snprintf(message, sizeof message, "the run has taken longer than --timeout %g s", run->timeout);
  return tenon_error_set(TENON_DEADLINE, message);
}

static bool run_once(run_t *run, tenon_profile_t *profile, double *out_ms, text_t *why) {
  release_run_tensors(run->outputs, run->output_count);
  tenon_random_seed((uint64_t)run->seed); /* every run draws the same numbers */
  const tenon_poll_t poll = {ask_clock, run};
  double begin = system_clock_ms();
  run->end = begin + run->timeout * 1000;
  if (run->timeout > 0) tenon_poll_set_shared(&poll);
  const tenon_status_t status =
      tenon_executable_run(run->executable, run->inputs, run->outputs, profile);
  tenon_poll_set(NULL);
  *out_ms = system_clock_ms() - begin;
  if (status != TENON_OK) text_add(why, "%s: %s", run->model, tenon_error());
  return status == TENON_OK;
}

static int compare_times(const void *a, const void *b) {
  double left = *(const double *)a;
  double right = *(const double *)b;
  return left < right ? -1 : left > right;
}

/* With several runs, the first one is not counted: it fills caches and plans memory. */
static bool run_all(run_t *run, text_t *why) {
  double ms = 0;
  double sum = 0;
  if (!run_once(run, NULL, &ms, why)) return false;
  if (run->repeat <= 1) {
    printf("time  %.3f ms\n", ms);
    return true;
  }
  double *times = malloc((size_t)run->repeat * sizeof *times);
  bool fine = times != NULL;
  if (!fine) text_add(why, "out of memory");
  for (int64_t i = 0; fine && i < run->repeat; i++) {
    progress_show("run", i + 1, run->repeat, text_file_name(run->model));
    if ((fine = run_once(run, NULL, &times[i], why))) sum += times[i];
  }
  progress_clear();
  if (fine) {
    size_t count = (size_t)run->repeat;
    qsort(times, count, sizeof *times, compare_times);
    double median = count % 2 ? times[count / 2] : (times[count / 2 - 1] + times[count / 2]) / 2;
    printf("time of %lld runs  min %.3f ms  median %.3f ms  mean %.3f ms\n", (long long)run->repeat,
           times[0], median, sum / (double)count);
  }
  free(times);
  return fine;
}

static bool run_profiled(run_t *run, text_t *why) {
  tenon_profile_t *profile = NULL;
  text_t table = {NULL, 0, 0, false};
  double ms = 0;
  bool fine = tenon_profile_create(&profile) == TENON_OK;
  if (!fine) text_add(why, "%s", tenon_error());
  fine = fine && run_once(run, profile, &ms, why);
  if (fine && tenon_profile_write(profile, run->profile) != TENON_OK) {
    text_add(why, "%s", tenon_error()); /* which names the file */
    fine = false;
  }
  machine_t machine;
  const bool has_machine = fine && run->devices.count == 0 && machine_measure(&machine, false, why);
  fine = fine && (has_machine || run->devices.count > 0);
  if (fine && (!profile_table_add(&table, profile, HOT_ROWS, has_machine ? &machine : NULL) ||
               !memory_timeline_add(&table, profile))) {
    text_add(why, "out of memory");
    fine = false;
  }
  if (fine) printf("%strace  %s\n", text_get(&table), run->profile);
  tenon_profile_release(profile);
  text_free(&table);
  return fine;
}

/* Saves an output as DIR/NAME.npy, where characters that are unsafe in a file name are replaced;
 * items of a list are saved as NAME_0.npy and so on. */
static bool save_output(const run_t *run, const char *name, const tenon_tensor_t *tensor,
                        text_t *why) {
  bool fine = true;
  text_t path = {NULL, 0, 0, false};
  if (element_class(tensor->dtype) == ELEMENT_LIST) {
    for (int64_t i = 0; fine && i < tensor->shape[0]; i++) {
      text_clear(&path);
      text_add(&path, "%s_%lld", name, (long long)i);
      fine = save_output(run, text_get(&path), tenon_item(tensor, i), why);
    }
  } else {
    text_add(&path, "%s/", run->folder);
    for (const char *at = name; *at; at++) {
      char letter = isalnum((unsigned char)*at) || strchr("._-", *at) ? *at : '_';
      text_bytes(&path, at == name && letter == '.' ? "_" : &letter, 1); /* no hidden files */
    }
    text_add(&path, "%s.npy", *name ? "" : "output");
    fine = tenon_tensor_save(tensor, text_get(&path)) == TENON_OK;
    if (!fine) text_add(why, "%s", tenon_error()); /* which names the file */
  }
  text_free(&path);
  return fine;
}

static bool show_outputs(const run_t *run, text_t *why) {
  if (run->folder && !system_make_folder(run->folder, why)) return false;
  for (int32_t i = 0; i < run->output_count; i++) {
    tenon_port_t port = {.size = sizeof port};
    text_t words = {NULL, 0, 0, false};
    if (tenon_graph_output(run->graph, i, &port) != TENON_OK) {
      text_add(why, "%s", tenon_error());
      return false;
    }
    summary_add_tensor(&words, port.name, run->outputs[i]);
    fputs(text_get(&words), stdout);
    text_free(&words);
    if (run->folder && !save_output(run, port.name, run->outputs[i], why)) return false;
  }
  return true;
}

static bool print_dumps(const run_t *run, bool after, text_t *why) {
  for (int32_t i = 0; i < run->dumps.count; i++) {
    char *text = NULL;
    const char *what = run->dumps.items[i];
    /* The device report counts what the run copied and compiled, and the memory plan exists only
     * after a run. */
    bool of_devices = strcmp(what, "devices") == 0;
    bool of_captures = run->record && strcmp(what, "placement") == 0;
    if ((of_devices || of_captures || strcmp(what, "plan") == 0) != after) continue;
    if ((of_devices ? tenon_devices(&text) : tenon_executable_dump(run->executable, what, &text)) !=
        TENON_OK) {
      text_add(why, "%s", tenon_error());
      return false;
    }
    size_t size = strlen(text);
    printf("%s%s", text, size > 0 && text[size - 1] != '\n' ? "\n" : "");
    tenon_text_release(text);
  }
  return true;
}

static bool show_fallbacks(const run_t *run, text_t *why) {
  char *report = NULL;
  if (!run->device) return true;
  if (tenon_fallback_report(&report) != TENON_OK) {
    text_add(why, "%s", tenon_error());
    return false;
  }
  printf("%s%s", *report ? "ran on the CPU instead (fallback):\n" : "", report);
  tenon_text_release(report);
  return true;
}

static bool open_model(run_t *run, text_t *why) {
  if (!library_load_all(&run->libraries, run->isolates_ops, why)) return false;
  tenon_compile_t options = {.size = sizeof options};
  if (run->record) options.flags |= TENON_COMPILE_RECORD;
  if (run->optimize && run->optimize[0] == 'p') options.flags |= TENON_COMPILE_PLAIN;
  options.without = run->without;
  if (!devices_open(&run->devices, run->device, &run->pins, &options, why)) return false;
  if (run->claim && strcmp(run->claim, "on") != 0) options.claims = run->claim;
  run->options = options;
  bool is_read = tenon_graph_load(run->model, NULL, &run->graph) == TENON_OK;
  if (is_read && !passes_apply(&run->passes, &run->graph, why)) return false;
  if (!is_read || tenon_executable_create(run->graph, &options, &run->executable) != TENON_OK) {
    const char *words = tenon_error();
    const char *name = strstr(words, run->model) ? "" : run->model;
    text_add(why, "%s%s%s", name, *name ? ": " : "", words);
    return false;
  }
  run->input_count = tenon_graph_input_count(run->graph);
  run->output_count = tenon_graph_output_count(run->graph);
  run->inputs = calloc((size_t)run->input_count + 1, sizeof *run->inputs);
  run->outputs = calloc((size_t)run->output_count + 1, sizeof *run->outputs);
  if (!run->inputs || !run->outputs) {
    text_add(why, "out of memory");
    return false;
  }
  return true;
}

static bool save_values(const run_t *run, text_t *why) {
  values_request_t request = {run->graph,      &run->options,      run->inputs,
                              run->outputs,    run->values_folder, (uint64_t)run->seed,
                              run->values_each};
  return values_save(&request, why);
}

static bool run_model(run_t *run, text_t *why) {
  bool shows_only = run->dumps.count > 0 || run->pictures.count > 0;
  bool needs_run = !shows_only || run->record || run->values.count > 0 || run->profile ||
                   run->values_folder || texts_has(&run->dumps, "plan") ||
                   texts_has(&run->dumps, "devices") || pictures_need_run(&run->pictures);
  if (run->threads > 0) tenon_threads_set((int32_t)(run->threads < 4096 ? run->threads : 4096));
  if (!open_model(run, why) || !print_dumps(run, false, why)) return false;
  if (!needs_run) return pictures_write(&run->pictures, run->executable, why);
  return inputs_make(run->graph, &run->values, &run->dims, run->inputs, why) && run_all(run, why) &&
         (!run->profile || run_profiled(run, why)) && show_outputs(run, why) &&
         (!run->values_folder || save_values(run, why)) && show_fallbacks(run, why) &&
         print_dumps(run, true, why) && pictures_write(&run->pictures, run->executable, why);
}

static bool rerun_with_sanitizer(const run_t *run, int argc, char **argv, text_t *why) {
  static const char *const left_out[] = {"--sanitizer", NULL};
  reexec_t under = {false, false, run->sanitizer, &run->libraries, NULL, left_out};
  return reexec_under(&under, argc, argv, why);
}

/* Parses the command line into `run`. Returns OPTIONS_PARSED, else the exit code of the verb. */
static int parse_command_line(run_t *run, const verb_t *verb, int argc, char **argv) {
  const option_t options[] = {
      {"input", 'i', OPTION_TEXTS, "NAME=VALUE",
       "an input: @FILE.npy, @FILE.pb, @FILE.pgm, zeros, ones, ramp, random:SEED, or numbers; for "
       "a string input a text (may be repeated) or @FILE.txt with one text per line.  VALUE "
       "without NAME (zeros, ones, ramp, random) applies to all inputs that are not named",
       &run->values},
      {"dim", 'd', OPTION_TEXTS, "NAME=N",
       "value of a symbolic extent of generated inputs (default: 1)", &run->dims},
      {"ops", 0, OPTION_TEXTS, "LIB", "load an operator library first; may be repeated",
       &run->libraries},
      {LIBRARY_ISOLATE, &run->isolates_ops},
      {"apply", 0, OPTION_TEXTS, "LIB::NAME[,KEY=VALUE]...",
       "transform the graph by a pass or partitioner of a library; may be repeated", &run->passes},
      {"output-dir", 'o', OPTION_TEXT, "DIR", "write each output to DIR/NAME.npy", &run->folder},
      {"device", 0, OPTION_TEXT, "NAME[:N]", DEVICE_HELP, &run->device},
      {"pin", 0, OPTION_TEXTS, "NODE=NAME[:N]", PIN_HELP, &run->pins},
      {"record", 0, OPTION_FLAG, NULL,
       "capture the run of each shape on devices that support it, and replay the captured graph",
       &run->record},
      {"claim", 0, OPTION_TEXT, "WHAT",
       "subgraphs that devices may run as one: on, off, or settings KEY=VALUE,... (default: on)",
       &run->claim},
      {"threads", 't', OPTION_INT, "N",
       "number of threads (default: TENON_THREADS, else the processors that the process may use)",
       &run->threads},
      {"repeat", 'n', OPTION_INT, "N", "time N runs after one uncounted run", &run->repeat},
      {"timeout", 0, OPTION_NUMBER, "S", "end a run after S seconds", &run->timeout},
      {"profile", 'p', OPTION_TEXT, "FILE",
       "profile one more run: write a Chrome trace to FILE, compare nodes with the machine's peak",
       &run->profile},
      {"dump", 0, OPTION_TEXTS, "plan|graph|shapes|rewrites|claims|placement|devices",
       "print the plan (nodes that run together, and where values are in memory), graph, shapes, "
       "rewrites (how often each rule was applied), claims (offloaded subgraphs), placement or "
       "devices; may be repeated.  For plan and devices the model is run; for the others only if "
       "it has inputs",
       &run->dumps},
      {"picture", 0, OPTION_TEXTS, "WHAT=FILE", PICTURE_HELP, &run->pictures},
      {"optimize", 0, OPTION_TEXT, "full|plain",
       "optimise the graph (full), or run each node as imported (plain)", &run->optimize},
      {"without", 0, OPTION_TEXT, "RULE,...",
       "leave out these rewriting rules; tenon ops --rewrites lists them", &run->without},
      {"nan", 0, OPTION_TEXT, "stop|report|stop,nan|report,nan",
       "stop at the first NaN or infinity, or report each; with ,nan infinities are allowed",
       &run->nan},
      {"values", 0, OPTION_TEXT, "DIR",
       "write each value of the graph to DIR, with a list in DIR/values.txt", &run->values_folder},
      {"values-each", 0, OPTION_FLAG, NULL,
       "with --values: one run for each value, so that fused nodes stay fused", &run->values_each},
      {"sanitizer", 0, OPTION_FLAG, NULL,
       "preload the run-time library of the sanitizer that the libraries were built with",
       &run->sanitizer},
      {"seed", 's', OPTION_INT, "N",
       "seed of random operators (default: 0); every run draws the same numbers", &run->seed},
      {NULL, 0, OPTION_FLAG, NULL, NULL, NULL}};
  command_line_t line = {verb, options, 1, 1, "MODEL", {NULL, 0, 0}, NULL};
  int code = options_parse(&line, argc, argv);
  run->operands = line.operands;
  return code;
}

static void release_run(run_t *run) {
  release_run_tensors(run->inputs, run->input_count);
  release_run_tensors(run->outputs, run->output_count);
  free(run->inputs);
  free(run->outputs);
  tenon_executable_release(run->executable);
  tenon_graph_release(run->graph);
  devices_close(&run->devices);
  texts_t *const lists[] = {&run->pins,  &run->libraries, &run->values,   &run->dims,
                            &run->dumps, &run->passes,    &run->pictures, &run->operands};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    texts_free(lists[i]);
}

static int run_run_verb(const verb_t *verb, int argc, char **argv) {
  run_t run = {.repeat = 1};
  text_t why = {NULL, 0, 0, false};
  int code = parse_command_line(&run, verb, argc, argv);
  if (code == OPTIONS_PARSED) {
    run.model = run.operands.items[0];
    bool fine = pictures_check(&run.pictures, &why) &&
                rerun_with_sanitizer(&run, argc, argv, &why) &&
                (!run.nan || tenon_nan_set(run.nan) == TENON_OK);
    if (fine) library_supervise();
    if (!fine && !why.size) text_add(&why, "--nan: %s", tenon_error());
    code = fine && run_model(&run, &why) ? EXIT_FINE : print_failure("%s", text_get(&why));
  }
  release_run(&run);
  text_free(&why);
  return code;
}

const verb_t verb_run = {
    "run", "[option]... MODEL", "run an ONNX model",
    "Runs an ONNX model and prints dtype, shape, minimum, maximum, mean and first values of its "
    "outputs.\nSymbolic extents of generated inputs are 1 unless --dim sets them.",
    run_run_verb};
