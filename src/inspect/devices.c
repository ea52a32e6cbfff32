/* The text that `tenon devices` prints, the number of devices of a backend, and the message for a
 * device that does not exist. */
#include "inspect/devices.h"

#include <inttypes.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/status.h"
#include "core/dtype.h"
#include "core/nearest.h"
#include "device/group.h"
#include "device/memory.h"
#include "device/program.h"
#include "operator/kernel.h"
#include "operator/names.h"

static void add_dtypes(tn_text_t *text, const char *what, const uint32_t *ids) {
  if (!ids) return;
  tn_text_add(text, "    %-12s", what);
  for (int i = 0; i < 64 && ids[i]; i++)
    tn_text_add(text, " %s", tn_dtype_name(tenon_dtype(ids[i])));
  tn_text_add(text, "\n");
}

static void add_ordinal(tn_text_t *text, tn_ordinal_t *o) {
  static const char *const features[] = {"addresses", "host_reads",   "overlaps",
                                         "times",     "wide_atomics", "blames"};
  const tenon_device_properties_t *q = &o->properties;
  tenon_memory_stats_t stats = {.size = sizeof stats};
  tn_text_add(text, "  %s:%d  %s%s%s\n", o->plugin->name, (int)o->context.ordinal, q->name,
              *q->driver ? ", " : "", q->driver);
  if (q->memory) tn_text_add(text, "    memory       %" PRIu64 " MiB\n", q->memory >> 20);
  if (q->units)
    tn_text_add(text, "    units        %u, groups of at most %u\n", q->units, q->group_most);
  tn_text_add(text, "    features    ");
  for (size_t i = 0; i < sizeof features / sizeof *features; i++)
    if (q->features >> i & 1) tn_text_add(text, " %s", features[i]);
  if (o->has_streams) tn_text_add(text, " streams");
  if (o->has_events) tn_text_add(text, " events");
  if (TN_SLOT(o->table, compile)) tn_text_add(text, " compiler");
  tn_text_add(text, "\n");
  add_dtypes(text, "stores", q->stores);
  add_dtypes(text, "computes", q->computes);
  if (tenon_memory_stats(o->context.device, &stats) == TENON_OK)
    tn_text_add(text, "    in use       %" PRIu64 " bytes of %" PRIu64 " that are held\n",
                stats.live_bytes, stats.reserved);
  if (stats.pinned)
    tn_text_add(text, "    pinned       %" PRIu64 " bytes of the host's, for copies\n",
                stats.pinned);
  for (uint32_t d = TENON_COPY_IN; d <= TENON_COPY_PEER; d++) {
    static const char *const names[] = {"", "copied in", "copied out", "copied", "from peers"};
    uint64_t count = __atomic_load_n(&o->copies[d].count, __ATOMIC_RELAXED);
    if (count)
      tn_text_add(text, "    %-12s %" PRIu64 " times, %" PRIu64 " bytes\n", names[d], count,
                  __atomic_load_n(&o->copies[d].bytes, __ATOMIC_RELAXED));
  }
}

/* Returns the free bytes of an ordinal's memory. */
static uint64_t free_memory(tn_ordinal_t *o) {
  uint64_t bytes = 0;
  tenon_memory_stats_t stats = {.size = sizeof stats};
  bool is_reported =
      TN_SLOT(o->table, memory_free) && o->table->memory_free(&o->context, &bytes) == TENON_OK;
  if (is_reported) return bytes;
  if (tenon_memory_stats(o->context.device, &stats) != TENON_OK) return 0;
  return o->properties.memory > stats.reserved ? o->properties.memory - stats.reserved : 0;
}

tenon_status_t tenon_device_info(tenon_device_t device, tenon_device_info_t *info) {
  tn_ordinal_t *o;
  TN_TRY(tenon_start());
  TN_TRY(tn_ordinal_get(device, &o));
  if (!TENON_HAS(info, has_events))
    return tn_fail(TENON_INVALID, "tenon_device_info_t of %u bytes: expected at least %zu",
                   info->size, sizeof *info);
  const tenon_device_properties_t *q = &o->properties;
  const uint32_t size = info->size;
  *info = (tenon_device_info_t){.size = size,
                                .features = q->features,
                                .backend = o->plugin->name,
                                .name = q->name,
                                .driver = q->driver,
                                .target = q->target,
                                .memory = q->memory,
                                .memory_free = free_memory(o),
                                .ordinal = o->context.ordinal,
                                .units = q->units,
                                .has_streams = o->has_streams,
                                .has_events = o->has_events};
  return TENON_OK;
}

