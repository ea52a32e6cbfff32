/* Failure messages: each thread's block holds one growing buffer. Every layer calls these
 * functions. They never fail: when memory runs out a message is truncated. */
#include "base/status.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/thread.h"

/* Raises the stack limit, so that the next call notes that the message is older (tn_error_age). A
 * block that several threads share has no such limit. */
static void mark_message(tn_thread_t *thread) {
  thread->error_count++;
  thread->error_frame = (uintptr_t)__builtin_frame_address(0);
  if (!thread->is_shared) thread->stack_limit = UINTPTR_MAX;
}

void tn_error_age(tn_thread_t *thread, uintptr_t frame) {
  if (thread->stack_limit != UINTPTR_MAX) return;
  thread->stack_limit = thread->stack_limit_found;
  thread->aged_count = thread->error_count;
  thread->aged_frame = frame;
}

/* A message that is not newer than the last call that aged it is stale, unless both lie deeper in
 * the stack than `frame`: then that call ran within the call of `frame`, after the failure. */
bool tn_error_is_within(uintptr_t frame) {
  const tn_thread_t *thread = tn_thread();
  if (!thread->error_count) return false;
  if (thread->is_shared || thread->error_count != thread->aged_count) return true;
  return thread->error_frame < frame && thread->aged_frame < frame;
}

static void store_message(tn_thread_t *thread, const char *format, va_list arguments) {
  mark_message(thread);
  va_list again;
  va_copy(again, arguments);
  int need = vsnprintf(NULL, 0, format, again);
  va_end(again);
  if (need < 0) need = 0;
  size_t size = (size_t)need + 1;
  /* a new buffer, because an argument may point into the old message */
  char *text = tn_allocate(size);
  if (!text) {
    char cut[sizeof thread->short_error];
    vsnprintf(cut, sizeof cut, format, arguments);
    memcpy(thread->short_error, cut, sizeof cut);
    tn_release_memory(thread->error);
    thread->error = NULL;
    return;
  }
  vsnprintf(text, size, format, arguments);
  tn_release_memory(thread->error);
  thread->error = text;
}

tenon_status_t tn_fail_list(tenon_status_t code, const char *format, va_list arguments) {
  store_message(tn_thread(), format, arguments);
  return code;
}

tenon_status_t tn_fail(tenon_status_t code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  store_message(tn_thread(), format, arguments);
  va_end(arguments);
  return code;
}

tenon_status_t tn_prefix(tenon_status_t code, const char *format, ...) {
  char prefix[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(prefix, sizeof prefix, format, arguments);
  va_end(arguments);
  return tn_fail(code, "%s%s", prefix, tn_error());
}

const char *tn_error(void) {
  const tn_thread_t *thread = tn_thread();
  return thread->error ? thread->error : thread->short_error;
}

tenon_status_t tn_no_memory(const char *what, size_t size) {
  if (!size) return tn_fail(TENON_MEMORY, "out of memory: %s", what);
  const uint64_t limit = tn_aligned_limit();
  const uint64_t used = tn_aligned_bytes();
  /* A block is rounded up to TN_ALIGNMENT and has a head of twice as much. */
  if (used < limit && size < limit - used && limit - used - size > 3 * TN_ALIGNMENT)
    return tn_fail(TENON_MEMORY, "out of memory: %s needs %zu bytes", what, size);
  return tn_fail(TENON_MEMORY,
                 "out of memory: %s needs %zu bytes, but tensors have %llu bytes already, and the "
                 "limit is %llu: if that is expected, raise TENON_MEMORY_LIMIT",
                 what, size, (unsigned long long)used, (unsigned long long)limit);
}

bool tn_status_exists(tenon_status_t code) { return code >= TENON_OK && code <= TENON_UNAVAILABLE; }

const char *tn_status_name(tenon_status_t code) {
  static const char *const names[] = {
      "ok",        "cancelled",    "unknown",       "invalid",   "deadline",
      "not found", "exists",       "denied",        "no memory", "precondition",
      "aborted",   "out of range", "unimplemented", "internal",  "unavailable"};
  return tn_status_exists(code) ? names[code] : "unknown status";
}
