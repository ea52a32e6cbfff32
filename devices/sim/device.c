/* sim, the reference accelerator, with two ordinals. The host cannot touch its memory, its streams
 * are threads with random delays, and its checker reports each missing wait the first time that the
 * code runs. This file holds the device table, start and stop. */
#include "capture.h"
#include "chain.h"
#include "check.h"
#include "compile.h"
#include "copy.h"
#include "event.h"
#include "memory.h"
#include "offload.h"
#include "ops.h"
#include "program.h"
#include "queue.h"
#include "stream.h"
#include "synchronize.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#define SIM_TARGET "sim 1 x86_64"
#elif defined(__aarch64__)
#define SIM_TARGET "sim 1 aarch64"
#else
#define SIM_TARGET "sim 1 other"
#endif

enum { RANGES_MOST = 64 }; /* ranges of one call of the function `enqueue` of sim_table_t */

/* start and stop */

static void before_fork(void) { sim_lock(); }
static void after_fork(void) { sim_unlock(); }
static void in_child(void) { /* the calling thread is the only thread of the child */
  pthread_mutex_init(&sim.lock, NULL);
  pthread_cond_init(&sim.ended, NULL);
}
static void watch_forks(void) { pthread_atfork(before_fork, after_fork, in_child); }

static tenon_status_t sim_enumerate(tenon_device_context_t *context, int32_t *out_count) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  sim_settings_t settings = sim_settings_usual;
  TENON_TRY(sim_settings_read(context, context->settings, &settings));
  pthread_once(&once, watch_forks);
  context->plugin = &sim;
  *out_count = SIM_ORDINALS;
  return TENON_OK;
}

static void stop(int32_t ordinal) {
  void *object;
  sim_stream_stop(ordinal);
  while ((object = sim_handle_any(ordinal, SIM_EVENT)))
    sim_event_free(object);
  while ((object = sim_handle_any(ordinal, SIM_CAPTURED)))
    sim_captured_free(object);
  while ((object = sim_handle_any(ordinal, SIM_PROGRAM)))
    sim_program_free(object);
  while ((object = sim_handle_any(ordinal, SIM_CHAIN)))
    sim_chain_free(object);
  sim_memory_stop(ordinal);
  sim_clock_free(&sim.ordinals[ordinal].past);
  sim.ordinals[ordinal] =
      /* another ordinal may still copy from this memory */
      (sim_ordinal_t){.used = sim.ordinals[ordinal].used};
  if (--sim.started) return;
  sim_memory_forget_all();
  sim_handle_forget_all();
  sim_clock_free(&sim.host);
  free(sim.slots);
  free(sim.host_accesses.items);
  sim.slots = NULL;
  sim.slot_count = sim.slot_room = 0;
  sim.host_accesses = (sim_accesses_t){0};
}

static tenon_status_t sim_start(tenon_device_context_t *context) {
  if (context->ordinal < 0 || context->ordinal >= SIM_ORDINALS)
    return tenon_fail(context, TENON_INVALID, "sim: there is no ordinal %d; it has %d",
                      context->ordinal, SIM_ORDINALS);
  sim_lock();
  sim_ordinal_t *ordinal = &sim.ordinals[context->ordinal];
  if (ordinal->started)
    return sim_leave(
        tenon_fail(context, TENON_EXISTS, "sim: ordinal %d was started before", context->ordinal));
  if (!sim.started) {
    sim_settings_t settings = sim_settings_usual;
    tenon_status_t status = sim_settings_read(context, context->settings, &settings);
    if (status) return sim_leave(status);
    sim.settings = settings;
    sim.races.count = sim.waits.count = 0;
    sim.stream_order = sim.failure_order = sim.last_key = 0;
  }
  ordinal->started = true;
  sim.started++;
  tenon_status_t status = sim_stream_start(context, &ordinal->own);
  if (status) stop(context->ordinal);
  context->state = status ? NULL : ordinal;
  return sim_leave(status);
}

static void sim_stop(tenon_device_context_t *context) {
  sim_lock();
  if (sim.ordinals[context->ordinal].started) stop(context->ordinal);
  context->state = NULL;
  sim_unlock();
}

/* After a fork, the parent finishes the work that was enqueued before. In the child, the streams
 * with such work have failed, and everything else continues to work. */
