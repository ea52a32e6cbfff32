/* The smallest host of a device: it keeps the message of the last failure, opens the ordinals of a
 * table, and copies bytes in and out. Include it before check.h, whose checks print that
 * message. */
#ifndef TENON_TESTS_DEVICES_HOST_H
#define TENON_TESTS_DEVICES_HOST_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/device.h>
#include <unistd.h>

static _Thread_local char host_text[1100];
static inline const char *host_message(void) { return host_text; }
#define CHECK_MESSAGE host_message
#include "check.h"

static inline tenon_status_t host_fail(const void *context, tenon_status_t code, const char *format,
                                       ...) {
  va_list list;
  (void)context;
  va_start(list, format);
  vsnprintf(host_text, sizeof host_text, format, list);
  va_end(list);
  return code;
}

enum { HOST_ORDINALS = 4 };
static const tenon_host_t host_services = {
    .size = sizeof host_services, .abi = TENON_ABI, .fail = host_fail};

typedef struct host_t {
  const tenon_device_table_t *table;
  int32_t count;
  tenon_device_context_t on[HOST_ORDINALS];
} host_t;

static inline const tenon_device_table_t *host_table(const tenon_descriptor_t *library) {
  for (const tenon_item_t *item = library->items; item->tag != TENON_TAG_END; item++)
    if (item->tag == TENON_TAG_DEVICE) return item->text;
  return NULL;
}

static inline tenon_device_context_t host_context(int32_t ordinal, void *plugin,
                                                  const char *settings) {
  return (tenon_device_context_t){.size = sizeof(tenon_device_context_t),
                                  .phase = TENON_PHASE_DEVICE,
                                  .host = &host_services,
                                  .device = {12, ordinal},
                                  .ordinal = ordinal,
                                  .plugin = plugin,
                                  .settings = settings};
}

/* Starts all ordinals; each must be passed to host_close(). */
static inline tenon_status_t host_open(const tenon_descriptor_t *library, const char *settings,
                                       host_t *out) {
  tenon_device_context_t context = host_context(-1, NULL, settings);
  *out = (host_t){.table = host_table(library)};
  TENON_TRY(out->table->enumerate(&context, &out->count));
  for (int32_t i = 0; i < out->count; i++) {
    out->on[i] = host_context(i, context.plugin, settings);
    TENON_TRY(out->table->start(&out->on[i]));
  }
  return TENON_OK;
}

static inline void host_close(host_t *host) {
  for (int32_t i = 0; i < host->count; i++)
    host->table->stop(&host->on[i]);
}

static inline tenon_status_t host_copy(const host_t *host, int32_t ordinal, void *stream,
                                       uint64_t ticket, uint32_t direction, tenon_memory_t to,
                                       tenon_memory_t from, uint64_t bytes) {
  tenon_copy_t copy = {.size = sizeof copy,
                       .direction = direction,
                       .ticket = ticket,
                       .bytes = bytes,
                       .from = from,
                       .to = to};
  if (direction == TENON_COPY_PEER) copy.peer = &host->on[!ordinal];
  return host->table->copy(&host->on[ordinal], stream, &copy);
}

static inline tenon_memory_t host_at(const void *handle, uint64_t offset) {
  return (tenon_memory_t){(void *)(uintptr_t)handle, offset};
}

static inline int64_t
/* The threads of this process; a joined thread may still be counted for a moment. */
host_threads(void) {
  char line[256];
  long long threads = -1;
  FILE *file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "Threads: %lld", &threads) == 1) break;
  if (file) fclose(file);
  return threads;
}

static inline bool host_threads_are(int64_t count) {
  for (int i = 0; i < 5000 && host_threads() != count; i++)
    usleep(1000);
  return host_threads() == count;
}

#endif
