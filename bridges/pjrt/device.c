/* Devices, their descriptions, and their memories. One object is all three. */
#include <string.h>

#include "plugin.h"

static void give_text(pjrt_list_t *call, const char *text) {
  call->items = text;
  call->count = strlen(text);
}

pjrt_error_t *device_id(void *arguments) {
  pjrt_number_t *call = arguments;
  const device_t *device = call->object;
  call->number = device->id;
  return NULL;
}

pjrt_error_t *memory_id(void *arguments) { return device_id(arguments); }

pjrt_error_t *device_description(void *arguments) {
  pjrt_counted_t *call = arguments;
  call->count = 0;
  call->items = NULL;
  return NULL;
}

pjrt_error_t *device_kind(void *arguments) {
  pjrt_list_t *call = arguments;
  const device_t *device = call->object;
  give_text(call, device->kind);
  return NULL;
}

pjrt_error_t *device_text(void *arguments) {
  pjrt_list_t *call = arguments;
  const device_t *device = call->object;
  give_text(call, device->text);
  return NULL;
}

pjrt_error_t *device_itself(void *arguments) {
  pjrt_result_t *call = arguments;
  call->result = call->object;
  return NULL;
}

pjrt_error_t *device_memory(void *arguments) { return device_itself(arguments); }

static pjrt_error_t *give_itself(pjrt_list_t *call) {
  device_t *device = call->object;
  call->items = &device->itself;
  call->count = 1;
  return NULL;
}

pjrt_error_t *device_memories(void *arguments) { return give_itself(arguments); }
pjrt_error_t *memory_devices(void *arguments) { return give_itself(arguments); }

pjrt_error_t *memory_kind(void *arguments) {
  pjrt_list_t *call = arguments;
  give_text(call, "device");
  return NULL;
}

pjrt_error_t *memory_text(void *arguments) {
  pjrt_list_t *call = arguments;
  const device_t *device = call->object;
  give_text(call, device->memory_text);
  return NULL;
}

pjrt_error_t *device_memory_stats(void *arguments) {
  pjrt_memory_stats_t *call = arguments;
  const device_t *device = call->device;
  tenon_memory_stats_t stats = {.size = sizeof stats};
  const tenon_status_t status = tenon_memory_stats(device->device, &stats);
  if (status != TENON_OK) return error_of(status);
  call->bytes_in_use = (int64_t)stats.live_bytes;
  call->peak_bytes_in_use = (pjrt_statistic_t){(int64_t)stats.live_bytes_peak, true};
  call->allocations = (pjrt_statistic_t){(int64_t)stats.allocations, true};
  call->largest_allocation.is_set = false;
  call->bytes_limit.is_set = false;
  for (size_t i = 0; i < sizeof call->others / sizeof *call->others; i++) {
    bool *is_set = &call->others[i].is_set;
    if ((size_t)((char *)(is_set + 1) - (char *)call) <= call->size) *is_set = false;
  }
  return NULL;
}

/* Nothing is tracked: work is complete when a function returns. */
pjrt_error_t *device_tracking(void *arguments) {
  pjrt_tracking_t *call = arguments;
  call->event = NULL;
  return NULL;
}

static void release_nothing(void *owner) { (void)owner; }

pjrt_error_t *device_attributes(void *arguments) {
  pjrt_attributes_t *call = arguments;
  call->attributes = NULL;
  call->count = 0;
  call->owner = NULL;
  call->release = release_nothing;
  return NULL;
}