static tenon_status_t sim_forked(tenon_on_t on) {
  sim_lock();
  for (sim_stream_t *stream = sim.streams; stream; stream = stream->next) {
    if (stream->object.ordinal != on->ordinal) continue;
    pthread_cond_init(&stream->came, NULL);
    stream->has_thread = false;
    sim_failure_t lost = {
        TENON_ABORTED, stream->first ? stream->first->piece.ticket : 0, 0,
        "sim: work that was enqueued when the process forked is done by the parent only"};
    if (stream->first) sim_stream_fail(stream, &lost);
    for (sim_work_t *work; (work = stream->first);) {
      if (work->reach) {
        pthread_cond_init(&work->reach->reached, NULL);
        work->reach->done = true;
        work->reach->failure = stream->failure;
      }
      stream->first = work->next;
      sim_work_free(work);
    }
    stream->end = &stream->first;
    if (stream->closed) stream->ended = true;
  }
  return sim_leave(TENON_OK);
}

/* what it is */

/* Lists of supported dtypes, indexed by the bits SIM_WITHOUT_F64 and SIM_WITHOUT_F16. NULL means
 * all dtypes. */
#define OTHERS                                                                                     \
  TENON_BOOL, TENON_I8, TENON_U8, TENON_I16, TENON_U16, TENON_I32, TENON_U32, TENON_I64,           \
      TENON_U64, TENON_F32
static const uint32_t no_f64[] = {OTHERS, TENON_F16, 0};
static const uint32_t no_f16[] = {OTHERS, TENON_F64, 0};
static const uint32_t neither[] = {OTHERS, 0};
static const uint32_t *const computes[] = {NULL, no_f64, no_f16, neither};
static const uint32_t narrow[] = {TENON_I32, TENON_U32, TENON_F32, 0};
static const uint32_t no_doubles[] = {TENON_I32, TENON_U32, TENON_I64, TENON_U64, TENON_F32, 0};

static tenon_status_t sim_properties(tenon_on_t on, tenon_device_properties_t *out) {
  TENON_TRY(sim_enter(on));
  uint64_t without = sim.settings.without;
  uint32_t features = TENON_DEVICE_TIMES;
  const uint32_t *atomics = NULL;
  if (!(without & SIM_WITHOUT_ATOMICS64)) features |= TENON_DEVICE_WIDE_ATOMICS;
  if (!sim.settings.handles) features |= TENON_DEVICE_ADDRESSES;
  if (sim.settings.blame) features |= TENON_DEVICE_BLAMES;
  if (without & SIM_WITHOUT_ATOMICS64)
    atomics = narrow;
  else if (without & SIM_WITHOUT_F64)
    atomics = no_doubles;
  tenon_device_properties_t found = {.size = out->size,
                                     .features = features,
                                     .name = "simulated accelerator",
                                     .driver = "sim 1.0.0",
                                     .target = SIM_TARGET,
                                     .memory = sim.settings.memory,
                                     .alignment = 64,
                                     .units = 1,
                                     .group_most = SIM_GROUP_MOST,
                                     .languages = 1u << TENON_SOURCE_C,
                                     .local_most = SIM_LOCAL_MOST,
                                     .computes = computes[without & 3],
                                     .atomics = atomics};
  memcpy(out, &found, out->size < sizeof found ? out->size : sizeof found);
  return sim_leave(TENON_OK);
}

static tenon_status_t enqueue(tenon_on_t on, void *stream, uint64_t ticket, const char *kind,
                              sim_work_fn function, const void *argument, uint64_t bytes,
                              uint32_t range_count, const sim_range_t *ranges) {
  sim_use_t uses[RANGES_MOST];
  if (range_count > RANGES_MOST)
    return tenon_fail(on, TENON_INVALID, "sim: %s has %u ranges; it can have %d", kind, range_count,
                      RANGES_MOST);
  for (uint32_t i = 0; i < range_count; i++)
    uses[i] = (sim_use_t){ranges[i], NULL, false};
  return sim_work_enqueue(on, stream, ticket, kind, function, argument, bytes, range_count, uses,
                          SIM_CALL_LAUNCH);
}

