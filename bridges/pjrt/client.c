/* The plug-in and its clients. A client is made from the option `backend`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

/* ---- functions whose answer never changes ---------------------------------------------------- */

pjrt_error_t *nothing_to_do(void *arguments) {
  (void)arguments;
  return NULL;
}

pjrt_error_t *always_zero(void *arguments) {
  pjrt_number_t *call = arguments;
  call->number = 0;
  return NULL;
}

pjrt_error_t *always_true(void *arguments) {
  pjrt_flag_t *call = arguments;
  call->flag = true;
  return NULL;
}

pjrt_error_t *always_one(void *arguments) {
  pjrt_count_t *call = arguments;
  call->count = 1;
  return NULL;
}

pjrt_error_t *always_none(void *arguments) {
  pjrt_count_t *call = arguments;
  call->count = 0;
  return NULL;
}

pjrt_error_t *always_empty(void *arguments) {
  pjrt_list_t *call = arguments;
  call->items = NULL;
  call->count = 0;
  return NULL;
}

/* ---- the plug-in ----------------------------------------------------------------------------- */

pjrt_error_t *plugin_initialize(void *arguments) {
  (void)arguments;
  return error_of(tenon_start());
}

pjrt_error_t *plugin_attributes(void *arguments) {
  pjrt_plugin_t *call = arguments;
  call->attributes = NULL;
  call->count = 0;
  return NULL;
}

/* ---- making a client ------------------------------------------------------------------------- */

/* Copies the value of the option `backend`. */
static pjrt_error_t *read_options(const pjrt_create_t *call, client_t *client) {
  for (size_t i = 0; i < call->option_count; i++) {
    const pjrt_named_t *option = &call->options[i];
    const int name_size = option->name_size < 100 ? (int)option->name_size : 100;
    if (option->name_size != 7 || memcmp(option->name, "backend", 7) != 0)
      return fail_call(TENON_INVALID,
                       "the plug-in has no option '%.*s': expected `backend`, the name of a "
                       "backend of Tenon",
                       name_size, option->name);
    if (option->type != PJRT_VALUE_STRING || option->value_size >= PLUGIN_NAME_SIZE - 6 ||
        !option->value_size)
      return fail_call(TENON_INVALID,
                       "the option `backend` must be a text of 1 to %d characters, such as `sim`",
                       PLUGIN_NAME_SIZE - 7);
    memcpy(client->backend, option->as.text, option->value_size);
    client->backend[option->value_size] = 0;
  }
  if (!*client->backend)
    return fail_call(TENON_INVALID,
                     "the option `backend` is missing: expected the name of a backend of Tenon, "
                     "such as `sim`");
  return NULL;
}

static tenon_status_t open_client_device(client_t *client, int32_t ordinal) {
  device_t *device = &client->devices[ordinal];
  tenon_device_info_t info = {.size = sizeof info};
  const tenon_status_t status = tenon_device_find(client->backend, ordinal, &device->device);
  if (status != TENON_OK) return status;
  device->client = client;
  device->id = ordinal;
  device->itself = device;
  client->list[ordinal] = device;
  snprintf(device->kind, sizeof device->kind, "%s", client->backend);
  if (device->device.type != 1 && tenon_device_info(device->device, &info) == TENON_OK &&
      *info.name)
    snprintf(device->kind, sizeof device->kind, "%s", info.name);
  snprintf(device->text, sizeof device->text, "TenonDevice(%s:%d)", client->backend, (int)ordinal);
  snprintf(device->memory_text, sizeof device->memory_text, "TenonMemory(%s:%d)", client->backend,
           (int)ordinal);
  return TENON_OK;
}

