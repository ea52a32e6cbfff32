/* Status codes with a text: the text of the last failure lives in the thread's block, the code
 * travels by return. Everything in Tenon that can fail ends here; messages are copied, so callers
 * may pass temporary strings. */
#ifndef TN_BASE_STATUS_H
#define TN_BASE_STATUS_H

#include <stdarg.h>
#include <tenon/op.h>

/* Sets this thread's message and returns `code`. */
tenon_status_t tn_fail(tenon_status_t code, const char *format, ...) TENON_FORMAT(2, 3);
tenon_status_t tn_fail_list(tenon_status_t code, const char *format, va_list arguments);
/* Puts text in front of this thread's message ("node 'x': "); returns `code`. */
tenon_status_t tn_prefix(tenon_status_t code, const char *format, ...) TENON_FORMAT(2, 3);
/* This thread's message, "" if there is none; valid until the next failure in this thread. */
const char *tn_error(void);
const char *tn_status_name(tenon_status_t code);
/* "out of memory: WHAT" with the size asked for; 0: it is not known. */
tenon_status_t tn_no_memory(const char *what, size_t size);

#define TN_TRY(call)                                                                               \
  do {                                                                                             \
    tenon_status_t tn_status_ = (call);                                                            \
    if (tn_status_ != TENON_OK) return tn_status_;                                                 \
  } while (0)

#endif
