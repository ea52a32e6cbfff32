/* Traces calls: prints each call and each step within it, nested, as lines on stderr or as slices
 * of a file that Perfetto opens, and explains why kernels were taken or declined (explain.c). The
 * row of the trace's key runs it for every call of the process while the trace is on; while it is
 * off none of this code runs. */
#include "layers/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/environment.h"
#include "base/environment_check.h"
#include "base/event_file.h"
#include "base/map.h"
#include "base/status.h"
#include "base/text.h"
#include "base/thread.h"
#include "core/value.h"
#include "inspect/explain.h"
#include "operator/kernel.h"
#include "operator/names.h"
#include "operator/table.h"
#include "storage/device_memory.h"

enum {
  WITH_STEPS = 1,
  WITH_ARGS = 2,
  WITH_TIME = 4,
  EXPLAINS = 8,
  EXPLAINS_ALL = 16,
};
static int32_t details; /* WITH_..., EXPLAINS...; set before the key is switched on */

static bool wants(int32_t detail) { return __atomic_load_n(&details, __ATOMIC_RELAXED) & detail; }

/* Guards the switches, the file, and what was explained. */
static tn_mutex_t lock = TN_MUTEX_INIT;
static tn_event_file_t *file; /* NULL: the trace goes to stderr */
/* The number of the file, counted over the process; 0: there is none. */
static uint64_t file_number;
static uint64_t files;
static tn_map_t explained;
static const tn_watcher_t *watch; /* atomic */

/* A line, or a slice. */
typedef struct step_t {
  const char *label; /* "call", "next", "layer", "mode", "node" */
  const char *node;  /* the name of a node whose kernel was chosen before; NULL: no such node */
  /* What the step runs: a kernel, another resolution, a layer or a mode. */
  tn_text_t runs;
  tn_text_t arguments; /* of a call */
  /* Where the key of a call comes from, if no tensor has it. */
  tn_text_t origin;
  /* The number of the file that the beginning was written to; 0: none. */
  uint64_t file;
  int64_t began;
} step_t;

/* the texts of a step */

static void add_tensor(tn_text_t *text, const tenon_tensor_t *t) {
  char shape[200];
  if (!t) {
    tn_text_add(text, "None");
  } else if (tn_dtype_is(t->dtype, TENON_LIST)) {
    tn_text_add(text, "[");
    for (int64_t i = 0; i < t->shape[0] && i < 8; i++) {
      if (i) tn_text_add(text, ", ");
      add_tensor(text, tenon_item(t, i));
    }
    tn_text_add(text, t->shape[0] > 8 ? ", ...]" : "]");
  } else {
    tn_text_add(text, "%s%s", tenon_dtype_name(t->dtype),
                tn_shape_print(t->ndim, t->shape, shape, sizeof shape));
    if (t->detail) tn_text_add(text, " %s", tenon_tensor_layout(t));
  }
}

static void add_arguments(tn_text_t *text, const tenon_call_t *call) {
  const tn_schema_t *schema = &call->op->schema;
  const char *separator = "";
  tn_text_add(text, "(");
  for (uint32_t i = 0; i < schema->input_count; i++, separator = ", ") {
    tn_text_add(text, "%s", separator);
    add_tensor(text, call->inputs[i]);
  }
  for (uint32_t i = 0; i < schema->attr_count; i++, separator = ", ") {
    tn_text_add(text, "%s%s=", separator, schema->attrs[i].name);
    tn_value_print(&schema->attrs[i], &call->attrs[i], text);
  }
  tn_text_add(text, ")");
}

/* Appends what an entry runs, and by which resolution. */
static void add_entry(tn_text_t *text, const tenon_call_t *call) {
  const tn_table_entry_t *entry = tn_frame_of_const(call)->entry;
  const tn_kernel_t *kernel = NULL;
  if (entry->only || entry->by_dtype)
    kernel = tn_entry_kernel(entry, call->op, call->inputs, call->outputs);
  bool adds = kernel && kernel->words.flags & TN_KERNEL_ACCUMULATES && call->accumulate;
  if (kernel)
    tn_text_add(text, "%s [%s, %s]%s", kernel->text, kernel->library->name,
                tn_resolution_name(entry->resolved), adds ? " adds" : "");
  else
    tn_text_add(text, "%s", tn_resolution_name(entry->resolved));
}

static void add_origin(tn_text_t *text, const tenon_call_t *call) {
  const char *argument;
  const char *words = tn_key_origin(call->op, call->attrs, &argument);
  char keys[600];
  tn_text_add(text, "key %s from %s%s",
              tn_keys_print(tn_keys_without_tensors(call->op, call->attrs), keys, sizeof keys),
              words, argument);
}

