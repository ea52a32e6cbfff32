/* Reads the few fields of a serialised CompileOptionsProto that matter: how many replicas and
 * partitions, and the device. The rest tunes XLA's own compiler.
 * Source: the numbers of fields in xla/pjrt/proto/compile_options.proto and xla/xla_data.proto. */
#include <string.h>

#include "plugin.h"

enum { WIRE_NUMBER = 0, WIRE_EIGHT = 1, WIRE_BYTES = 2, WIRE_FOUR = 5 };
enum { OPTIONS_BUILD = 3 };
enum { BUILD_DEVICE = 1, BUILD_REPLICAS = 4, BUILD_PARTITIONS = 5, BUILD_ASSIGNMENT = 9 };
enum { ASSIGNMENT_COMPUTATION = 3, COMPUTATION_DEVICES = 1 };

typedef struct message_t {
  const unsigned char *at;
  const unsigned char *end;
  bool is_damaged;
} message_t;

typedef struct field_t {
  uint64_t number;
  uint64_t kind;  /* WIRE_... */
  uint64_t value; /* WIRE_NUMBER */
  message_t bytes;
} field_t;

static uint64_t read_varint(message_t *message) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && message->at < message->end; shift += 7) {
    const unsigned char byte = *message->at++;
    value |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return value;
  }
  message->is_damaged = true;
  return 0;
}

static void skip_bytes(message_t *message, uint64_t size) {
  if (size > (uint64_t)(message->end - message->at))
    message->is_damaged = true;
  else
    message->at += size;
}

/* Reads the next field; returns false at the end and when the message is damaged. */
static bool read_field(message_t *message, field_t *out_field) {
  if (message->is_damaged || message->at == message->end) return false;
  const uint64_t tag = read_varint(message);
  *out_field = (field_t){.number = tag >> 3, .kind = tag & 7};
  if (out_field->kind == WIRE_NUMBER) {
    out_field->value = read_varint(message);
  } else if (out_field->kind == WIRE_BYTES) {
    const uint64_t size = read_varint(message);
    out_field->bytes.at = message->at;
    skip_bytes(message, size);
    out_field->bytes.end = message->at;
  } else if (out_field->kind == WIRE_EIGHT || out_field->kind == WIRE_FOUR) {
    skip_bytes(message, out_field->kind == WIRE_EIGHT ? 8 : 4);
  } else {
    message->is_damaged = true;
  }
  return !message->is_damaged;
}

static bool find_bytes(message_t message, uint64_t number, message_t *out_bytes) {
  field_t field;
  bool is_found = false;
  while (read_field(&message, &field)) {
    if (field.number != number || field.kind != WIRE_BYTES) continue;
    *out_bytes = field.bytes;
    is_found = true;
  }
  out_bytes->is_damaged |= message.is_damaged;
  return is_found;
}

/* The first device of the first computation. The numbers are packed, or each has a tag. */
static void read_assignment(message_t assignment, options_t *options) {
  message_t computation = {NULL, NULL, false};
  field_t field;
  if (!find_bytes(assignment, ASSIGNMENT_COMPUTATION, &computation)) return;
  while (read_field(&computation, &field)) {
    if (field.number != COMPUTATION_DEVICES) continue;
    if (field.kind == WIRE_NUMBER) options->device = (int64_t)field.value;
    if (field.kind == WIRE_BYTES && field.bytes.at < field.bytes.end)
      options->device = (int64_t)read_varint(&field.bytes);
    return;
  }
}

static bool read_build(message_t build, options_t *options) {
  field_t field;
  while (read_field(&build, &field)) {
    if (field.number == BUILD_REPLICAS) options->replicas = (int64_t)field.value;
    if (field.number == BUILD_PARTITIONS) options->partitions = (int64_t)field.value;
    if (field.number == BUILD_DEVICE && options->device < 0) options->device = (int64_t)field.value;
    if (field.number == BUILD_ASSIGNMENT) read_assignment(field.bytes, options);
  }
  return !build.is_damaged;
}

tenon_status_t options_read(const char *bytes, size_t size, options_t *out_options) {
  const unsigned char *at = (const unsigned char *)bytes;
  message_t message = {at, at + size, false};
  message_t build = {NULL, NULL, false};
  *out_options = (options_t){.replicas = 1, .partitions = 1, .device = -1};
  if (size == 0) return TENON_OK;
  const bool is_found = find_bytes(message, OPTIONS_BUILD, &build);
  if (!build.is_damaged && (!is_found || read_build(build, out_options))) return TENON_OK;
  return tenon_error_set(TENON_INVALID,
                         "the options of a compilation are damaged: expected a serialised "
                         "CompileOptionsProto");
}
