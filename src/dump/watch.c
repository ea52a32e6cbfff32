/* Watches calls: saves failure dumps of calls that fail or were requested, and searches results for
 * NaN and infinities. The hook of the dispatcher's trace calls it, so calls cost nothing while it
 * is off. Invariant: calls that the watcher itself makes are not watched. */
#include "dump/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "base/environment_check.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "base/thread.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "dump/nan.h"
#include "dump/record.h"
#include "layers/trace.h"
#include "operator/kernel.h"
#include "operator/table.h"
#include "storage/device_memory.h"

enum {
  NAN_REPORT = 1,
  NAN_STOP = 2,
  NAN_ONLY = 4,
};
enum {
  RECORDINGS_MOST = 1000,
  REPORTS_MOST = 100,
};

/* Protects the variables below. nan_mode and is_recording are also read without it. */
static tn_mutex_t lock = TN_MUTEX_INIT;
static int32_t nan_mode, is_recording;
static char *folder, *patterns;
static bool records_all;
static int32_t limit, saved_count, next_number, reports;

/* '*' matches any characters. */
static bool matches(const char *name, const char *pattern, size_t size) {
  if (!size) return !*name;
  if (*pattern == '*')
    return matches(name, pattern + 1, size - 1) || (*name && matches(name + 1, pattern, size));
  return *name == *pattern && matches(name + 1, pattern + 1, size - 1);
}

/* The caller holds the lock. */
static bool is_asked_for(const char *name) {
  if (records_all) return true;
  for (const char *at = patterns; at && *at; at += strspn(at, ", ")) {
    size_t size = strcspn(at, ", ");
    if (size && matches(name, at, size)) return true;
    at += size;
  }
  return false;
}

/* Returns a folder name that is not in use: DIR/007-ns.op. */
static bool choose_folder(const tenon_op_t *op, bool is_failure, char *out, size_t capacity) {
  char name[120];
  bool fits = false;
  size_t used = 0;
  for (const char *at = op->name; *at && used + 1 < sizeof name; at++) {
    if (at[0] == ':' && at[1] == ':') at++;
    name[used++] = *at == ':' ? '.' : *at;
  }
  name[used] = 0;
  tn_mutex_lock(&lock);
  if (folder && (is_failure || is_asked_for(op->name))) {
    if (saved_count == limit)
      fprintf(stderr,
              "tenon: %d calls are saved in %s, which is the limit (TENON_RECORD_MOST): further "
              "calls are not saved\n",
              (int)saved_count, folder);
    for (fits = saved_count++ < limit; fits; next_number++) {
      int size = snprintf(out, capacity, "%s/%03d-%s", folder, (int)next_number, name);
      fits = size > 0 && (size_t)size < capacity;
      if (fits && !tn_file_is_folder(out)) break;
    }
    next_number++;
  }
  tn_mutex_unlock(&lock);
  return fits;
}

/* Returns the entry of the operator's table for the backend of a call; NULL: the operator has none,
 * so a fallback serves the call. */
static const tn_table_entry_t *backend_entry(const tenon_call_t *call) {
  const tn_backend_t *backend = tn_backend_of(tn_call_device(call));
  if (!backend) return NULL;
  return backend->bit == TN_BIT_OTHERS ? tn_table_others(call->op, backend)
                                       : tn_table_own(call->op, backend->bit);
}

/* Returns the text of the kernel that the table has for a call; NULL: none. A kernel that declined
 * the call is returned as well. */
static const char *kernel_of(const tenon_call_t *call) {
  const tn_kernel_t *kernel = tn_frame_of_const(call)->kernel;
  if (!kernel && tn_frame_of_const(call)->entry) {
    const tn_table_entry_t *entry = backend_entry(call);
    if (entry && (entry->only || entry->by_dtype))
      kernel = tn_entry_kernel(entry, call->op, call->inputs, call->outputs);
  }
  return kernel ? kernel->text : NULL;
}

static tenon_status_t save_call(const tn_watched_t *watched, tenon_status_t status,
                                const char *error, const char *path) {
  const tenon_call_t *call = watched->call;
  const tenon_op_t *op = call->op;
  tenon_tensor_t *inputs[64], *written[64];
  bool has_written = false;
  for (uint32_t i = 0; i < op->input_count; i++) {
    inputs[i] = watched->before[i] ? watched->before[i] : call->inputs[i];
    written[i] = op->schema.inputs[i].is_written ? call->inputs[i] : NULL;
    has_written |= written[i] != NULL;
  }
  tenon_recording_info_t info = {.size = sizeof info,
                                 .status = status,
                                 .error = error,
                                 .node = watched->node,
                                 .kernel = kernel_of(call),
                                 .inputs = inputs,
                                 .is_random = call->random != NULL,
                                 .seed = watched->seed,
                                 .offset = watched->offset,
                                 .state = (uint64_t)(uintptr_t)call->state};
  if (status == TENON_OK) {
    info.outputs = call->outputs;
    info.written = has_written ? written : NULL;
  }
  return tenon_recording_save(path, op, call->attrs, &info);
}

