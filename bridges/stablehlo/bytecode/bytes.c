/* Numbers and bounds of MLIR bytecode. Called by all other files of this folder. Invariant: the
 * position never passes the end of the part, and a failure names a section and an offset. */
#include "bytecode/bytes.h"

#include <stdarg.h>
#include <string.h>

#include "base/status.h"

/* failures, memory and depth */

bool bc_failed(const bc_part_t *part) { return part->file->status != TENON_OK; }

void bc_fail(bc_part_t *part, const char *format, ...) {
  va_list arguments;
  if (bc_failed(part)) return;
  va_start(arguments, format);
  (void)tn_fail_list(TENON_INVALID, format, arguments);
  va_end(arguments);
  part->file->status = tn_prefix(
      TENON_INVALID, "byte %zu of the %s: ", (size_t)(part->at - part->begin), part->name);
}

void *bc_take(bc_part_t *part, size_t count, size_t size) {
  if (bc_failed(part)) return NULL;
  void *room = tn_arena_array(part->file->arena, count ? count : 1, size);
  if (!room) part->file->status = tn_no_memory("a program", 0);
  return room;
}

bool bc_enter(bc_part_t *part) {
  if (part->file->depth >= BC_DEPTH_MAX)
    bc_fail(part, "more than %d levels of nesting, which are not supported", BC_DEPTH_MAX);
  part->file->depth++;
  return !bc_failed(part);
}

void bc_leave(bc_part_t *part) { part->file->depth--; }

/* numbers */

size_t bc_left(const bc_part_t *part) {
  return bc_failed(part) ? 0 : (size_t)(part->end - part->at);
}

const uint8_t *bc_bytes(bc_part_t *part, uint64_t size) {
  const uint8_t *at = part->at;
  if (size > bc_left(part)) {
    bc_fail(part, "expected %llu bytes, found %zu: the file is damaged or its end is missing",
            (unsigned long long)size, bc_left(part));
    return NULL;
  }
  if (bc_failed(part)) return NULL;
  part->at += size;
  return at;
}

uint8_t bc_byte(bc_part_t *part) {
  const uint8_t *at = bc_bytes(part, 1);
  return at ? *at : 0;
}

uint64_t bc_number(bc_part_t *part) {
  uint64_t value = 0;
  uint8_t first = part->at < part->end ? *part->at : 0;
  uint32_t size = 1; /* The zero bits below the lowest one count the bytes that follow. */
  while (size < 9 && !(first >> (size - 1) & 1))
    size++;
  if (size == 9) (void)bc_byte(part);
  const uint8_t *at = bc_bytes(part, size == 9 ? 8 : size);
  if (!at) return 0;
  memcpy(&value, at, size == 9 ? 8 : size); /* The machine is little-endian. */
  return size == 9 ? value : value >> size;
}

uint64_t bc_flagged(bc_part_t *part, bool *out_flag) {
  uint64_t value = bc_number(part);
  *out_flag = value & 1;
  return value >> 1;
}

int64_t bc_signed(bc_part_t *part) {
  uint64_t value = bc_number(part);
  return (int64_t)(value >> 1 ^ (0 - (value & 1)));
}

size_t bc_check_count(bc_part_t *part, uint64_t count, const char *what) {
  if (count <= bc_left(part)) return (size_t)count;
  bc_fail(part, "%llu %s cannot be in the %zu bytes that follow: the file is damaged",
          (unsigned long long)count, what, bc_left(part));
  return 0;
}

size_t bc_count(bc_part_t *part, const char *what) {
  return bc_check_count(part, bc_number(part), what);
}

size_t bc_check_index(bc_part_t *part, uint64_t index, size_t count, const char *what) {
  if (index < count && !bc_failed(part)) return (size_t)index;
  bc_fail(part, "expected the number of %s below %zu, found %llu: the file is damaged", what, count,
          (unsigned long long)index);
  return 0;
}

size_t bc_index(bc_part_t *part, size_t count, const char *what) {
  return bc_check_index(part, bc_number(part), count, what);
}

/* bytes */

const uint8_t *bc_blob(bc_part_t *part, size_t *out_size) {
  uint64_t size = bc_number(part);
  const uint8_t *at = bc_bytes(part, size);
  *out_size = at ? (size_t)size : 0;
  return at;
}

void bc_align(bc_part_t *part, uint64_t alignment) {
  if (!alignment || (alignment & (alignment - 1)) || alignment > UINT32_MAX) {
    bc_fail(part, "expected an alignment that is a power of two, found %llu: the file is damaged",
            (unsigned long long)alignment);
    return;
  }
  while (!bc_failed(part) && ((uint64_t)(part->at - part->file->begin) & (alignment - 1)))
    if (bc_byte(part) != 0xCB)
      bc_fail(part, "expected the byte 0xCB, which fills space: the file is damaged");
}

const char *bc_string(bc_part_t *part) {
  size_t index = bc_index(part, part->file->string_count, "a string");
  return bc_failed(part) ? "" : part->file->strings[index].text;
}

bc_part_t bc_part_of(const bc_part_t *part, const uint8_t *at, const uint8_t *end) {
  bc_part_t inner = *part;
  inner.at = at;
  inner.end = end;
  return inner;
}
