/* `tenon watch` rebuilds a library whenever a source is saved, reloads it and tries it again. A
 * child process loads and runs the library, so that a crash is reported and watching continues. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <time.h>

#include "build.h"
#include "includes.h"
#include "inputs.h"
#include "library.h"
#include "persistent_worker.h"
#include "print_error.h"
#include "process.h"
#include "summary.h"
#include "system.h"
#include "watcher.h"

typedef struct watch_t {
  build_t build;
  texts_t libraries;
  texts_t values;
  texts_t dims;
  texts_t command;
  const char *model;
  bool checks;
  int64_t times;
  /* Used in the child process only. */
  tenon_library_t *library;
  tenon_graph_t *graph;
  tenon_executable_t *executable;
  tenon_tensor_t **inputs;
  int32_t input_count;
} watch_t;

static void print_time(void) {
  char text[16];
  const time_t now = time(NULL);
  const struct tm *local = localtime(&now);
  strftime(text, sizeof text, "%H:%M:%S", local);
  printf("[%s] ", text);
}

static bool fail_with_runtime_error(text_t *why) {
  text_add(why, "%s", tenon_error());
  return false;
}

static void drop_model(watch_t *watch) {
  for (int32_t i = 0; i < watch->input_count; i++)
    tenon_tensor_release(watch->inputs[i]);
  free(watch->inputs);
  tenon_executable_release(watch->executable);
  tenon_graph_release(watch->graph);
  watch->inputs = NULL;
  watch->input_count = 0;
  watch->executable = NULL;
  watch->graph = NULL;
}

static bool load_model(watch_t *watch, text_t *why) {
  if (watch->graph) return true;
  if (tenon_graph_load(watch->model, NULL, &watch->graph) != TENON_OK ||
      tenon_executable_create(watch->graph, NULL, &watch->executable) != TENON_OK)
    return fail_with_runtime_error(why);
  const int32_t count = tenon_graph_input_count(watch->graph);
  if (!(watch->inputs = calloc((size_t)count + 1, sizeof *watch->inputs))) {
    text_add(why, "out of memory");
    return false;
  }
  watch->input_count = count;
  return inputs_make(watch->graph, &watch->values, &watch->dims, watch->inputs, why);
}

static bool run_model(watch_t *watch, text_t *why) {
  if (!load_model(watch, why)) {
    drop_model(watch);
    return false;
  }
  const int32_t count = tenon_graph_output_count(watch->graph);
  tenon_tensor_t **outputs = calloc((size_t)count + 1, sizeof *outputs);
  if (!outputs) {
    text_add(why, "out of memory");
    return false;
  }
  tenon_random_seed(0);
  const double begin = system_clock_ms();
  bool fine = tenon_executable_run(watch->executable, watch->inputs, outputs, NULL) == TENON_OK ||
              fail_with_runtime_error(why);
  if (fine) printf("time  %.3f ms\n", system_clock_ms() - begin);
  for (int32_t i = 0; fine && i < count; i++) {
    tenon_port_t port = {.size = sizeof port};
    text_t words = {NULL, 0, 0, false};
    fine = tenon_graph_output(watch->graph, i, &port) == TENON_OK || fail_with_runtime_error(why);
    if (fine) summary_add_tensor(&words, port.name, outputs[i]);
    fputs(text_get(&words), stdout);
    text_free(&words);
  }
  for (int32_t i = 0; i < count; i++)
    tenon_tensor_release(outputs[i]);
  free(outputs);
  return fine;
}

/* A reload with a changed schema is refused while the model uses the library; then the model is
 * closed first. */
static bool load_library(watch_t *watch, text_t *why) {
  text_t path = {NULL, 0, 0, false};
  if (watch->library) {
    tenon_status_t status = tenon_library_reload(watch->library, NULL);
    if (status == TENON_PRECONDITION && watch->graph) {
      printf("%s; the model is loaded again\n", tenon_error());
      drop_model(watch);
      status = tenon_library_reload(watch->library, NULL);
    }
    return status == TENON_OK || fail_with_runtime_error(why);
  }
  if (!library_load_all(&watch->libraries, false, why)) return false;
  library_path(watch->build.output, &path);
  bool fine = tenon_library_load(text_get(&path), 0, &watch->library) == TENON_OK ||
              fail_with_runtime_error(why);
  text_free(&path);
  return fine;
}

static int build_and_run(void *context) {
  watch_t *watch = context;
  text_t why = {NULL, 0, 0, false};
  const double begin = system_clock_ms();
  bool fine = build_library(&watch->build, &why);
  if (fine) {
    print_time();
    printf("built %s in %.2f s\n", watch->build.output, (system_clock_ms() - begin) / 1e3);
    fflush(stdout);
    fine = load_library(watch, &why) && (!watch->model || run_model(watch, &why));
  }
  int code = fine ? EXIT_FINE : print_failure("%s", text_get(&why));
  text_free(&why);
  return code;
}

static bool add_check(watch_t *watch, texts_t *command) {
  text_t own = {NULL, 0, 0, false};
  text_t path = {NULL, 0, 0, false};
  library_path(watch->build.output, &path);
  bool fine = system_own_folder(&own);
  text_add(&own, "/tenon");
  fine = fine && texts_add(command, text_get(&own)) && texts_add(command, "check") &&
         texts_add(command, text_get(&path));
  text_free(&own);
  text_free(&path);
  return fine;
}