/* Saves the call in the next free folder. Another process may take a folder first. Returns:
 * UNAVAILABLE if the call is not to be saved. */
static tenon_status_t save_next(const tn_watched_t *watched, tenon_status_t status, bool is_failure,
                                const char *error, char *out_folder, size_t capacity) {
  for (int tries = 0; choose_folder(watched->call->op, is_failure, out_folder, capacity); tries++) {
    tenon_status_t saved = save_call(watched, status, error, out_folder);
    if (saved != TENON_EXISTS || tries == 100) return saved;
    tn_mutex_lock(&lock);
    saved_count--;
    tn_mutex_unlock(&lock);
  }
  return TENON_UNAVAILABLE;
}

tenon_status_t tn_watched_save(const tn_watched_t *watched, tenon_status_t status,
                               const char *error, char *out_folder, size_t capacity) {
  return save_next(watched, status, true, error, out_folder, capacity);
}

bool tn_record_is_on(void) { return __atomic_load_n(&is_recording, __ATOMIC_RELAXED); }

/* Prints where the call was saved, or why not. Restores the thread's error message afterwards. */
static void save_watched(const tn_watched_t *watched, tenon_status_t status) {
  char path[4200];
  const char *name = watched->call->op->name;
  char *error = status == TENON_OK ? NULL : tn_copy_text(tn_error(), strlen(tn_error()));
  tenon_status_t saved = save_next(watched, status, status != TENON_OK, error, path, sizeof path);
  if (saved == TENON_OK && status != TENON_OK)
    fprintf(stderr, "tenon: %s failed and was saved; `tenon replay %s` repeats the call\n", name,
            path);
  else if (saved != TENON_OK && saved != TENON_UNAVAILABLE)
    fprintf(stderr, "tenon: %s\n", tn_error());
  if (error) (void)tn_fail(status, "%s", error);
  tn_release_memory(error);
}

typedef struct found_t { /* the first NaN or infinity among tensors */
  const tn_argument_t *argument;
  int64_t item; /* index in a list, or -1 */
  int64_t index;
  int64_t count;
  int64_t of;
  tn_text_t position;
} found_t;

static void search_tensor(const tenon_tensor_t *t, const tn_argument_t *argument, int64_t item,
                          bool nans, found_t *found) {
  tenon_tensor_t *here = NULL;
  if (found->argument || !t || t->keys & TN_TENSOR_UNSET || t->detail) return;
  if (t->device.type != 1 && tenon_tensor_copy_to(t, (tenon_device_t){1, 0}, &here) != TENON_OK)
    return;
  tn_nonfinite_t numbers = tn_nonfinite_count(here ? here : t);
  int64_t count = nans ? numbers.nans : numbers.infinities;
  if (count) {
    *found = (found_t){argument, item,           nans ? numbers.first_nan : numbers.first_infinity,
                       count,    tenon_count(t), {0}};
    if (t->ndim) tn_nonfinite_position(t, found->index, &found->position);
  }
  tenon_tensor_release(here);
}

static void search_value(const tenon_tensor_t *t, const tn_argument_t *argument, bool nans,
                         found_t *found) {
  if (!t || !tn_dtype_is(t->dtype, TENON_LIST)) {
    search_tensor(t, argument, -1, nans, found);
    return;
  }
  for (int64_t i = 0; i < t->shape[0]; i++)
    search_tensor(tenon_item(t, i), argument, i, nans, found);
}

static void add_found(tn_text_t *text, const char *role, const found_t *found, bool nans) {
  tn_text_add(text, "%s %s", role, found->argument->name);
  if (found->item >= 0) tn_text_add(text, "[%lld]", (long long)found->item);
  tn_text_add(text, "%s is %s", tn_text_get(&found->position), nans ? "NaN" : "infinite");
  if (found->count > 1)
    tn_text_add(text, " (the first of %lld among %lld numbers)", (long long)found->count,
                (long long)found->of);
}

/* Searches the inputs before the call, which may overwrite them. [0] is for infinities, [1] for
 * NaN. */
