/* Hooks of TensorFlow's profiler (C API 0.0.1). While it runs, each kernel is enclosed by two timed
 * events of the device. The result is a serialized XSpace with a plane for each device, whose
 * events are the kernels. */
#include "profiler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

enum { SPANS_MOST = 1 << 16 };

static _Atomic(const char *) newest_type; /* of the platform that was added last */

void profiler_set_type(const char *type) { atomic_store(&newest_type, type); }

struct span_t {
  device_t *device;
  tenon_stream_t *stream;
  const char *name;
  tenon_event_t *begin;
  tenon_event_t *end;
  int64_t offset; /* nanoseconds after the device's first kernel; set when the profiler stops */
  int64_t duration;
  span_t *next;
};

typedef struct tp_profiler_t { /* TP_Profiler */
  size_t size;
  void *extension;
  const char *device_type;
} tp_profiler_t;

typedef struct tp_functions_t { /* TP_ProfilerFns */
  size_t size;
  void *extension;
  void (*start)(const tp_profiler_t *profiler, tf_status_t *status);
  void (*stop)(const tp_profiler_t *profiler, tf_status_t *status);
  void (*collect)(const tp_profiler_t *profiler, uint8_t *buffer, size_t *size,
                  tf_status_t *status);
} tp_functions_t;

typedef struct tp_registration_t { /* TF_ProfilerRegistrationParams */
  size_t size;
  void *extension;
  int32_t major;
  int32_t minor;
  int32_t patch;
  tp_profiler_t *profiler;
  tp_functions_t *functions;
  void (*destroy_profiler)(tp_profiler_t *profiler);
  void (*destroy_functions)(tp_functions_t *functions);
} tp_registration_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool is_on;
static span_t *spans; /* the newest first */
static int32_t span_count;
static int64_t started; /* nanoseconds since 1970 */

/* ---- measuring ------------------------------------------------------------------------------- */

static void free_span(span_t *span) {
  tenon_event_release(span->begin);
  tenon_event_release(span->end);
  free(span);
}

span_t *span_begin(stream_t *stream, const char *name) {
  if (!is_on) return NULL;
  span_t *span = calloc(1, sizeof *span);
  if (!span) return NULL;
  span->device = stream->device;
  span->name = name;
  const tenon_device_t device = stream->device->device;
  if (tenon_stream_of(device, &span->stream) == TENON_OK &&
      tenon_event_create(device, TENON_EVENT_TIMED, &span->begin) == TENON_OK &&
      tenon_event_create(device, TENON_EVENT_TIMED, &span->end) == TENON_OK &&
      tenon_event_record(span->begin, span->stream) == TENON_OK)
    return span;
  free_span(span);
  return NULL;
}

void span_end(span_t *span) {
  if (!span) return;
  bool is_kept = tenon_event_record(span->end, span->stream) == TENON_OK;
  pthread_mutex_lock(&lock);
  is_kept = is_kept && is_on && span_count < SPANS_MOST;
  if (is_kept) {
    span->next = spans;
    spans = span;
    span_count++;
  }
  pthread_mutex_unlock(&lock);
  if (!is_kept) free_span(span);
}

static void drop_spans(void) {
  while (spans) {
    span_t *next = spans->next;
    free_span(spans);
    spans = next;
  }
  span_count = 0;
}

/* ---- the serialized XSpace ------------------------------------------------------------------- */

/* Writes a message; counts only if `data` is NULL or full. */
typedef struct writer_t {
  uint8_t *data;
  size_t capacity;
  size_t size;
} writer_t;

static void put_byte(writer_t *w, uint8_t byte) {
  if (w->data && w->size < w->capacity) w->data[w->size] = byte;
  w->size++;
}

static void put_varint(writer_t *w, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    put_byte(w, (uint8_t)(value & 0x7f) | 0x80);
  put_byte(w, (uint8_t)value);
}

static void put_number(writer_t *w, uint32_t field, uint64_t value) {
  put_varint(w, (uint64_t)field << 3);
  put_varint(w, value);
}

static void put_bytes(writer_t *w, uint32_t field, const void *bytes, size_t size) {
  put_varint(w, (uint64_t)field << 3 | 2);
  put_varint(w, size);
  for (size_t i = 0; i < size; i++)
    put_byte(w, ((const uint8_t *)bytes)[i]);
}

/* Fields of the messages XSpace, XPlane, XLine, XEvent and XEventMetadata. */
enum {
  SPACE_PLANE = 1,
  PLANE_ID = 1,
  PLANE_NAME = 2,
  PLANE_LINE = 3,
  PLANE_METADATA = 4,
  ENTRY_KEY = 1,
  ENTRY_VALUE = 2,
  LINE_ID = 1,
  LINE_NAME = 2,
  LINE_START = 3,
  LINE_EVENT = 4,
  EVENT_METADATA = 1,
  EVENT_OFFSET = 2,
  EVENT_DURATION = 3,
  METADATA_ID = 1,
  METADATA_NAME = 2,
};

/* Puts a message that `write` writes into a field. */
static void put_message(writer_t *w, uint32_t field,
                        void (*write)(writer_t *w, const device_t *device, const span_t *span,
                                      uint64_t id),
                        const device_t *device, const span_t *span, uint64_t id) {
  writer_t count = {0};
  write(&count, device, span, id);
  put_varint(w, (uint64_t)field << 3 | 2);
  put_varint(w, count.size);
  write(w, device, span, id);
}

