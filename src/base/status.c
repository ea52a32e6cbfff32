/* Failure messages: each thread's block holds one growing buffer. Every layer calls these
 * functions. They never fail: when memory runs out a message is truncated. */
#include "base/status.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/thread.h"

static void store_message(tn_thread_t *thread, const char *format, va_list arguments) {
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
  return tn_fail(TENON_MEMORY, "out of memory: %s needs %zu bytes", what, size);
}

const char *tn_status_name(tenon_status_t code) {
  static const char *const names[] = {
      "ok",        "cancelled",    "unknown",       "invalid",   "deadline",
      "not found", "exists",       "denied",        "no memory", "precondition",
      "aborted",   "out of range", "unimplemented", "internal",  "unavailable"};
  return code >= 0 && code < (int)(sizeof names / sizeof *names) ? names[code] : "unknown status";
}