static void search_inputs(const tenon_call_t *call, found_t had[2]) {
  int32_t mode = __atomic_load_n(&nan_mode, __ATOMIC_RELAXED);
  for (uint32_t i = 0; i < call->op->input_count; i++)
    for (int nans = mode & NAN_ONLY ? 1 : 0; nans < 2; nans++)
      search_value(call->inputs[i], &call->op->schema.inputs[i], nans, &had[nans]);
}

static tenon_status_t check_numbers(const tn_watched_t *watched, const found_t had[2]) {
  const tenon_call_t *call = watched->call;
  const tenon_op_t *op = call->op;
  int32_t mode = __atomic_load_n(&nan_mode, __ATOMIC_RELAXED);
  tenon_status_t status = TENON_OK;
  for (int nans = 1; nans >= (mode & NAN_ONLY ? 1 : 0) && status == TENON_OK; nans--) {
    found_t found = {0};
    tn_text_t text = {0};
    for (uint32_t o = 0; o < op->output_count; o++)
      search_value(call->outputs[o], &op->schema.outputs[o], nans, &found);
    for (uint32_t i = 0; i < op->input_count; i++)
      if (op->schema.inputs[i].is_written)
        search_value(call->inputs[i], &op->schema.inputs[i], nans, &found);
    const found_t *source = NULL;
    if (had[nans].argument)
      source = &had[nans];
    else if (nans && had[0].argument)
      source = &had[0];
    bool begins = !source || (nans && source == &had[0]);
    bool stops = mode & NAN_STOP && found.argument && (nans || !source);
    if (watched->node && !stops) /* For an error, the graph adds the node itself. */
      tn_text_add(&text, "node '%s' (%s): ", watched->node, op->name);
    else
      tn_text_add(&text, "%s: ", op->name);
    if (found.argument) add_found(&text, "result", &found, nans);
    if (found.argument && source)
      add_found(&text,
                begins ? "; it begins here, from infinities: input" : "; before the call: input",
                source, source == &had[1]);
    else if (found.argument)
      tn_text_add(&text, "; its inputs have none: it begins here");
    if (stops)
      status = tn_fail(TENON_ABORTED, "%s", tn_text_get(&text));
    else if (found.argument && begins &&
             __atomic_fetch_add(&reports, 1, __ATOMIC_RELAXED) < REPORTS_MOST)
      fprintf(stderr, "tenon: %s\n", tn_text_get(&text));
    tn_text_clear(&text);
    tn_text_clear(&found.position);
  }
  return status;
}

/* Copies inputs that the call may overwrite, because the schema says so or because a plan placed a
 * result in their memory. */
static void copy_inputs(tn_watched_t *watched) {
  const tenon_call_t *call = watched->call;
  const tenon_op_t *op = call->op;
  for (uint32_t i = 0; i < op->input_count && i < 64; i++) {
    tenon_tensor_t *t = call->inputs[i];
    bool is_at_risk = t && op->schema.inputs[i].is_written;
    for (uint32_t o = 0; t && o < op->output_count; o++)
      is_at_risk |= call->outputs[o] && call->outputs[o]->data == t->data;
    if (!is_at_risk || tn_dtype_is(t->dtype, TENON_LIST)) continue;
    if (tenon_tensor_copy_to(t, t->device, &watched->before[i]) != TENON_OK)
      watched->before[i] = NULL;
  }
}

static tenon_status_t watch_call(tenon_call_t *call, tenon_run_fn run) {
  tn_thread_t *thread = tn_thread();
  tn_watched_t watched = {.outer = thread->watched, .node = thread->graph_node};
  tn_watched_t *self = &watched;
  found_t had[2] = {{0}, {0}};
  bool looks = __atomic_load_n(&nan_mode, __ATOMIC_RELAXED) != 0;
  if (self->outer && !self->outer->call) return run(call);
  /* Calls that the watcher makes are not watched. */
  thread->watched = self;
  if (call->random) {
    self->seed = call->random->seed;
    self->offset = call->random->offset;
  }
  self->call = call;
  tn_watched_t quiet = {.outer = self};
  thread->watched = &quiet;
  if (tn_record_is_on()) copy_inputs(self);
  if (looks) search_inputs(call, had);
  thread->watched = self;
  tenon_status_t status = run(call);
  thread->watched = &quiet;
  if (looks && status == TENON_OK) status = check_numbers(self, had);
  if (tn_record_is_on()) save_watched(self, status);
  thread->watched = self->outer;
  for (size_t i = 0; i < 64; i++)
    tenon_tensor_release(self->before[i]);
  tn_text_clear(&had[0].position);
  tn_text_clear(&had[1].position);
  return status;
}

