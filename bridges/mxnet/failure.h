/* Failures of the bridge: their texts become tenon_error(). */
#ifndef BRIDGES_MXNET_FAILURE_H
#define BRIDGES_MXNET_FAILURE_H

#include <stdarg.h>
#include <tenon/tenon.h>

/* Sets the text of this thread's last failure; gives `status`. */
tenon_status_t mxnet_fail(tenon_status_t status, const char *format, ...) TENON_FORMAT(2, 3);
tenon_status_t mxnet_fail_list(tenon_status_t status, const char *format, va_list arguments);
/* Puts text in front of it. */
tenon_status_t mxnet_prefix(tenon_status_t status, const char *format, ...) TENON_FORMAT(2, 3);
tenon_status_t mxnet_no_memory(const char *what);

#endif
