/* What the command says about its own failures: lines `tenon: ...` on stderr.  Called by verbs and
 * the option parser; everything below them hands its words up in a text_t. */
#ifndef TOOLS_PRINT_ERROR_H
#define TOOLS_PRINT_ERROR_H

#include "text.h"

/* One line on stderr; gives EXIT_FAILED. */
int print_failure(const char *format, ...) TENON_FORMAT(1, 2);
/* One line on stderr and where to find help; gives EXIT_USAGE. */
int print_usage_error(const char *verb, const char *format, ...) TENON_FORMAT(2, 3);
/* The runtime's last message, after `what` if that is not NULL; gives EXIT_FAILED. */
int print_runtime_error(const char *what);

#endif
