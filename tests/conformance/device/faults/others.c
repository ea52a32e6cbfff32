/* Faults of failures, recordings, start and stop, the table and the properties. */
#include "faults.h"
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAULT(fault, slot, function)                                                               \
  static void fault(tenon_device_table_t *table) { table->slot = function; }

static tenon_status_t lost(tenon_on_t on, void *stream, tenon_fault_t *fault) {
  correct.stream_synchronize(on, stream, fault);
  return TENON_OK;
}
FAULT(error_lost, stream_synchronize, lost)

static tenon_status_t forget(tenon_on_t on, void *stream, tenon_fault_t *fault) {
  tenon_status_t status = correct.stream_synchronize(on, stream, fault);
  lock();
  stream_of(on, stream)->status = TENON_OK; /* reported only once */
  unlock();
  return status;
}
FAULT(error_not_sticky, stream_synchronize, forget)

static tenon_status_t wrong_ticket(tenon_on_t on, void *stream, tenon_fault_t *fault) {
  tenon_status_t status = correct.stream_synchronize(on, stream, fault);
  if (status && fault) fault->ticket++;
  return status;
}
FAULT(blames_another, stream_synchronize, wrong_ticket)

static tenon_status_t all_well(tenon_on_t on) {
  correct.synchronize(on);
  return TENON_OK;
}
FAULT(synchronize_loses_error, synchronize, all_well)

static tenon_status_t record_good(tenon_on_t on, void *event,
                                  void *stream) { /* the event does not carry the failure */
  stream_t *s = stream_of(on, stream);
  lock();
  while (s->first)
    pthread_cond_wait(&vx.progress, &vx.lock);
  tenon_status_t status = s->status;
  s->status = TENON_OK;
  unlock();
  tenon_status_t recorded = correct.event_record(on, event, stream);
  lock();
  while (s->first)
    pthread_cond_wait(&vx.progress, &vx.lock);
  s->status = status;
  unlock();
  return recorded;
}
FAULT(error_not_spread, event_record, record_good)

static void run_copy_always(stream_t *s, work_t *w) {
  (void)s;
  memmove(w->to, w->from, w->bytes);
}
static tenon_status_t copy_always(tenon_on_t on, void *stream, const tenon_copy_t *copy) {
  if (copy->direction != TENON_COPY_WITHIN) return correct.copy(on, stream, copy);
  work_t *w = work_new(on, run_copy_always, copy->ticket);
  if (!w) return TENON_MEMORY;
  w->bytes = copy->bytes;
  w->from = shown(copy->from);
  w->to = shown(copy->to);
  enqueue(stream_of(on, stream), w);
  return TENON_OK;
}
FAULT(works_after_failure, copy, copy_always)

static tenon_status_t begin_nothing(tenon_on_t on, void *stream) {
  (void)on;
  (void)stream;
  return TENON_OK;
}
static tenon_status_t end_nothing(tenon_on_t on, void *stream, void **out_recording) {
  (void)on;
  (void)stream;
  *out_recording = calloc(1, sizeof(recording_t));
  return TENON_OK;
}
static void recording_done_at_once(tenon_device_table_t *table) {
  table->record_begin = begin_nothing;
  table->record_end = end_nothing;
}

static tenon_status_t replay_once(tenon_on_t on, void *stream, void *recording, uint64_t ticket) {
  TENON_TRY(correct.replay(on, stream, recording, ticket));
  ((recording_t *)recording)->first = NULL; /* a replay consumes the recorded work */
  return TENON_OK;
}
FAULT(replay_once_only, replay, replay_once)

static void *idle(void *argument) {
  for (;;)
    pause();
  return argument;
}
static tenon_status_t start_thread(tenon_device_context_t *context) {
  pthread_t thread;
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 65536);
  if (pthread_create(&thread, &small, idle, NULL) == 0) pthread_detach(thread);
  pthread_attr_destroy(&small);
  return correct.start(context);
}
FAULT(stop_leaves_thread, start, start_thread)

static tenon_status_t start_file(tenon_device_context_t *context) {
  if (open("/dev/null", O_RDONLY) < 0) return TENON_INTERNAL;
  return correct.start(context);
}
FAULT(stop_leaves_file, start, start_file)

static tenon_status_t start_memory(tenon_device_context_t *context) {
  static void *volatile last[2];
  last[0] = last[1];
  last[1] = malloc(100);
  return correct.start(context);
}
FAULT(stop_leaves_memory, start, start_memory)

static void stop_now(tenon_device_context_t *context) { /* drops queued work */
  lock();
  for (stream_t *s = vx.streams; s; s = s->next)
    for (work_t *w = s->ordinal == context->ordinal && s->first ? s->first->next : NULL; w;
         w = w->next)
      w->bytes = 0;
  unlock();
  correct.stop(context);
}
FAULT(stop_drops_work, stop, stop_now)

static tenon_status_t start_all(tenon_device_context_t *context) {
  context->device.id = 7;
  return correct.start(context);
}
FAULT(context_changed, start, start_all)

FAULT(half_a_group, event_destroy, NULL)
FAULT(no_copy, copy, NULL)
FAULT(bad_name, name, "My Device")

