/* `tenon replay` repeats saved calls, if desired with another build of the library, under a
 * debugger or a memory checker, and compares the results with the saved ones. */
#include <stdio.h>
#include <string.h>

#include "library.h"
#include "options.h"
#include "print_error.h"
#include "reexec.h"
#include "replay.h"
#include "system.h"

typedef struct request_t {
  replay_t replay;
  texts_t libraries;
  int64_t threads;
  bool gdb;
  bool valgrind;
  bool sanitizer;
} request_t;

/* Adds a saved call, or all saved calls of a folder in the order of their names. */
static bool list_calls(const char *folder, texts_t *out_calls, text_t *why) {
  texts_t names = {NULL, 0, 0};
  if (replay_is_call(folder)) return texts_add(out_calls, folder);
  bool fine = system_list_folder(folder, &names, why);
  for (int32_t i = 0; i < names.count && fine; i++) {
    text_t path = {NULL, 0, 0, false};
    text_add(&path, "%s/%s", folder, names.items[i]);
    if (replay_is_call(text_get(&path))) fine = texts_add(out_calls, text_get(&path));
    text_free(&path);
  }
  if (fine && !out_calls->count) {
    text_add(why, "%s contains no saved call (no call.json)", folder);
    fine = false;
  }
  texts_free(&names);
  return fine;
}

/* Finds the source line of the kernel, for a breakpoint, and the libraries that will be loaded. */
static bool find_kernel_source(request_t *request, const char *call, text_t *out_place,
                               text_t *why) {
  tenon_recording_t *dump = NULL;
  tenon_recording_info_t info = {.size = sizeof info};
  tenon_slot_info_t entry = {.size = sizeof entry};
  char *source = NULL;
  if (tenon_recording_load(call, &dump) != TENON_OK) {
    text_add(why, "%s", tenon_error());
    return false;
  }
  tenon_recording_info(dump, &info);
  bool fine = true;
  const char *path = NULL;
  if (request->libraries.count == 0) fine = replay_library(dump, &path, why);
  if (path) fine = texts_add(&request->libraries, path);
  if (fine && request->gdb && !request->sanitizer &&
      library_load_all(&request->libraries, false, why)) {
    const tenon_op_t *op = replay_find(&request->replay, dump, &info, why);
    if (op && tenon_op_slot(op, "cpu", &entry) == TENON_OK && entry.function &&
        tenon_function_source(entry.function, &source) == TENON_OK)
      text_add(out_place, "%s", source);
    tenon_text_release(source);
    fine = op != NULL;
  }
  fine = fine && !why->size;
  tenon_recording_release(dump);
  return fine;
}

static bool rerun_under_tool(request_t *request, const texts_t *calls, int argc, char **argv,
                             text_t *why) {
  static const char *const left_out[] = {"--gdb", "--valgrind", "--sanitizer", NULL};
  text_t place = {NULL, 0, 0, false};
  if (!request->gdb && !request->valgrind && !request->sanitizer) return true;
  if (find_kernel_source(request, calls->items[0], &place, why)) {
    reexec_t under = {request->gdb,
                      request->valgrind,
                      request->sanitizer,
                      &request->libraries,
                      place.size ? text_get(&place) : NULL,
                      left_out};
    (void)reexec_under(&under, argc, argv, why);
  }
  text_free(&place);
  return false;
}

static int replay_calls(request_t *request, const texts_t *folders, int argc, char **argv,
                        text_t *why) {
  texts_t calls = {NULL, 0, 0};
  int32_t others = 0;
  bool fine = true;
  for (int32_t i = 0; i < folders->count && fine; i++)
    fine = list_calls(folders->items[i], &calls, why);
  fine = fine && rerun_under_tool(request, &calls, argc, argv, why);
  if (fine) library_supervise();
  fine = fine && library_load_all(&request->libraries, false, why);
  if (request->threads > 0)
    tenon_threads_set((int32_t)(request->threads < 4096 ? request->threads : 4096));
  for (int32_t i = 0; i < calls.count && fine; i++) {
    bool is_same = replay_run(&request->replay, calls.items[i], why);
    fine = !why->size;
    others += !is_same;
  }
  replay_end(&request->replay);
  if (fine && calls.count > 1)
    printf("%d calls, %d with a different outcome\n", (int)calls.count, (int)others);
  texts_free(&calls);
  if (!fine) return print_failure("%s", text_get(why));
  return others ? EXIT_FAILED : EXIT_FINE;
}

static int run_replay_verb(const verb_t *verb, int argc, char **argv) {
  request_t request = {.replay = {.tolerance = {1e-5, 1e-8, false}, .repeat = 1}};
  text_t why = {NULL, 0, 0, false};
  const option_t options[] = {
      {"ops", 0, OPTION_TEXTS, "LIB",
       "load LIB instead of the library named in the dump, whatever its hash; may be repeated",
       &request.libraries},
      {"device", 0, OPTION_TEXT, "NAME[:N]",
       "repeat the call on this device (default: the device of the saved call)",
       &request.replay.device},
      {"threads", 't', OPTION_INT, "N",
       "number of threads (default: TENON_THREADS, else the processors that the process may use)",
       &request.threads},
      {"repeat", 'n', OPTION_INT, "N",
       "repeat up to N times, until the outcome differs (default: 1)", &request.replay.repeat},
      {"rtol", 0, OPTION_NUMBER, "X", "relative tolerance of results (default: 1e-5)",
       &request.replay.tolerance.relative},
      {"atol", 0, OPTION_NUMBER, "X", "absolute tolerance of results (default: 1e-8)",
       &request.replay.tolerance.absolute},
      {"quiet", 'q', OPTION_FLAG, NULL, "print only calls with a different outcome",
       &request.replay.stays_quiet},
      {"gdb", 0, OPTION_FLAG, NULL, "run under gdb and stop where the kernel begins", &request.gdb},
      {"valgrind", 0, OPTION_FLAG, NULL, "run under valgrind", &request.valgrind},
      {"sanitizer", 0, OPTION_FLAG, NULL,
       "preload the run-time library of the sanitizer that LIB was built with", &request.sanitizer},
      {NULL, 0, OPTION_FLAG, NULL, NULL, NULL}};
  command_line_t line = {verb, options, 1, -1, "FOLDER", {NULL, 0, 0}, NULL};
  request.replay.libraries = &request.libraries;
  int code = options_parse(&line, argc, argv);
  if (code == OPTIONS_PARSED) code = replay_calls(&request, &line.operands, argc, argv, &why);
  texts_free(&request.libraries);
  texts_free(&line.operands);
  text_free(&why);
  return code;
}

const verb_t verb_replay = {
    "replay", "[option]... FOLDER...", "repeat saved calls and compare the results",
    "Repeats calls that TENON_RECORD, `tenon compare` or a crash report saved, and compares the "
    "results with the saved ones. A folder of saved calls is repeated in order; calls that shared "
    "an operator's state share it again.\nExit status: 0: the same outcome, which may be the same "
    "failure; 1: a different outcome.",
    run_replay_verb};
