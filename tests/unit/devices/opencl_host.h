/* A host of one device, for tests that drive a plug-in's table directly: it keeps the text of the last failure.
 * Include before check.h. */
#ifndef TENON_TESTS_DEVICES_HOST_H_OPENCL
#define TENON_TESTS_DEVICES_HOST_H_OPENCL

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/device.h>

static _Thread_local char host_text[1100];
static inline const char *host_message(void) { return host_text; }
#define CHECK_MESSAGE host_message

static inline tenon_status_t host_fail(const void *context, tenon_status_t code, const char *format, ...) {
  (void)context;
  va_list list;
  va_start(list, format);
  vsnprintf(host_text, sizeof host_text, format, list);
  va_end(list);
  return code;
}

static const tenon_host_t host_services = {.size = sizeof(tenon_host_t), .abi = TENON_ABI, .fail = host_fail};

/* The table of a library; NULL: it has none. */
static inline const tenon_device_table_t *host_table(const tenon_descriptor_t *library) {
  for (const tenon_item_t *item = library->items; item->tag != TENON_TAG_END; item++)
    if (item->tag == TENON_TAG_DEVICE) return (const tenon_device_table_t *)item->text;
  return NULL;
}

/* The context of an ordinal, or with -1 that of enumerate, not started. */
static inline tenon_device_context_t host_context(const tenon_device_table_t *table, int32_t ordinal, void *plugin) {
  tenon_device_context_t context = {.size = sizeof context,
                                    .phase = TENON_PHASE_DEVICE,
                                    .host = &host_services,
                                    .device = {table->type, ordinal < 0 ? 0 : ordinal},
                                    .ordinal = ordinal,
                                    .plugin = plugin,
                                    .settings = ""};
  return context;
}

/* A sink that keeps what it is given, in memory to be freed. */
typedef struct host_sink_t {
  tenon_sink_t sink;
  void *data;
  uint64_t bytes;
} host_sink_t;

static inline void *host_reserve(tenon_sink_t *sink, uint64_t bytes) {
  host_sink_t *kept = (host_sink_t *)sink;
  kept->bytes = bytes;
  return kept->data = malloc((size_t)bytes);
}

static inline host_sink_t host_sink(void) {
  host_sink_t kept = {{sizeof(tenon_sink_t), 0, host_reserve}, NULL, 0};
  return kept;
}

#endif