static tenon_status_t alignment_48(tenon_on_t on, tenon_device_properties_t *out) {
  correct.properties(on, out);
  out->alignment = 48;
  return TENON_OK;
}
FAULT(alignment_not_a_power, properties, alignment_48)

static tenon_status_t list_without_end(tenon_on_t on, tenon_device_properties_t *out) {
  static uint32_t list[300];
  for (int i = 0; i < 300; i++)
    list[i] = i % 2 ? TENON_F32 : TENON_I64;
  correct.properties(on, out);
  out->stores = list;
  return TENON_OK;
}
FAULT(list_unended, properties, list_without_end)

static tenon_status_t no_text(tenon_on_t on, tenon_device_properties_t *out) {
  correct.properties(on, out);
  out->driver = NULL;
  return TENON_OK;
}
FAULT(text_missing, properties, no_text)

static tenon_status_t no_times(tenon_on_t on, tenon_device_properties_t *out) {
  correct.properties(on, out);
  out->features &= ~(uint32_t)TENON_DEVICE_TIMES;
  return TENON_OK;
}
FAULT(feature_missing, properties, no_times)

static tenon_status_t largest_small(tenon_on_t on, tenon_device_properties_t *out) {
  correct.properties(on, out);
  out->largest = 1 << 20;
  return TENON_OK;
}
FAULT(largest_ignored, properties, largest_small)

static tenon_status_t largest_big(tenon_on_t on, tenon_device_properties_t *out) {
  correct.properties(on, out);
  out->largest = out->memory + 1;
  return TENON_OK;
}
FAULT(largest_above_all, properties, largest_big)

static tenon_status_t language_alone(tenon_on_t on, tenon_device_properties_t *out) {
  correct.properties(on, out);
  out->languages = 1 << TENON_SOURCE_C;
  return TENON_OK;
}
FAULT(language_without_compile, properties, language_alone)

/* Writes one byte past the fields that it knows. */
static tenon_status_t clears_all(tenon_on_t on, tenon_device_properties_t *out) {
  uint32_t size = out->size;
  if (size > sizeof *out) ((char *)out)[sizeof *out] = 1;
  correct.properties(on, out);
  out->size = size;
  return TENON_OK;
}
FAULT(writes_behind, properties, clears_all)

static tenon_status_t static_properties(tenon_on_t on, tenon_device_properties_t *out) {
  static tenon_device_properties_t shared;
  memset(&shared, 0, sizeof shared);
  sched_yield();
  correct.properties(on, &shared);
  sched_yield();
  shared.size = out->size;
  *out = shared;
  return TENON_OK;
}
FAULT(shared_properties, properties, static_properties)

static void *native_any(tenon_on_t on, const char *name, void *stream) {
  void *object = correct.native(on, name, stream);
  return object ? object : &correct;
}
FAULT(native_of_any_name, native, native_any)

static void *native_new(tenon_on_t on, const char *name, void *stream) {
  static char objects[4096];
  static char *next = objects;
  void *object = correct.native(on, name, stream);
  return object && strcmp(name, "stream") == 0 ? next++ : object;
}
FAULT(native_changes, native, native_new)

static tenon_status_t replay_work(tenon_on_t on, void *stream, void *recording, uint64_t ticket) {
  if (!((recording_t *)recording)->first)
    return tenon_fail(on, TENON_INVALID, "vx: nothing was recorded");
  return correct.replay(on, stream, recording, ticket);
}
FAULT(empty_recording_fails, replay, replay_work)
FAULT(other_version, abi, 0x20000u)

static tenon_status_t crash(tenon_on_t on, void *event) {
  (void)on;
  return *(volatile tenon_status_t *)hidden(event);
}
FAULT(crashes, event_query, crash)

const fault_t other_faults[] = {{"error_lost", error_lost},
                                {"error_not_sticky", error_not_sticky},
                                {"blames_another", blames_another},
                                {"synchronize_loses_error", synchronize_loses_error},
                                {"error_not_spread", error_not_spread},
                                {"works_after_failure", works_after_failure},
                                {"recording_done_at_once", recording_done_at_once},
                                {"replay_once_only", replay_once_only},
                                {"stop_leaves_thread", stop_leaves_thread},
                                {"stop_leaves_file", stop_leaves_file},
                                {"stop_leaves_memory", stop_leaves_memory},
                                {"stop_drops_work", stop_drops_work},
                                {"context_changed", context_changed},
                                {"half_a_group", half_a_group},
                                {"no_copy", no_copy},
                                {"bad_name", bad_name},
                                {"alignment_not_a_power", alignment_not_a_power},
                                {"list_unended", list_unended},
                                {"text_missing", text_missing},
                                {"feature_missing", feature_missing},
                                {"crashes", crashes},
                                {"largest_ignored", largest_ignored},
                                {"largest_above_all", largest_above_all},
                                {"language_without_compile", language_without_compile},
                                {"writes_behind", writes_behind},
                                {"shared_properties", shared_properties},
                                {"native_of_any_name", native_of_any_name},
                                {"native_changes", native_changes},
                                {"empty_recording_fails", empty_recording_fails},
                                {"other_version", other_version},
                                {0}};