static tenon_status_t open_devices(client_t *client) {
  int32_t count = 1;
  const bool is_cpu = strcmp(client->backend, "cpu") == 0;
  tenon_status_t status = is_cpu ? TENON_OK : tenon_device_count(client->backend, &count);
  if (status == TENON_OK && count < 1)
    status = tenon_error_set(TENON_UNAVAILABLE, "the backend has no device on this machine");
  if (count > PLUGIN_DEVICES_MOST) count = PLUGIN_DEVICES_MOST;
  for (int32_t i = 0; i < count && status == TENON_OK; i++)
    status = open_client_device(client, i);
  client->device_count = count;
  if (status != TENON_OK || is_cpu) return status;
  status =
      tenon_fallback_add(client->backend, tenon_fallback_cpu, NULL, NULL, 0, &client->fallback);
  return status == TENON_EXISTS ? TENON_OK : status;
}

pjrt_error_t *client_create(void *arguments) {
  pjrt_create_t *call = arguments;
  client_t *client = calloc(1, sizeof *client);
  if (!client) return fail_call(TENON_MEMORY, "out of memory: a client");
  pjrt_error_t *error = read_options(call, client);
  if (!error && open_devices(client) != TENON_OK)
    error =
        fail_call(TENON_UNAVAILABLE, "backend '%s' of Tenon: %s", client->backend, tenon_error());
  if (error) {
    free(client);
    return error;
  }
  snprintf(client->platform, sizeof client->platform, "tenon_%.33s", client->backend);
  snprintf(client->version, sizeof client->version, "Tenon %.20s", tenon_version());
  call->client = client;
  return NULL;
}

pjrt_error_t *client_destroy(void *arguments) {
  const pjrt_object_t *call = arguments;
  client_t *client = call->object;
  if (client && client->fallback) tenon_registration_release(client->fallback);
  free(client);
  return NULL;
}

/* ---- a client -------------------------------------------------------------------------------- */

static void give_text(pjrt_list_t *call, const char *text) {
  call->items = text;
  call->count = strlen(text);
}

pjrt_error_t *client_platform_name(void *arguments) {
  pjrt_list_t *call = arguments;
  const client_t *client = call->object;
  give_text(call, client->platform);
  return NULL;
}

pjrt_error_t *client_platform_version(void *arguments) {
  pjrt_list_t *call = arguments;
  const client_t *client = call->object;
  give_text(call, client->version);
  return NULL;
}

pjrt_error_t *client_devices(void *arguments) {
  pjrt_list_t *call = arguments;
  const client_t *client = call->object;
  call->items = client->list;
  call->count = (size_t)client->device_count;
  return NULL;
}

/* A device is its own memory. */
pjrt_error_t *client_memories(void *arguments) { return client_devices(arguments); }

pjrt_error_t *client_lookup(void *arguments) {
  pjrt_lookup_t *call = arguments;
  client_t *client = call->client;
  if (call->id < 0 || call->id >= client->device_count)
    return fail_call(TENON_NOT_FOUND, "%s has no device %d: expected 0 to %d", client->platform,
                     (int)call->id, (int)client->device_count - 1);
  call->device = &client->devices[call->id];
  return NULL;
}

pjrt_error_t *client_assignment(void *arguments) {
  const pjrt_assignment_t *call = arguments;
  const client_t *client = call->client;
  const int64_t count = (int64_t)call->replicas * call->partitions;
  if (call->replicas < 1 || call->partitions < 1 || count > client->device_count)
    return fail_call(TENON_INVALID, "%d replicas of %d partitions do not fit %d devices",
                     (int)call->replicas, (int)call->partitions, (int)client->device_count);
  if ((size_t)count > call->room)
    return fail_call(TENON_INVALID, "an assignment of %d devices needs as many elements, found %zu",
                     (int)count, call->room);
  for (int32_t i = 0; i < count; i++)
    call->devices[i] = i;
  return NULL;
}

/* A client is also the description of its devices. */
pjrt_error_t *client_topology(void *arguments) {
  pjrt_result_t *call = arguments;
  call->result = call->object;
  return NULL;
}

pjrt_error_t *topology_fingerprint(void *arguments) {
  pjrt_count_t *call = arguments;
  const client_t *client = call->object;
  uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
  for (const char *c = client->platform; *c; c++)
    hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
  call->count = hash + (uint64_t)client->device_count;
  return NULL;
}
