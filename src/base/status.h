/* Status codes with messages. Functions return the code; the message of a thread's last failure is
 * kept in the thread's block. Messages are copied, so callers may pass temporary strings. */
#ifndef TN_BASE_STATUS_H
#define TN_BASE_STATUS_H

#include <stdarg.h>
#include <tenon/op.h>

/* Sets this thread's message and returns `code`. */
tenon_status_t tn_fail(tenon_status_t code, const char *format, ...) TENON_FORMAT(2, 3);
tenon_status_t tn_fail_list(tenon_status_t code, const char *format, va_list arguments);
/* Prepends text to this thread's message ("node 'x': ") and returns `code`. */
tenon_status_t tn_prefix(tenon_status_t code, const char *format, ...) TENON_FORMAT(2, 3);
/* This thread's message, or "" if there is none. It stays valid until the next failure in this
 * thread. */
const char *tn_error(void);
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