tenon_status_t tenon_devices(char **out_text) {
  tn_text_t text = {0};
  TN_TRY(tenon_start());
  TN_TRY(tn_device_builtin(NULL));
  for (tn_plugin_t *p = NULL; (p = tn_plugin_next(p));) {
    if (tn_plugin_open(p) != TENON_OK) {
      tn_text_add(&text, "%s: does not work: %s\n", p->name, p->reason ? p->reason : tn_error());
      continue;
    }
    tn_text_add(&text, "%s: %d %s\n", p->name, (int)p->count, p->count == 1 ? "device" : "devices");
    for (int32_t i = 0; i < p->count; i++) {
      tenon_device_t device = {p->device.type, p->device.id + i};
      tn_ordinal_t *o;
      if (tn_ordinal_get(device, &o) == TENON_OK)
        add_ordinal(&text, o);
      else
        tn_text_add(&text, "  %s:%d  does not work: %s\n", p->name, (int)i, tn_error());
    }
  }
  uint64_t compiled = __atomic_load_n(&tn_program_counts.compiled, __ATOMIC_RELAXED);
  uint64_t read = __atomic_load_n(&tn_program_counts.read, __ATOMIC_RELAXED);
  if (compiled || read)
    tn_text_add(&text, "source kernels: %" PRIu64 " compiled, %" PRIu64 " from files\n", compiled,
                read);
  compiled = __atomic_load_n(&tn_group_counts.compiled, __ATOMIC_RELAXED);
  read = __atomic_load_n(&tn_group_counts.read, __ATOMIC_RELAXED);
  if (compiled || read)
    tn_text_add(&text, "offloaded subgraphs: %" PRIu64 " compiled, %" PRIu64 " from files\n",
                compiled, read);
  *out_text = tn_text_take(&text);
  return *out_text ? TENON_OK : TENON_MEMORY;
}

static bool has_kernels(const tn_backend_t *backend) {
  size_t position = 0;
  bool found = false;
  tn_registry_lock();
  for (tenon_op_t *op; !found && (op = tn_registry_next(&position));)
    for (const tn_kernel_t *k = op->kernels; k && !found; k = k->next)
      found = k->backend == backend;
  tn_registry_unlock();
  return found;
}

static bool is_device(const tn_backend_t *backend) {
  return backend == &tn_backend_cpu || backend == &tn_backend_meta ||
         __atomic_load_n(&backend->has_plugin, __ATOMIC_ACQUIRE) ||
         __atomic_load_n(&backend->row, __ATOMIC_ACQUIRE) || has_kernels(backend);
}

tenon_status_t tn_device_check(const tn_backend_t *backend) {
  tn_text_t names = {0};
  tn_nearest_t nearest;
  if (is_device(backend)) return TENON_OK;
  TN_TRY(tn_device_builtin(NULL)); /* names those that are built in */
  tn_nearest_begin(&nearest, backend->name, strlen(backend->name));
  const tn_backend_t *other;
  for (int32_t i = 0; (other = tn_backend_at(i)); i++) {
    if (!is_device(other)) continue;
    tn_text_add(&names, "%s%s", names.size ? ", " : "", other->name);
    tn_nearest_offer(&nearest, other->name);
  }
  tenon_status_t status = tn_fail(TENON_NOT_FOUND, "there is no device '%s'; there are: %s%s",
                                  backend->name, tn_text_get(&names), tn_nearest_say(&nearest));
  tn_text_clear(&names);
  return status;
}

tenon_status_t tenon_device_count(const char *backend, int32_t *out_count) {
  tenon_device_t device;
  TN_TRY(tenon_device_find(backend, 0, &device));
  tn_plugin_t *p = tn_plugin_of(device);
  if (!p) {
    TN_TRY(tn_device_check(tn_backend_of(device)));
    return tn_fail(TENON_NOT_FOUND, "backend %s has no plug-in", backend);
  }
  *out_count = p->count;
  return TENON_OK;
}
