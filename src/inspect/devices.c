/* The text that `tenon devices` prints, and the number of devices of a backend. */
#include <inttypes.h>
#include <tenon/tenon.h>

#include "base/status.h"
#include "core/dtype.h"
#include "device/group.h"
#include "device/memory.h"
#include "device/program.h"

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

tenon_status_t tenon_device_count(const char *backend, int32_t *out_count) {
  tenon_device_t device;
  TN_TRY(tenon_device_find(backend, 0, &device));
  tn_plugin_t *p = tn_plugin_of(device);
  if (!p) return tn_fail(TENON_NOT_FOUND, "backend %s has no plug-in", backend);
  *out_count = p->count;
  return TENON_OK;
}