/* lines */

static void print_lines(tn_text_t *text) {
  /* One write per text, so that lines of several threads do not mix. */
  if (!text->failed) fputs(tn_text_get(text), stderr);
  tn_text_clear(text);
}

static void print_begin(const tenon_call_t *call, const step_t *step) {
  char keys[600];
  tn_text_t line = {0};
  int indent = 2 * (int)tn_thread()->depth;
  if (step->node)
    tn_text_add(&line, "%*snode %s %s", indent, "", step->node, call->op->name);
  else
    tn_text_add(&line, "%*s%s %s %s", indent, "", step->label, call->op->name,
                tn_keys_print(tn_frame_of_const(call)->keys, keys, sizeof keys));
  if (step->runs.size) tn_text_add(&line, " -> %s", tn_text_get(&step->runs));
  if (step->arguments.size) tn_text_add(&line, " %s", tn_text_get(&step->arguments));
  tn_text_add(&line, "\n");
  if (step->origin.size) tn_text_add(&line, "%*s%s\n", indent + 2, "", tn_text_get(&step->origin));
  print_lines(&line);
}

static void print_end(const tenon_call_t *call, const step_t *step, tenon_status_t status) {
  tn_text_t line = {0};
  if (status == TENON_OK && !wants(WITH_TIME)) return;
  tn_text_add(&line, "%*s%s", 2 * (int)tn_thread()->depth, "", call->op->name);
  if (status != TENON_OK) tn_text_add(&line, " failed: %s", tenon_status_name(status));
  if (wants(WITH_TIME))
    tn_text_add(&line, " took %.3f us", 1e-3 * (double)(tn_now() - step->began));
  tn_text_add(&line, "\n");
  print_lines(&line);
}

/* the file */

/* Called with the lock held. */
static void update_key(void) {
  if (details || watch)
    __atomic_fetch_or(&tn_key_global, TN_KEY(TN_BIT_TRACE), __ATOMIC_RELEASE);
  else
    __atomic_fetch_and(&tn_key_global, ~TN_KEY(TN_BIT_TRACE), __ATOMIC_RELEASE);
}

/* Called with the lock held. */
static void close_file(void) {
  __atomic_store_n(&file_number, 0, __ATOMIC_RELAXED);
  tn_event_file_close(file);
  file = NULL;
}

/* Adds an event to the open file, if the file has this number, or if the number is 0. Returns the
 * number of the file; 0: nothing was added. */
static uint64_t add_event(const tn_text_t *event, uint64_t number) {
  uint64_t found = 0;
  tn_mutex_lock(&lock);
  if (file && (!number || number == file_number)) {
    tenon_status_t status =
        event->failed ? TENON_MEMORY : tn_event_file_add(file, tn_text_get(event), event->size);
    if (status == TENON_OK) found = file_number;
    /* The failure is reported once and ends the trace; the calls themselves do not fail. */
    if (status == TENON_DENIED) {
      fprintf(stderr, "tenon: %s; the trace ends here\n", tn_error());
      close_file();
      __atomic_store_n(&details, details & ~(WITH_STEPS | WITH_ARGS | WITH_TIME), __ATOMIC_RELAXED);
      update_key();
    }
  }
  tn_mutex_unlock(&lock);
  return found;
}

static void add_head(tn_text_t *event, const char *phase) {
  int64_t now = tn_now();
  tn_text_add(event, "{\"ph\": \"%s\", \"pid\": 1, \"tid\": %lld, \"ts\": %lld.%03d", phase,
              (long long)tn_thread_id(), (long long)(now / 1000), (int)(now % 1000));
}

static void add_member(tn_text_t *event, const char *name, const char *value) {
  tn_text_add(event, ", \"%s\": ", name);
  tn_text_json(event, value);
}

static uint64_t begin_slice(const tenon_call_t *call, const step_t *step) {
  char keys[600];
  tn_text_t event = {0};
  bool is_call = step->label[0] == 'c' || step->node;
  add_head(&event, "B");
  add_member(&event, "cat", step->label);
  add_member(&event, "name",
             is_call || !step->runs.size ? call->op->name : tn_text_get(&step->runs));
  tn_text_add(&event, ", \"args\": {\"keys\": ");
  tn_text_json(&event, tn_keys_print(tn_frame_of_const(call)->keys, keys, sizeof keys));
  add_member(&event, "operator", call->op->name);
  if (step->node) add_member(&event, "node", step->node);
  if (step->runs.size) add_member(&event, "runs", tn_text_get(&step->runs));
  if (step->arguments.size) add_member(&event, "arguments", tn_text_get(&step->arguments));
  if (step->origin.size) add_member(&event, "origin", tn_text_get(&step->origin));
  tn_text_add(&event, "}}");
  uint64_t number = add_event(&event, 0);
  tn_text_clear(&event);
  return number;
}

