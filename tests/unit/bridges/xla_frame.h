/* Frames of custom calls as XLA passes them to handlers, for tests of bridges/jax. */
#ifndef TENON_TESTS_XLA_FRAME_H
#define TENON_TESTS_XLA_FRAME_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xla.h"

xla_error_t *tenon_jax_cpu(xla_frame_t *frame);

enum { FRAME_MOST = 8, FRAME_RANK = 4 };

struct xla_error_t { /* as XLA keeps it; the message is a copy */
  int32_t code;
  char message[512];
};

typedef struct frame_t {
  xla_frame_t xla;
  xla_buffer_t buffers[2 * FRAME_MOST]; /* the operands, then the results */
  int64_t dims[2 * FRAME_MOST][FRAME_RANK];
  void *items[2 * FRAME_MOST];
  int32_t types[2 * FRAME_MOST];
  xla_bytes_t text;
  xla_bytes_t name;
  xla_bytes_t *names[1];
  void *values[1];
  int32_t kinds[1];
} frame_t;

static inline xla_error_t *frame_error_create(xla_error_create_t *arguments) {
  xla_error_t *error = malloc(sizeof *error);
  if (!error) abort();
  error->code = arguments->code;
  snprintf(error->message, sizeof error->message, "%s", arguments->message);
  return error;
}

static inline void frame_error_destroy(xla_error_destroy_t *arguments) { free(arguments->error); }

/* A task runs at once, in the thread that schedules it. */
static inline xla_error_t *frame_schedule(xla_schedule_t *arguments) {
  arguments->task(arguments->data);
  return NULL;
}

static inline xla_error_t *frame_thread_count(xla_thread_count_t *arguments) {
  *arguments->count = 3;
  return NULL;
}

/* What XLA reports on a device: the stream, and the device's number; without a stream, or with a
 * negative number, an error. */
static void *frame_stream;
static int32_t frame_ordinal;

static inline xla_error_t *frame_fail(const char *message) {
  xla_error_create_t create = {.size = sizeof create, .message = message, .code = 13};
  return frame_error_create(&create);
}

static inline xla_error_t *frame_stream_get(xla_stream_get_t *arguments) {
  arguments->stream = frame_stream;
  return frame_stream ? NULL : frame_fail("there is no stream");
}

static inline xla_error_t *frame_ordinal_get(xla_ordinal_get_t *arguments) {
  arguments->ordinal = frame_ordinal;
  return frame_ordinal < 0 ? frame_fail("there is no device") : NULL;
}

static const xla_api_t frame_api = {.size = sizeof(xla_api_t),
                                    .version = {.size = sizeof(xla_version_t), .minor = 3},
                                    .error_create = frame_error_create,
                                    .error_destroy = frame_error_destroy,
                                    .stream_get = frame_stream_get,
                                    .ordinal_get = frame_ordinal_get,
                                    .schedule = frame_schedule,
                                    .thread_count = frame_thread_count};

/* Prepares a frame without buffers. The frame keeps `text`. */
static inline void frame_begin(frame_t *f, const char *text, size_t size) {
  memset(f, 0, sizeof *f);
  f->text = (xla_bytes_t){text, size};
  f->name = (xla_bytes_t){"call", 4};
  f->names[0] = &f->name;
  f->values[0] = &f->text;
  f->kinds[0] = XLA_ATTRIBUTE_STRING;
  f->xla.size = XLA_FRAME_SIZE;
  f->xla.api = &frame_api;
  f->xla.stage = XLA_STAGE_EXECUTE;
  f->xla.attributes =
      (xla_attributes_t){.count = 1, .types = f->kinds, .names = f->names, .items = f->values};
  f->xla.operands = (xla_buffers_t){.types = f->types, .items = f->items};
  f->xla.results = (xla_buffers_t){.types = f->types + FRAME_MOST, .items = f->items + FRAME_MOST};
}

/* Adds an operand or a result over memory of the caller. */
static inline void frame_add(frame_t *f, int is_result, int32_t dtype, int32_t rank,
                             const int64_t *dims, void *data) {
  xla_buffers_t *to = is_result ? &f->xla.results : &f->xla.operands;
  const int64_t at = to->count++ + (is_result ? FRAME_MOST : 0);
  if (rank) memcpy(f->dims[at], dims, (size_t)rank * sizeof *dims);
  f->buffers[at] = (xla_buffer_t){.size = sizeof(xla_buffer_t),
                                  .dtype = dtype,
                                  .data = data,
                                  .rank = rank,
                                  .dims = f->dims[at]};
  f->items[at] = &f->buffers[at];
  f->types[at] = XLA_ARGUMENT_BUFFER;
}

#endif
