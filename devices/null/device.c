/* null, the device that does nothing and is always finished at once. The time of a call on it is
 * therefore the host's own time, which benchmarks measure. Handles are distinct invented numbers,
 * each function takes a few instructions, and requests are counted (null.h). Every source in C is
 * accepted by compile. */
#include "plugin.h"

#include <string.h>

null_ordinal_t null_ordinals[NULL_ORDINALS];

static tenon_status_t null_enumerate(tenon_device_context_t *context, int32_t *out_count) {
  context->plugin = null_ordinals;
  *out_count = NULL_ORDINALS;
  return TENON_OK;
}

static tenon_status_t null_start(tenon_device_context_t *context) {
  if (context->ordinal < 0 || context->ordinal >= NULL_ORDINALS)
    return tenon_fail(context, TENON_INVALID, "null: there is no ordinal %d; it has %d",
                      context->ordinal, NULL_ORDINALS);
  null_ordinal_t *ordinal = &null_ordinals[context->ordinal];
  uintptr_t none = 0;
  atomic_compare_exchange_strong(&ordinal->next, &none, (uintptr_t)(context->ordinal + 1) << 56);
  context->state = ordinal;
  return TENON_OK;
}

static void null_stop(tenon_device_context_t *context) { context->state = NULL; }

static tenon_status_t null_properties(tenon_on_t on, tenon_device_properties_t *out) {
  tenon_device_properties_t found = {.size = out->size,
                                     .features = TENON_DEVICE_WIDE_ATOMICS | TENON_DEVICE_OVERLAPS,
                                     .name = "nothing",
                                     .driver = "null 1.0.0",
                                     .target = "null 1",
                                     .memory = NULL_MEMORY,
                                     .alignment = NULL_ALIGNMENT,
                                     .units = 1,
                                     .group_most = 1024,
                                     .languages = 1u << TENON_SOURCE_C,
                                     .local_most = 1 << 16};
  (void)on;
  memcpy(out, &found, out->size < sizeof found ? out->size : sizeof found);
  return TENON_OK;
}

static void *null_native(tenon_on_t on, const char *name, void *stream) {
  (void)stream;
  return strcmp(name, "null") ? NULL : &null_of(on)->counts;
}

static const tenon_device_table_t table = {.size = sizeof table,
                                           .abi = TENON_DEVICE_ABI,
                                           .name = "null",
                                           .type = 12,
                                           .enumerate = null_enumerate,
                                           .start = null_start,
                                           .stop = null_stop,
                                           .properties = null_properties,
                                           .allocate = null_allocate,
                                           .free = null_free,
                                           .copy = null_copy,
                                           .synchronize = null_synchronize,
                                           .stream_create = null_create,
                                           .stream_destroy = null_forget,
                                           .stream_query = null_stream_query,
                                           .stream_synchronize = null_stream_query,
                                           .event_create = null_create,
                                           .event_destroy = null_forget,
                                           .event_record = null_event_record,
                                           .event_query = null_event_query,
                                           .event_synchronize = null_event_query,
                                           .stream_wait = null_stream_wait,
                                           .memory_free = null_memory_left,
                                           .fill = null_fill,
                                           .peers = null_peers,
                                           .host_allocate = null_host_allocate,
                                           .host_free = null_host_free,
                                           .callback = null_callback,
                                           .native = null_native,
                                           .memory_import = null_memory_import,
                                           .memory_forget = null_forget,
                                           .stream_import = null_stream_import,
                                           .stream_forget = null_forget,
                                           .forked = null_synchronize,
                                           .compile = null_compile,
                                           .program_load = null_program_load,
                                           .program_unload = null_forget,
                                           .kernel_find = null_kernel_find,
                                           .launch = null_launch,
                                           .record_begin = null_record_begin,
                                           .record_end = null_record_end,
                                           .replay = null_replay,
                                           .recording_free = null_forget};

/* clang-format off */
TENON_LIBRARY(null, "1.0.0",
  TENON_ABOUT("a device that does nothing, to measure what the host does"),
  TENON_DEVICE(&table))
/* clang-format on */