static tenon_status_t set(tenon_on_t on, const char *text) {
  sim_lock();
  sim_settings_t settings = sim.settings;
  tenon_status_t status = sim_settings_read(on, text, &settings);
  if (!status && settings.handles != sim.settings.handles)
    status = tenon_fail(on, TENON_PRECONDITION,
                        "sim: handles=%d can only be set before the device is started",
                        (int)settings.handles);
  if (!status) sim.settings = settings;
  return sim_leave(status);
}

static uint64_t findings(const sim_findings_t *of, sim_finding_t *out, uint64_t room) {
  sim_lock();
  uint64_t count = of->count;
  uint64_t listed = count < SIM_FINDINGS ? count : SIM_FINDINGS;
  if (room > listed) room = listed;
  if (room) memcpy(out, of->items, room * sizeof *out);
  sim_unlock();
  return count;
}

static uint64_t races(tenon_on_t on, sim_finding_t *out, uint64_t room) {
  (void)on;
  return findings(&sim.races, out, room);
}

static uint64_t implied_waits(tenon_on_t on, sim_finding_t *out, uint64_t room) {
  (void)on;
  return findings(&sim.waits, out, room);
}

static tenon_status_t host_access(tenon_on_t on, const void *data, uint64_t bytes,
                                  uint32_t is_write) {
  char text[SIM_TEXT];
  TENON_TRY(sim_enter(on));
  bool found = sim_check_host(on, "host", data, bytes, is_write, text);
  return sim_leave(found ? tenon_fail(on, TENON_PRECONDITION, "%s", text) : TENON_OK);
}

static void lose(tenon_on_t on) {
  sim_lock();
  sim.ordinals[on->ordinal].lost = true;
  sim_unlock();
}

static void *sim_native(tenon_on_t on, const char *name, void *stream) {
  static const sim_table_t table = {sizeof table,  0,           enqueue, set, races,
                                    implied_waits, host_access, lose};
  (void)on;
  (void)stream;
  return strcmp(name, "sim") ? NULL : (void *)(uintptr_t)&table;
}

static const tenon_device_table_t table = {.size = sizeof table,
                                           .abi = TENON_DEVICE_ABI,
                                           .name = "sim",
                                           .type = 12,
                                           .enumerate = sim_enumerate,
                                           .start = sim_start,
                                           .stop = sim_stop,
                                           .properties = sim_properties,
                                           .allocate = sim_allocate,
                                           .free = sim_free,
                                           .copy = sim_copy,
                                           .synchronize = sim_synchronize,
                                           .stream_create = sim_stream_create,
                                           .stream_destroy = sim_stream_destroy,
                                           .stream_query = sim_stream_query,
                                           .stream_synchronize = sim_stream_synchronize,
                                           .event_create = sim_event_create,
                                           .event_destroy = sim_event_destroy,
                                           .event_record = sim_event_record,
                                           .event_query = sim_event_query,
                                           .event_synchronize = sim_event_synchronize,
                                           .stream_wait = sim_stream_wait,
                                           .event_time = sim_event_time,
                                           .memory_free = sim_memory_left,
                                           .fill = sim_fill,
                                           .peers = sim_peers,
                                           .host_allocate = sim_host_allocate,
                                           .host_free = sim_host_free,
                                           .callback = sim_callback,
                                           .native = sim_native,
                                           .memory_import = sim_memory_import,
                                           .memory_forget = sim_memory_forget,
                                           .stream_import = sim_stream_import,
                                           .stream_forget = sim_stream_destroy,
                                           .forked = sim_forked,
                                           .compile = sim_compile,
                                           .program_load = sim_program_load,
                                           .program_unload = sim_program_unload,
                                           .kernel_find = sim_kernel_find,
                                           .launch = sim_launch,
                                           .record_begin = sim_record_begin,
                                           .record_end = sim_record_end,
                                           .replay = sim_replay,
                                           .recording_free = sim_recording_end,
                                           .claim = sim_offload,
                                           .group_compile = sim_group_compile,
                                           .group_run = sim_group_run,
                                           .group_save = sim_group_save,
                                           .group_load = sim_group_load,
                                           .group_free = sim_group_free};

/* clang-format off */
TENON_LIBRARY(sim, "1.0.0",
  TENON_ABOUT("a simulated accelerator that finds missing synchronisation"),
  TENON_DEVICE(&table),
  TENON_GROUP(sim_ops))
/* clang-format on */