static void end_slice(const step_t *step, tenon_status_t status) {
  tn_text_t event = {0};
  add_head(&event, "E");
  if (status != TENON_OK) {
    tn_text_add(&event, ", \"args\": {\"failed\": ");
    tn_text_json(&event, tenon_status_name(status));
    tn_text_add(&event, "}");
  }
  tn_text_add(&event, "}");
  (void)add_event(&event, step->file);
  tn_text_clear(&event);
}

/* steps */

static tenon_status_t run_step(tenon_call_t *call, tenon_run_fn run, step_t *step) {
  bool with_steps = wants(WITH_STEPS);
  bool to_file = __atomic_load_n(&file_number, __ATOMIC_RELAXED) != 0;
  tn_thread_t *thread = tn_thread();
  step->began = tn_now();
  if (with_steps && to_file)
    step->file = begin_slice(call, step);
  else if (with_steps)
    print_begin(call, step);
  tn_text_clear(&step->runs);
  tn_text_clear(&step->arguments);
  tn_text_clear(&step->origin);
  thread->depth++;
  tenon_status_t status = run(call);
  thread->depth--;
  if (step->file)
    end_slice(step, status);
  else if (with_steps && !to_file)
    print_end(call, step, status);
  return status;
}

/* Prints why the call takes its kernel. Each text is printed once, unless all are wanted. */
static void print_explanation(const tenon_call_t *call) {
  tn_text_t text = {0};
  tn_registry_lock();
  tn_explain_call(call, &text);
  tn_registry_unlock();
  bool is_fresh = text.size && !text.failed;
  if (is_fresh && !wants(EXPLAINS_ALL)) {
    tn_mutex_lock(&lock);
    is_fresh = !tn_map_get(&explained, text.data, text.size);
    /* If memory runs out here, the text is printed again next time. */
    if (is_fresh) (void)tn_map_put(&explained, text.data, text.size, &explained);
    tn_mutex_unlock(&lock);
  }
  if (is_fresh) print_lines(&text);
  tn_text_clear(&text);
}

static tenon_status_t run_entry(tenon_call_t *call, const char *label) {
  /* Texts of libraries that may be unloaded are read below, so the entry is held. */
  const tn_table_entry_t *entered = tn_entry_hold(call);
  step_t step = {.label = label};
  if (wants(EXPLAINS)) print_explanation(call);
  if (wants(WITH_STEPS)) add_entry(&step.runs, call);
  if (wants(WITH_STEPS) && label[0] == 'c') {
    if (wants(WITH_ARGS)) add_arguments(&step.arguments, call);
    if (!call->op->input_count) add_origin(&step.origin, call);
  }
  tenon_status_t status = run_step(call, tn_entry_run, &step);
  tn_entry_release(entered);
  return status;
}

static tenon_status_t run_function(tenon_call_t *call, tenon_run_fn run, const char *label,
                                   const char *name) {
  step_t step = {.label = label};
  if (name) tn_text_add(&step.runs, "%s", name);
  return run_step(call, run, &step);
}

static tenon_status_t hand_on(tenon_call_t *call) {
  return tn_redispatch(call, tn_key_below(tn_frame_of(call)->keys, TN_BIT_TRACE));
}

/* The row of the trace's own key: it only dispatches the call again, which prints it. */
static tenon_status_t run_trace(tenon_call_t *call) { return tn_watch_run(call, hand_on); }

/* watching */

tenon_status_t tn_watch_run(tenon_call_t *call, tenon_run_fn run) {
  const tn_watcher_t *watcher = __atomic_load_n(&watch, __ATOMIC_ACQUIRE);
  return watcher ? watcher->run(call, run) : run(call);
}

static tenon_status_t run_planned(tenon_call_t *call) {
  return tn_watch_run(call, tn_frame_of(call)->kernel->run);
}

tenon_status_t tn_watch_run_node(tenon_call_t *call, const char *node) {
  const tn_kernel_t *kernel = tn_frame_of(call)->kernel;
  step_t step = {.label = "node", .node = node};
  if (wants(WITH_STEPS)) tn_text_add(&step.runs, "%s [%s]", kernel->text, kernel->library->name);
  if (wants(WITH_ARGS)) add_arguments(&step.arguments, call);
  return run_step(call, run_planned, &step);
}