static void watch_refused(const tenon_op_t *op, const tenon_value_t *attrs,
                          tenon_tensor_t *const *inputs, tenon_status_t status) {
  tn_thread_t *thread = tn_thread();
  tn_frame_t frame = {
      .call = {.size = sizeof frame.call, .op = op, .attrs = attrs, .inputs = inputs}};
  tn_watched_t watched = {
      .outer = thread->watched, .call = &frame.call, .node = thread->graph_node};
  tn_watched_t quiet = {.outer = &watched};
  if (!tn_record_is_on() || (watched.outer && !watched.outer->call)) return;
  thread->watched = &quiet;
  save_watched(&watched, status);
  thread->watched = watched.outer;
}

static void update_watcher(void) {
  static const tn_watcher_t watcher = {watch_call, watch_refused};
  tn_watch_set(nan_mode || is_recording ? &watcher : NULL);
}

tenon_status_t tenon_record_set(const tenon_record_t *what) {
  char real[4096];
  tenon_record_t all = {0};
  if (what) memcpy(&all, what, what->size < sizeof all ? what->size : sizeof all);
  if (what && (!all.folder || !*all.folder))
    return tn_fail(TENON_INVALID, "tenon_record_set: expected a folder");
  if (what) TN_TRY(tn_folder_create(all.folder, false));
  if (what) TN_TRY(tn_file_real_path(all.folder, real, sizeof real));
  char *fresh = what ? tn_copy_text(real, strlen(real)) : NULL;
  char *names = what && all.ops ? tn_copy_text(all.ops, strlen(all.ops)) : NULL;
  if (what && (!fresh || (all.ops && !names))) {
    tn_release_memory(fresh);
    tn_release_memory(names);
    return tn_no_memory("recordings", sizeof real);
  }
  tn_mutex_lock(&lock);
  tn_release_memory(folder);
  tn_release_memory(patterns);
  folder = fresh;
  patterns = names;
  records_all = all.flags & TENON_RECORD_ALL;
  limit = all.most > 0 ? all.most : RECORDINGS_MOST;
  saved_count = 0;
  next_number = 0;
  __atomic_store_n(&is_recording, folder != NULL, __ATOMIC_RELAXED);
  update_watcher();
  tn_mutex_unlock(&lock);
  return TENON_OK;
}

tenon_status_t tenon_nan_set(const char *what) {
  static const char *const words[] = {"report", "stop", "nan"};
  static const int32_t meanings[] = {NAN_REPORT, NAN_STOP, NAN_ONLY};
  int32_t wanted = 0;
  for (const char *at = what ? what : ""; *at; at += *at == ',') {
    size_t size = strcspn(at, ",");
    size_t i = 0;
    while (i < 3 && (strlen(words[i]) != size || strncmp(words[i], at, size) != 0))
      i++;
    if (i == 3)
      return tn_fail(TENON_INVALID,
                     "'%.60s': expected 'stop' or 'report', optionally followed by ',nan'", what);
    wanted |= meanings[i];
    at += size;
  }
  if (wanted == NAN_ONLY) wanted |= NAN_STOP;
  tn_mutex_lock(&lock);
  __atomic_store_n(&nan_mode, wanted, __ATOMIC_RELAXED);
  __atomic_store_n(&reports, 0, __ATOMIC_RELAXED);
  update_watcher();
  tn_mutex_unlock(&lock);
  return TENON_OK;
}

void tn_record_start(void) {
  const char *where = tn_environment("TENON_RECORD");
  const char *what = tn_environment("TENON_NAN");
  const char *all = tn_environment("TENON_RECORD_ALL");
  tenon_record_t record = {.size = sizeof record,
                           .folder = where,
                           .ops = tn_environment("TENON_RECORD_OP"),
                           .most = (int32_t)tn_environment_number("TENON_RECORD_MOST", INT32_MAX)};
  if (all && strcmp(all, "1") == 0) record.flags = TENON_RECORD_ALL;
  if (where && *where && tenon_record_set(&record) != TENON_OK)
    tn_environment_ignored("TENON_RECORD", tn_error());
  if (what && *what && tenon_nan_set(what) != TENON_OK)
    tn_environment_ignored("TENON_NAN", tn_error());
}

void tn_record_clear(void) {
  (void)tenon_record_set(NULL);
  (void)tenon_nan_set(NULL);
}
