/* The handler that XLA calls for every operator, and what it answers when XLA asks about it. */
#include <string.h>

#include "device.h"
#include "site.h"

#define EXPORT __attribute__((visibility("default")))

static xla_error_t *create_error(const xla_frame_t *frame, tenon_status_t status,
                                 const char *message) {
  xla_error_create_t create = {.size = offsetof(xla_error_create_t, code) + sizeof create.code,
                               .message = message,
                               .code = status};
  return frame->api->error_create(&create);
}

/* Answers a query for metadata: every release of JAX from 0.4.32 on accepts version 0.1. */
static bool answer_query(const target_t *target, const xla_frame_t *frame) {
  for (const xla_extension_t *e = frame->extension; e; e = e->next) {
    if (e->type != XLA_EXTENSION_METADATA) continue;
    xla_metadata_t *metadata = ((const xla_metadata_extension_t *)e)->metadata;
    metadata->version.major = 0;
    metadata->version.minor = 1;
    metadata->traits = target->is_captured ? XLA_COMMAND_BUFFER_COMPATIBLE : 0;
    return true;
  }
  return false;
}

/* Returns the attribute "call". The names are sorted, and other attributes are none of ours. */
static const xla_bytes_t *find_text(const xla_frame_t *frame) {
  const xla_attributes_t *attributes = &frame->attributes;
  for (int64_t i = 0; i < attributes->count; i++) {
    const xla_bytes_t *name = attributes->names[i];
    if (name->size == 4 && memcmp(name->data, "call", 4) == 0)
      return attributes->types[i] == XLA_ATTRIBUTE_STRING ? attributes->items[i] : NULL;
  }
  return NULL;
}

static tenon_status_t run_on_cpu(const site_t *site, const char *text, const xla_frame_t *frame) {
  tenon_status_t status = TENON_OK;
  call_threads_t threads;
  if (site_run(site, frame, &status)) return status;
  call_enter_threads(&threads, frame);
  status = call_run(site->call, frame, NULL);
  call_leave_threads(&threads);
  if (status == TENON_OK) site_remember(site, text, frame);
  return status;
}

static tenon_status_t run_on_device(const call_t *call, const target_t *target,
                                    const xla_frame_t *frame) {
  call_device_t device;
  tenon_status_t status = call_enter_device(&device, target, frame);
  if (status != TENON_OK) return status;
  /* The kernels of the backend are known once its device is open. */
  if (target->is_captured) status = call_check_capture(call, target, frame);
  if (status == TENON_OK) status = call_run(call, frame, &device);
  call_leave_device(&device);
  return status;
}

xla_error_t *call_handle(const target_t *target, xla_frame_t *frame) {
  if (answer_query(target, frame)) return NULL;
  if (frame->stage != XLA_STAGE_EXECUTE) return NULL;
  if (frame->size < XLA_FRAME_SIZE)
    return create_error(frame, TENON_PRECONDITION,
                        "this release of XLA is too old for Tenon: use JAX 0.4.32 or later");
  const xla_bytes_t *text = find_text(frame);
  if (!text)
    return create_error(
        frame, TENON_INVALID,
        "the custom call has no string attribute `call`: make such calls with tenon.jax");
  const site_t *site = NULL;
  tenon_status_t status = site_find(text->data, text->size, &site);
  if (status == TENON_OK)
    status = target->backend ? run_on_device(site->call, target, frame)
                             : run_on_cpu(site, text->data, frame);
  return status == TENON_OK ? NULL : create_error(frame, status, tenon_error());
}

/* The handlers. A handler is the custom call's target of the same name without "jax": XLA passes
 * nothing else that would tell them apart. */
#define HANDLER(name, ...)                                                                         \
  EXPORT xla_error_t *name(xla_frame_t *frame);                                                    \
  EXPORT xla_error_t *name(xla_frame_t *frame) {                                                   \
    static const target_t target = {__VA_ARGS__};                                                  \
    return call_handle(&target, frame);                                                            \
  }
HANDLER(tenon_jax_cpu, .backend = NULL)
HANDLER(tenon_jax_cuda, .backend = "cuda")
HANDLER(tenon_jax_cuda_graph, .backend = "cuda", .is_captured = true)