static void tell_refusal(const tenon_op_t *op, const tenon_value_t *attrs,
                         tenon_tensor_t *const *inputs, tenon_status_t status) {
  const tn_watcher_t *watcher = __atomic_load_n(&watch, __ATOMIC_ACQUIRE);
  if (watcher) watcher->refused(op, attrs, inputs, status);
}

void tn_watch_set(const tn_watcher_t *watcher) {
  tn_mutex_lock(&lock);
  __atomic_store_n(&watch, watcher, __ATOMIC_RELEASE);
  update_key();
  tn_mutex_unlock(&lock);
}

/* switching */

static tenon_status_t parse_words(const char *what, int32_t *out_details, const char **out_path) {
  static const char *const words[] = {"dispatch", "args", "time"};
  static const int32_t meanings[] = {WITH_STEPS, WITH_STEPS | WITH_ARGS, WITH_STEPS | WITH_TIME};
  for (const char *at = what; *at; at += *at == ',') {
    size_t size = strcspn(at, ",");
    size_t i = 0;
    /* The path goes to the end of the text, since it may contain commas. */
    if (strncmp(at, "file=", 5) == 0 && at[5]) {
      *out_details |= WITH_STEPS;
      *out_path = at + 5;
      return TENON_OK;
    }
    while (i < 3 && (strlen(words[i]) != size || strncmp(words[i], at, size) != 0))
      i++;
    if (i == 3)
      return tn_fail(TENON_INVALID,
                     "trace '%.100s': expected dispatch, args, time, or as the last of them "
                     "file=PATH, with commas between",
                     what);
    *out_details |= meanings[i];
    at += size;
  }
  return TENON_OK;
}

tenon_status_t tenon_trace_set(const char *what) {
  const char *path = NULL;
  int32_t wanted = 0;
  tn_event_file_t *fresh = NULL;
  TN_TRY(parse_words(what ? what : "", &wanted, &path));
  if (path) TN_TRY(tn_event_file_create(path, &fresh));
  tn_mutex_lock(&lock);
  close_file();
  file = fresh;
  if (file) __atomic_store_n(&file_number, ++files, __ATOMIC_RELAXED);
  __atomic_store_n(&details, (details & (EXPLAINS | EXPLAINS_ALL)) | wanted, __ATOMIC_RELAXED);
  update_key();
  tn_mutex_unlock(&lock);
  return TENON_OK;
}

tenon_status_t tenon_explain_set(int32_t how) {
  if (how < 0 || how > TENON_EXPLAIN_ALL)
    return tn_fail(TENON_INVALID, "explain %d: expected 0, TENON_EXPLAIN_ONCE or TENON_EXPLAIN_ALL",
                   (int)how);
  int32_t wanted = how == 0 ? 0 : EXPLAINS;
  if (how == TENON_EXPLAIN_ALL) wanted |= EXPLAINS_ALL;
  tn_mutex_lock(&lock);
  __atomic_store_n(&details, (details & ~(EXPLAINS | EXPLAINS_ALL)) | wanted, __ATOMIC_RELAXED);
  if (!how) tn_map_clear(&explained);
  update_key();
  tn_mutex_unlock(&lock);
  return TENON_OK;
}

static void ignore_explain(const char *how) {
  char reason[128];
  snprintf(reason, sizeof reason, "'%.60s': expected 1 or all", how);
  tn_environment_ignored("TENON_EXPLAIN", reason);
}

void tn_trace_start(void) {
  const char *what = tn_environment("TENON_TRACE");
  const char *how = tn_environment("TENON_EXPLAIN");
  bool is_once = how && strcmp(how, "1") == 0;
  bool is_all = how && strcmp(how, "all") == 0;
  tn_mutex_lock(&lock);
  /* The file of the start before a shutdown is still open and must not be emptied. */
  bool goes_on = file != NULL;
  tn_mutex_unlock(&lock);
  if (what && !goes_on && tenon_trace_set(what) != TENON_OK)
    tn_environment_ignored("TENON_TRACE", tn_error());
  if (is_once || is_all)
    (void)tenon_explain_set(is_all ? TENON_EXPLAIN_ALL : TENON_EXPLAIN_ONCE);
  else if (how && *how && strcmp(how, "0") != 0)
    ignore_explain(how);
}

void tn_trace_clear(void) {
  tn_mutex_lock(&lock);
  tn_map_clear(&explained);
  tn_mutex_unlock(&lock);
}

void tn_trace_install(void) {
  tn_trace_hooks = (tn_trace_hooks_t){run_entry, run_function, tell_refusal};
  tn_table_run_set(TN_RUN_TRACE, run_trace);
}
