/* The list of plug-ins, and how they are opened. */
#include "device/plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "base/memory.h"
#include "base/status.h"
#include "core/tensor.h"
#include "device/group.h"
#include "device/instance.h"
#include "device/memory.h"
#include "device/program.h"
#include "device/stream.h"

tenon_status_t (*tn_device_builtin)(const char *name);
static tn_mutex_t lock = TN_MUTEX_INIT; /* of the list */
static tn_plugin_t *first;

tn_mutex_t *tn_plugins_mutex(void) { return &lock; }

/* tables */

typedef struct slot_t {
  const char *name;
  uint32_t group; /* 0: mandatory; the same number: all or none */
  uint64_t offset;
} slot_t;
#define SLOT(group, name)                                                                          \
  { #name, group, offsetof(tenon_device_table_t, name) }
static const slot_t slots[] = {SLOT(0, enumerate),
                               SLOT(0, start),
                               SLOT(0, stop),
                               SLOT(0, properties),
                               SLOT(0, allocate),
                               SLOT(0, free),
                               SLOT(0, copy),
                               SLOT(0, synchronize),
                               SLOT(1, stream_create),
                               SLOT(1, stream_destroy),
                               SLOT(1, stream_query),
                               SLOT(1, stream_synchronize),
                               SLOT(2, event_create),
                               SLOT(2, event_destroy),
                               SLOT(2, event_record),
                               SLOT(2, event_query),
                               SLOT(2, event_synchronize),
                               SLOT(2, stream_wait),
                               SLOT(3, host_allocate),
                               SLOT(3, host_free),
                               SLOT(4, memory_import),
                               SLOT(4, memory_forget),
                               SLOT(5, stream_import),
                               SLOT(5, stream_forget),
                               SLOT(6, compile),
                               SLOT(6, program_load),
                               SLOT(6, program_unload),
                               SLOT(6, kernel_find),
                               SLOT(6, launch),
                               SLOT(7, record_begin),
                               SLOT(7, record_end),
                               SLOT(7, replay),
                               SLOT(7, recording_free),
                               SLOT(8, claim),
                               SLOT(8, group_compile),
                               SLOT(8, group_run),
                               SLOT(8, group_save),
                               SLOT(8, group_load),
                               SLOT(8, group_free)};
enum {
  SLOTS = sizeof slots / sizeof *slots,
  GROUPS = 9,
};

static bool has(const tenon_device_table_t *table, const slot_t *slot) {
  tenon_any_fn function;
  if (table->size < slot->offset + sizeof function) return false;
  memcpy(&function, (const char *)table + slot->offset, sizeof function);
  return function != NULL;
}

bool tn_device_table_check(const tenon_device_table_t *table, tn_text_t *offences) {
  size_t before = offences->size;
  const slot_t *there[GROUPS] = {NULL};
  if (!table || table->size < offsetof(tenon_device_table_t, stream_create)) {
    tn_text_add(offences,
                "the table of a device is NULL, or smaller than what every plug-in has\n");
    return false;
  }
  if (table->abi >> 16 != TENON_DEVICE_ABI >> 16) {
    tn_text_add(offences, "the table of a device is of contract %u, this host has %u\n",
                table->abi >> 16, TENON_DEVICE_ABI >> 16);
    return false;
  }
  for (const slot_t *s = slots; s < slots + SLOTS; s++)
    if (s->group && has(table, s)) there[s->group] = s;
  for (const slot_t *s = slots; s < slots + SLOTS; s++) {
    if (has(table, s)) continue;
    if (!s->group)
      tn_text_add(offences, "the table of a device has no function %s\n", s->name);
    else if (there[s->group])
      tn_text_add(offences,
                  "the table of a device has a function %s, but no %s: such go together\n",
                  there[s->group]->name, s->name);
  }
  return offences->size == before;
}

/* the list */

/* Entries stay, so that readers need no lock: one whose table is gone is passed by, and taken again
 * for its name. */
static tn_plugin_t *next(const tn_plugin_t *of) {
  return __atomic_load_n(of ? (tn_plugin_t **)(uintptr_t)&of->next : &first, __ATOMIC_ACQUIRE);
}

tn_plugin_t *tn_plugin_next(const tn_plugin_t *of) {
  tn_plugin_t *p = next(of);
  while (p && !__atomic_load_n(&p->table, __ATOMIC_ACQUIRE))
    p = next(p);
  return p;
}

tn_plugin_t *tn_plugin_find(const char *name) {
  tn_plugin_t *p = NULL;
  while ((p = tn_plugin_next(p)) && strcmp(p->name, name) != 0)
    continue;
  return p;
}

tn_plugin_t *tn_plugin_of(tenon_device_t device) {
  tn_plugin_t *p = NULL;
  while ((p = tn_plugin_next(p)))
    if (p->device.type == device.type && device.id >= p->device.id &&
        device.id < p->device.id + 256)
      break;
  return p;
}

static const char *settings_of(const char *name) {
  char variable[300] = "TENON_";
  size_t n = strlen(variable);
  for (; *name && n + 1 < sizeof variable; name++)
    variable[n++] = *name >= 'a' && *name <= 'z' ? (char)(*name - 'a' + 'A') : *name;
  variable[n] = 0;
  const char *text = tn_environment(variable);
  return text ? text : "";
}

tenon_status_t tn_plugin_add(const tenon_device_table_t *table, const char *name,
                             tenon_device_t device, const tenon_host_t *host) {
  tenon_status_t status = TENON_OK;
  tn_plugin_t *p = NULL;
  tn_mutex_lock(&lock);
  while ((p = next(p)) && strcmp(p->name, name) != 0)
    continue;
  bool is_new = !p;
  if (p && p->table)
    status = tn_fail(TENON_EXISTS, "backend %s has a device's plug-in already", name);
  else if (!p && !(p = tn_allocate_zero(1, sizeof *p)))
    status = tn_no_memory("a device's plug-in", sizeof *p);
  if (status == TENON_OK) {
    if (!is_new) { /* one of that name may still be closing */
      tn_mutex_unlock(&lock);
      tn_mutex_lock(&p->lock);
      tn_mutex_unlock(&p->lock);
      tn_mutex_lock(&lock);
    }
    p->name = name;
    p->device = device;
    p->state = TN_ORDINAL_NEW;
    p->context = (tenon_device_context_t){.size = sizeof p->context,
                                          .phase = TENON_PHASE_DEVICE,
                                          .host = host,
                                          .device = device,
                                          .ordinal = -1,
                                          .settings = settings_of(name)};
    __atomic_store_n(&p->table, table, __ATOMIC_RELEASE);
    if (is_new) {
      p->next = first;
      __atomic_store_n(&first, p, __ATOMIC_RELEASE);
    }
  }
  tn_mutex_unlock(&lock);
  return status;
}

static tenon_status_t resume(tn_ordinal_t *o);

/* Memory of all ordinals before the streams of any: one may still use another's. */
static void close_plugin(tn_plugin_t *p) {
  for (tn_ordinal_t *o = p->ordinals; o < p->ordinals + p->count; o++) {
    if (o->state == TN_ORDINAL_FORKED) (void)resume(o);
    tn_groups_release(o);
    if (o->state == TN_ORDINAL_WORKS) {
      tn_programs_release(o);
      tn_memory_stop(o);
    }
  }
  for (tn_ordinal_t *o = p->ordinals; o < p->ordinals + p->count; o++) {
    if (o->state == TN_ORDINAL_WORKS) {
      tn_streams_release(o);
      o->table->stop(&o->context);
    }
    tn_release_memory(o->reason);
  }
  tn_release_memory(p->ordinals);
  tn_release_memory(p->reason);
  p->ordinals = NULL;
  p->reason = NULL;
  p->count = 0;
  p->state = TN_ORDINAL_NEW;
}

static tn_plugin_t *with_table(const tenon_device_table_t *table) {
  tn_plugin_t *p = NULL;
  while ((p = tn_plugin_next(p)) && p->table != table)
    continue;
  return p;
}

uint64_t tn_plugin_live(const tenon_device_table_t *table) {
  uint64_t live = 0;
  tn_mutex_lock(&lock);
  const tn_plugin_t *p = with_table(table);
  for (int32_t i = 0; p && i < p->count; i++)
    if (p->ordinals[i].state == TN_ORDINAL_WORKS) live += tn_memory_live(&p->ordinals[i]);
  tn_mutex_unlock(&lock);
  return live;
}

uint64_t tn_plugin_groups(const tenon_device_table_t *table) {
  uint64_t count = 0;
  tn_mutex_lock(&lock);
  const tn_plugin_t *p = with_table(table);
  for (int32_t i = 0; p && i < p->count; i++)
    count += tn_groups_count(&p->ordinals[i]);
  tn_mutex_unlock(&lock);
  return count;
}

void tn_plugin_remove(const tenon_device_table_t *table) {
  tn_mutex_lock(&lock);
  tn_plugin_t *p = with_table(table);
  if (p) __atomic_store_n(&p->table, NULL, __ATOMIC_RELEASE);
  tn_mutex_unlock(&lock);
  if (!p) return;
  tn_mutex_lock(
      /* not that of the list: a plug-in may have locks of its own, which it takes around a fork */
      &p->lock);
  close_plugin(p);
  tn_mutex_unlock(&p->lock);
}

/* Locks that other threads of the parent held are free. */
static void in_child(tn_ordinal_t *o) {
  if (o->state != TN_ORDINAL_WORKS) return;
  o->lock = (tn_mutex_t)TN_MUTEX_INIT;
  tn_memory_in_child(o);
  o->state = TN_ORDINAL_FORKED;
}

/* On first use in a child, not in the handler of fork: the plug-in may have one of its own, which
 * comes later. */
static tenon_status_t resume(tn_ordinal_t *o) {
  const char *why =
      "it is lost in a child of fork: start the process anew (spawn), or fork before its first use";
  if (TN_SLOT(o->table, forked)) {
    if (o->table->forked(&o->context) == TENON_OK) {
      __atomic_store_n(&o->state, TN_ORDINAL_WORKS, __ATOMIC_RELEASE);
      return TENON_OK;
    }
    why = tn_error();
  }
  o->reason = tn_copy_text(why, strlen(why));
  tn_memory_lose(o);
  o->state = TN_ORDINAL_FAILED;
  return tn_fail(TENON_UNAVAILABLE, "device %s: %s", o->plugin->name,
                 o->reason ? o->reason : "it is lost");
}

void tn_plugins_in_child(void) {
  tn_streams_in_child();
  tn_programs_in_child();
  tn_instances_in_child();
  tn_groups_in_child();
  for (tn_plugin_t *p = NULL; (p = tn_plugin_next(p));) {
    p->lock = (tn_mutex_t)TN_MUTEX_INIT;
    for (int32_t i = 0; i < p->count; i++)
      in_child(&p->ordinals[i]);
  }
}

/* opening */

/* The failure of this thread is kept as the reason why something does not work. */
static tenon_status_t fail_for_good(tenon_status_t status, int32_t *state, char **reason) {
  *reason = tn_copy_text(tn_error(), strlen(tn_error()));
  __atomic_store_n(state, TN_ORDINAL_FAILED, __ATOMIC_RELEASE);
  return status;
}

static tenon_status_t again(const tn_plugin_t *p, const char *reason) {
  return tn_fail(TENON_UNAVAILABLE, "device %s: %s", p->name,
                 reason ? reason : "it failed to start");
}

static tenon_status_t enumerate(tn_plugin_t *p) {
  int32_t count = 0;
  tenon_status_t status = p->table->enumerate(&p->context, &count);
  if (status == TENON_OK && (count < 1 || count > 256))
    status =
        tn_fail(TENON_INTERNAL, "its plug-in counts %d ordinals: expected 1 to 256", (int)count);
  if (status == TENON_OK && !(p->ordinals = tn_allocate_zero((size_t)count, sizeof *p->ordinals)))
    return tn_no_memory("ordinals of a device",
                        (size_t)count * sizeof *p->ordinals); /* may be tried again */
  if (status != TENON_OK) {
    fail_for_good(status, &p->state, &p->reason);
    return tn_prefix(status, "device %s: ", p->name);
  }
  for (int32_t i = 0; i < count; i++) {
    tn_ordinal_t *o = &p->ordinals[i];
    o->context = p->context;
    o->table = p->table;
    o->plugin = p;
    o->context.ordinal = i;
    o->context.device.id = p->device.id + i;
  }
  p->count = count;
  __atomic_store_n(&p->state, TN_ORDINAL_WORKS, __ATOMIC_RELEASE);
  return TENON_OK;
}

tenon_status_t tn_plugin_open(tn_plugin_t *p) {
  if (__atomic_load_n(&p->state, __ATOMIC_ACQUIRE) == TN_ORDINAL_WORKS) return TENON_OK;
  tn_mutex_lock(&p->lock);
  tenon_status_t status = p->state == TN_ORDINAL_FAILED ? again(p, p->reason)
                          : p->state == TN_ORDINAL_NEW  ? enumerate(p)
                                                        : TENON_OK;
  tn_mutex_unlock(&p->lock);
  return status;
}

static tenon_status_t check_properties(tn_ordinal_t *o) {
  tenon_device_properties_t *q = &o->properties;
  *q = (tenon_device_properties_t){.size = sizeof *q};
  TN_TRY(o->table->properties(&o->context, q));
  if (!q->name) q->name = o->plugin->name;
  if (!q->driver) q->driver = "";
  if (!q->target) q->target = "";
  if (q->alignment < 64 || q->alignment & (q->alignment - 1))
    return tn_fail(TENON_INTERNAL,
                   "its properties say alignment %u: expected a power of two of at least 64",
                   q->alignment);
  o->is_handles = !(q->features & TENON_DEVICE_ADDRESSES);
  tn_device_set_handles(o->context.device, o->is_handles);
  return TENON_OK;
}

static tenon_status_t start(tn_ordinal_t *o) {
  tenon_status_t status = o->table->start(&o->context);
  if (status != TENON_OK) {
    fail_for_good(status, &o->state, &o->reason);
    return tn_prefix(status, "device %s:%d: ", o->plugin->name, (int)o->context.ordinal);
  }
  status = check_properties(o);
  if (status == TENON_OK) status = tn_streams_start(o);
  if (status == TENON_OK && (status = tn_memory_start(o)) != TENON_OK) tn_streams_release(o);
  if (status != TENON_OK) {
    o->table->stop(&o->context);
    if (status != TENON_MEMORY) fail_for_good(status, &o->state, &o->reason);
    return tn_prefix(status, "device %s:%d: ", o->plugin->name, (int)o->context.ordinal);
  }
  __atomic_store_n(&o->state, TN_ORDINAL_WORKS, __ATOMIC_RELEASE);
  return TENON_OK;
}

tenon_status_t tn_ordinal_get(tenon_device_t device, tn_ordinal_t **out_ordinal) {
  tn_plugin_t *p = tn_plugin_of(device);
  if (!p)
    return tn_fail(TENON_NOT_FOUND, "device (type %d, id %d) belongs to no plug-in",
                   (int)device.type, (int)device.id);
  TN_TRY(tn_plugin_open(p));
  int32_t ordinal = device.id - p->device.id;
  if (ordinal >= p->count)
    return tn_fail(TENON_NOT_FOUND, "device %s:%d: there %s %d of it", p->name, (int)ordinal,
                   p->count == 1 ? "is" : "are", (int)p->count);
  tn_ordinal_t *o = &p->ordinals[ordinal];
  tenon_status_t status = TENON_OK;
  if (__atomic_load_n(&o->state, __ATOMIC_ACQUIRE) != TN_ORDINAL_WORKS) {
    tn_mutex_lock(&p->lock);
    if (o->state == TN_ORDINAL_FAILED)
      status = again(p, o->reason);
    else if (o->state == TN_ORDINAL_NEW)
      status = start(o);
    else if (o->state == TN_ORDINAL_FORKED)
      status = resume(o);
    tn_mutex_unlock(&p->lock);
  }
  *out_ordinal = o;
  return status;
}

tn_ordinal_t *tn_ordinal_of(tenon_device_t device) {
  tn_plugin_t *p = tn_plugin_of(device);
  int32_t ordinal = p ? device.id - p->device.id : 0;
  if (!p || __atomic_load_n(&p->state, __ATOMIC_ACQUIRE) != TN_ORDINAL_WORKS || ordinal >= p->count)
    return NULL;
  tn_ordinal_t *o = &p->ordinals[ordinal];
  if (__atomic_load_n(&o->state, __ATOMIC_ACQUIRE) == TN_ORDINAL_FORKED)
    (void)tn_ordinal_get(device, &o);
  return __atomic_load_n(&o->state, __ATOMIC_ACQUIRE) == TN_ORDINAL_WORKS ? o : NULL;
}
