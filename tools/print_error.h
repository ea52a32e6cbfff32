/* Error messages of the command: lines `tenon: ...` on stderr. Called by the verbs and the option
 * parser; all other code returns its messages in a text_t. */
#ifndef TOOLS_PRINT_ERROR_H
#define TOOLS_PRINT_ERROR_H

#include "text.h"

/* Prints one line to stderr. Returns EXIT_FAILED. */
int print_failure(const char *format, ...) TENON_FORMAT(1, 2);
/* Prints one line to stderr and a line that names the help. Returns EXIT_USAGE. */
int print_usage_error(const char *verb, const char *format, ...) TENON_FORMAT(2, 3);
/* Prints the runtime's last error, after `what` unless that is NULL. Returns EXIT_FAILED. */
int print_runtime_error(const char *what);

#endif
