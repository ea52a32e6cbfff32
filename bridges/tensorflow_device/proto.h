/* Fields of the messages of Protocol Buffers that kernels read. */
#ifndef BRIDGES_TENSORFLOW_DEVICE_PROTO_H
#define BRIDGES_TENSORFLOW_DEVICE_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct proto_text_t { /* not terminated by a zero byte */
  const char *data;
  size_t size;
} proto_text_t;

/* Finds a field that holds bytes. Returns false, also for a damaged message, if there is none. */
bool proto_find(const void *message, size_t size, uint32_t field, proto_text_t *out);
#endif
