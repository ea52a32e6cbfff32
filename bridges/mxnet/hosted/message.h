/* The messages with which libraries explain failures. */
#ifndef BRIDGES_MXNET_MESSAGE_H
#define BRIDGES_MXNET_MESSAGE_H

#include "hosted.h"

/* Appends the messages that the library has reported since the last call to `why`. */
void hosted_messages(hosted_t *library, char *why, size_t capacity);

#endif
