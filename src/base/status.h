/* Status codes with messages. Functions return the code; the message of a thread's last failure is
 * kept in the thread's block. Messages are copied, so callers may pass temporary strings. */
#ifndef TN_BASE_STATUS_H
#define TN_BASE_STATUS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <tenon/op.h>

struct tn_thread_t;

/* Sets this thread's message and returns `code`. */
tenon_status_t tn_fail(tenon_status_t code, const char *format, ...) TENON_FORMAT(2, 3);
tenon_status_t tn_fail_list(tenon_status_t code, const char *format, va_list arguments);
/* Prepends text to this thread's message ("node 'x': ") and returns `code`. */
tenon_status_t tn_prefix(tenon_status_t code, const char *format, ...) TENON_FORMAT(2, 3);
/* This thread's message, or "" if there is none. It stays valid until the next failure in this
 * thread. */
const char *tn_error(void);
bool tn_status_exists(tenon_status_t code);
/* When a message is stored, the stack limit of the thread is raised, so that the next call takes
 * the path of calls that are too deep. There it calls tn_error_age, which lowers the limit again
 * and notes that the message is older than the call with this frame. No other call pays. */
void tn_error_age(struct tn_thread_t *thread, uintptr_t frame);
/* Whether this thread's message was stored within the call with this frame, which has failed. */
bool tn_error_is_within(uintptr_t frame);
const char *tn_status_name(tenon_status_t code);
/* Sets the message "out of memory: WHAT" with the requested size; 0 means that the size is unknown.
 * Returns TENON_MEMORY. */
tenon_status_t tn_no_memory(const char *what, size_t size);

#define TN_TRY(call)                                                                               \
  do {                                                                                             \
    tenon_status_t tn_status_ = (call);                                                            \
    if (tn_status_ != TENON_OK) return tn_status_;                                                 \
  } while (0)

#endif
