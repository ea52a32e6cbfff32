/* The last error message of this thread, for MXNet's message channel. MXNet reads the channel after
 * each call, on the thread of the call. A new call clears the message, so that no message appears
 * twice. */
#ifndef BRIDGES_MXNET_EXPORTED_MESSAGE_H
#define BRIDGES_MXNET_EXPORTED_MESSAGE_H

#include <stdbool.h>
#include <tenon/op.h>

bool message_set(const char *format, ...) TENON_FORMAT(1, 2); /* returns false */
/* sets the message of libtenon; returns false */
bool message_of_host(void);
void message_clear(void);
const char *message_get(void); /* NULL: there is no message */

#endif