/* Runs the command that follows a successful build, and prints its exit status if it is not 0. */
static bool run_command(const texts_t *command, text_t *why) {
  const int code = command->count ? process_show(command, why) : 0;
  if (code > 0) printf("'%s' ended with exit status %d\n", command->items[0], code);
  return code >= 0;
}

static bool run_after_build(watch_t *watch, text_t *why) {
  texts_t command = {NULL, 0, 0};
  bool fine = true;
  if (watch->checks) {
    fine = add_check(watch, &command);
    if (!fine) text_add(why, "out of memory");
    fine = fine && run_command(&command, why);
  }
  fine = fine && run_command(&watch->command, why);
  texts_free(&command);
  return fine;
}

static bool files_of(const watch_t *watch, texts_t *out_files) {
  bool fine = true;
  for (int32_t i = 0; fine && i < watch->build.sources.count; i++)
    fine = includes_of(watch->build.sources.items[i], &watch->build.folders, out_files);
  return fine;
}

/* Performs one build; *out_code is the exit status of the last one. */
static bool build_once(watch_t *watch, persistent_worker_t *worker, int *out_code, text_t *why) {
  if (!worker->id && !persistent_worker_start(worker, build_and_run, watch, why)) return false;
  text_t death = {NULL, 0, 0, false};
  if (!persistent_worker_ask(worker, out_code, &death))
    *out_code = print_failure("%s failed while it was running: %s; the next change starts it again",
                              watch->build.output, text_get(&death));
  text_free(&death);
  return *out_code != EXIT_FINE || run_after_build(watch, why);
}

static bool watch_files(watch_t *watch, int *out_code, text_t *why) {
  persistent_worker_t worker = {0, -1, -1};
  bool fine = true;
  for (int64_t round = 1; fine; round++) {
    texts_t files = {NULL, 0, 0};
    text_t name = {NULL, 0, 0, false};
    watcher_t watcher = {.descriptor = -1};
    fine = files_of(watch, &files);
    if (!fine) text_add(why, "out of memory");
    fine = fine && watcher_open(&watcher, &files, why) && build_once(watch, &worker, out_code, why);
    const bool is_last = watch->times && round >= watch->times;
    if (fine && !is_last) {
      printf("watching %s", files.items[0]);
      for (int32_t i = 1; i < files.count; i++)
        printf(", %s", files.items[i]);
      printf(" (press Ctrl-C to stop)\n");
      fflush(stdout);
      fine = watcher_wait(&watcher, &name, why);
      if (fine) {
        printf("\n");
        print_time();
        printf("%s changed\n", text_get(&name));
        fflush(stdout);
      }
    }
    watcher_close(&watcher);
    texts_free(&files);
    text_free(&name);
    if (is_last) break;
  }
  persistent_worker_stop(&worker);
  return fine;
}

/* Refuses a source that does not exist, for whose changes `tenon watch` would wait for ever. */
static bool check_sources(const texts_t *sources, text_t *why) {
  for (int32_t i = 0; i < sources->count; i++) {
    if (system_is_file(sources->items[i])) continue;
    if (system_is_folder(sources->items[i]))
      text_add(why, "'%s': expected a source file, found a folder", sources->items[i]);
    else
      text_add(why, "'%s': there is no such file", sources->items[i]);
    return false;
  }
  return true;
}

static int run_watch_verb(const verb_t *verb, int argc, char **argv) {
  watch_t watch = {.model = NULL};
  text_t room = {NULL, 0, 0, false};
  text_t why = {NULL, 0, 0, false};
  const option_t options[] = {
      {"run", 'r', OPTION_TEXT, "MODEL", "run this model after each build", &watch.model},
      {"input", 'i', OPTION_TEXTS, "NAME=VALUE", "an input of the model, as for `tenon run`",
       &watch.values},
      {"dim", 'd', OPTION_TEXTS, "NAME=N", "value of a symbolic extent of the model's inputs",
       &watch.dims},
      {"ops", 0, OPTION_TEXTS, "LIB", "load this operator library first; may be repeated",
       &watch.libraries},
      {"check", 0, OPTION_FLAG, NULL, "run `tenon check` after each build", &watch.checks},
      {"times", 0, OPTION_INT, "N", "stop after N builds", &watch.times},
      BUILD_OPTIONS(&watch.build),
      {NULL, 0, OPTION_FLAG, NULL, NULL, NULL}};
  command_line_t line = {verb, options, 1, -1, "SOURCE", {NULL, 0, 0}, &watch.command};
  int code = options_parse(&line, argc, argv);
  watch.build.sources = line.operands;
  if (code == OPTIONS_PARSED && !check_sources(&line.operands, &why)) {
    code = print_usage_error("watch", "%s", text_get(&why));
  } else if (code == OPTIONS_PARSED) {
    build_name_output(&watch.build, &room);
    if (!watch_files(&watch, &code, &why)) code = print_failure("%s", text_get(&why));
  }
  texts_t *const lists[] = {&watch.libraries, &watch.values, &watch.dims, &watch.command};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    texts_free(lists[i]);
  build_free(&watch.build);
  text_free(&room);
  text_free(&why);
  return code;
}

const verb_t verb_watch = {
    "watch", "SOURCE... [--run MODEL -i NAME=VALUE...] [option]... [-- COMMAND...]",
    "build, reload and run again at each change of a source",
    "Builds a library, and builds it again whenever a source or a header that it includes is "
    "saved. The new library replaces the loaded one while the model stays prepared; then the "
    "model, the checks and COMMAND are run.\nCompiler errors and crashes are shown, and watching "
    "continues.",
    run_watch_verb};