static void write_event(writer_t *w, const device_t *device, const span_t *span, uint64_t id) {
  (void)device;
  put_number(w, EVENT_METADATA, id);
  put_number(w, EVENT_OFFSET, (uint64_t)span->offset * 1000); /* picoseconds */
  put_number(w, EVENT_DURATION, (uint64_t)span->duration * 1000);
}

static void write_line(writer_t *w, const device_t *device, const span_t *span, uint64_t id) {
  static const char name[] = "kernels";
  put_number(w, LINE_ID, id);
  put_bytes(w, LINE_NAME, name, sizeof name - 1);
  put_number(w, LINE_START, (uint64_t)started);
  uint64_t number = 0;
  for (const span_t *s = span; s; s = s->next)
    if (s->device == device) put_message(w, LINE_EVENT, write_event, device, s, ++number);
}

static void write_metadata(writer_t *w, const device_t *device, const span_t *span, uint64_t id) {
  (void)device;
  put_number(w, METADATA_ID, id);
  put_bytes(w, METADATA_NAME, span->name, strlen(span->name));
}

static void write_entry(writer_t *w, const device_t *device, const span_t *span, uint64_t id) {
  put_number(w, ENTRY_KEY, id);
  put_message(w, ENTRY_VALUE, write_metadata, device, span, id);
}

static void write_plane(writer_t *w, const device_t *device, const span_t *span, uint64_t id) {
  char name[PLUGIN_NAME_SIZE + 40];
  const int size =
      snprintf(name, sizeof name, "/device:%s:%d", device->platform->type, device->info.ordinal);
  put_number(w, PLANE_ID, id);
  put_bytes(w, PLANE_NAME, name, (size_t)size);
  put_message(w, PLANE_LINE, write_line, device, span, 1);
  uint64_t number = 0;
  for (const span_t *s = span; s; s = s->next)
    if (s->device == device) put_message(w, PLANE_METADATA, write_entry, device, s, ++number);
}

/* Writes a plane for each device of a type that has run kernels. */
static void write_space(writer_t *w, const char *type) {
  uint64_t id = 0;
  for (const span_t *s = spans; s; s = s->next) {
    bool is_known = strcmp(s->device->platform->type, type) != 0;
    for (const span_t *before = spans; before != s && !is_known; before = before->next)
      is_known = before->device == s->device;
    if (!is_known) put_message(w, SPACE_PLANE, write_plane, s->device, spans, ++id);
  }
}

/* ---- hooks ----------------------------------------------------------------------------------- */

static void start_profiler(const tp_profiler_t *profiler, tf_status_t *status) {
  struct timespec now;
  (void)profiler;
  clock_gettime(CLOCK_REALTIME, &now);
  pthread_mutex_lock(&lock);
  if (!is_on) {
    drop_spans();
    started = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    is_on = true;
  }
  pthread_mutex_unlock(&lock);
  set_status(status, TENON_OK);
}

/* Reads the times of all kernels. A kernel that failed has none. */
static void read_times(void) {
  for (span_t *s = spans; s; s = s->next) {
    (void)tenon_event_synchronize(s->end);
    s->device->first_span = s; /* the oldest is the last */
  }
  for (span_t *s = spans; s; s = s->next) {
    (void)tenon_event_elapsed(s->device->first_span->begin, s->begin, &s->offset);
    (void)tenon_event_elapsed(s->begin, s->end, &s->duration);
    if (s->offset < 0) s->offset = 0;
    if (s->duration < 0) s->duration = 0;
  }
}

static void stop_profiler(const tp_profiler_t *profiler, tf_status_t *status) {
  (void)profiler;
  pthread_mutex_lock(&lock);
  if (is_on) read_times();
  is_on = false;
  pthread_mutex_unlock(&lock);
  set_status(status, TENON_OK);
}

static void collect(const tp_profiler_t *profiler, uint8_t *buffer, size_t *size,
                    tf_status_t *status) {
  writer_t writer = {.data = buffer, .capacity = buffer ? *size : 0};
  pthread_mutex_lock(&lock);
  write_space(&writer, profiler->device_type);
  pthread_mutex_unlock(&lock);
  *size = writer.size;
  set_status(status, TENON_OK);
}

static void destroy_profiler(tp_profiler_t *profiler) { (void)profiler; }
static void destroy_profiler_functions(tp_functions_t *functions) { (void)functions; }

/* TensorFlow calls it after TF_InitKernel, once for each load. */
EXPORT void TF_InitProfiler(tp_registration_t *call, tf_status_t *status);
EXPORT void TF_InitProfiler(tp_registration_t *call, tf_status_t *status) {
  const char *type = atomic_load(&newest_type);
  call->profiler->size = SE_SIZE(tp_profiler_t, device_type);
  call->profiler->device_type = type;
  *call->functions = (tp_functions_t){.size = SE_SIZE(tp_functions_t, collect),
                                      .start = start_profiler,
                                      .stop = stop_profiler,
                                      .collect = collect};
  call->destroy_profiler = destroy_profiler;
  call->destroy_functions = destroy_profiler_functions;
  set_status(status, type ? TENON_OK : tenon_error_set(TENON_PRECONDITION, "no backend is chosen"));
}
