/* The list of device plug-ins: checking their tables, opening them, and starting their ordinals. */
#include "device/plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "base/memory.h"
#include "base/reason.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/tensor.h"
#include "device/event.h"
#include "device/group.h"
#include "device/instance.h"
#include "device/memory.h"
#include "device/program.h"
#include "device/stream.h"

tenon_status_t (*tn_device_builtin)(const char *name);
/* Protects the list. */
static tn_mutex_t lock = TN_MUTEX_INIT;
static tn_plugin_t *first;

tn_mutex_t *tn_plugins_mutex(void) { return &lock; }

typedef struct table_function_t {
  const char *name;
  uint32_t group; /* 0: mandatory; functions of one group are present together or not at all */
  uint64_t offset;
} table_function_t;
#define TABLE_FUNCTION(group, name)                                                                \
  { #name, group, offsetof(tenon_device_table_t, name) }
static const table_function_t table_functions[] = {TABLE_FUNCTION(0, enumerate),
                                                   TABLE_FUNCTION(0, start),
                                                   TABLE_FUNCTION(0, stop),
                                                   TABLE_FUNCTION(0, properties),
                                                   TABLE_FUNCTION(0, allocate),
                                                   TABLE_FUNCTION(0, free),
                                                   TABLE_FUNCTION(0, copy),
                                                   TABLE_FUNCTION(0, synchronize),
                                                   TABLE_FUNCTION(1, stream_create),
                                                   TABLE_FUNCTION(1, stream_destroy),
                                                   TABLE_FUNCTION(1, stream_query),
                                                   TABLE_FUNCTION(1, stream_synchronize),
                                                   TABLE_FUNCTION(2, event_create),
                                                   TABLE_FUNCTION(2, event_destroy),
                                                   TABLE_FUNCTION(2, event_record),
                                                   TABLE_FUNCTION(2, event_query),
                                                   TABLE_FUNCTION(2, event_synchronize),
                                                   TABLE_FUNCTION(2, stream_wait),
                                                   TABLE_FUNCTION(3, host_allocate),
                                                   TABLE_FUNCTION(3, host_free),
                                                   TABLE_FUNCTION(4, memory_import),
                                                   TABLE_FUNCTION(4, memory_forget),
                                                   TABLE_FUNCTION(5, stream_import),
                                                   TABLE_FUNCTION(5, stream_forget),
                                                   TABLE_FUNCTION(6, compile),
                                                   TABLE_FUNCTION(6, program_load),
                                                   TABLE_FUNCTION(6, program_unload),
                                                   TABLE_FUNCTION(6, kernel_find),
                                                   TABLE_FUNCTION(6, launch),
                                                   TABLE_FUNCTION(7, record_begin),
                                                   TABLE_FUNCTION(7, record_end),
                                                   TABLE_FUNCTION(7, replay),
                                                   TABLE_FUNCTION(7, recording_free),
                                                   TABLE_FUNCTION(8, claim),
                                                   TABLE_FUNCTION(8, group_compile),
                                                   TABLE_FUNCTION(8, group_run),
                                                   TABLE_FUNCTION(8, group_save),
                                                   TABLE_FUNCTION(8, group_load),
                                                   TABLE_FUNCTION(8, group_free)};
enum {
  TABLE_FUNCTIONS = sizeof table_functions / sizeof *table_functions,
  GROUPS = 9,
};

static bool has_function(const tenon_device_table_t *table, const table_function_t *slot) {
  tenon_any_fn function;
  if (table->size < slot->offset + sizeof function) return false;
  memcpy(&function, (const char *)table + slot->offset, sizeof function);
  return function != NULL;
}

bool tn_device_table_check(const tenon_device_table_t *table, tn_text_t *offences) {
  size_t before = offences->size;
  const table_function_t *present[GROUPS] = {NULL};
  if (!table || table->size < offsetof(tenon_device_table_t, stream_create)) {
    tn_text_add(offences, "the table of a device is NULL, or smaller than the mandatory part\n");
    return false;
  }
  if (table->abi >> 16 != TENON_DEVICE_ABI >> 16) {
    tn_text_add(offences, "the table of a device has contract version %u, but this host has %u\n",
                table->abi >> 16, TENON_DEVICE_ABI >> 16);
    return false;
  }
  for (const table_function_t *s = table_functions; s < table_functions + TABLE_FUNCTIONS; s++)
    if (s->group && has_function(table, s)) present[s->group] = s;
  for (const table_function_t *s = table_functions; s < table_functions + TABLE_FUNCTIONS; s++) {
    if (has_function(table, s)) continue;
    if (!s->group)
      tn_text_add(offences, "the table of a device has no function %s, which is mandatory\n",
                  s->name);
    else if (present[s->group])
      tn_text_add(offences,
                  "the table of a device has a function %s but no %s: they are required together\n",
                  present[s->group]->name, s->name);
  }
  return offences->size == before;
}

/* Entries are never removed, so readers need no lock. An entry without a table is skipped, and is
 * used again for the same name. */
static tn_plugin_t *next_entry(const tn_plugin_t *of) {
  return __atomic_load_n(of ? (tn_plugin_t **)(uintptr_t)&of->next : &first, __ATOMIC_ACQUIRE);
}

tn_plugin_t *tn_plugin_next(const tn_plugin_t *of) {
  tn_plugin_t *p = next_entry(of);
  while (p && !__atomic_load_n(&p->table, __ATOMIC_ACQUIRE))
    p = next_entry(p);
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
  while ((p = next_entry(p)) && strcmp(p->name, name) != 0)
    continue;
  bool is_new = !p;
  if (p && p->table)
    status = tn_fail(TENON_EXISTS, "backend %s already has a device plug-in", name);
  else if (!p && !(p = tn_allocate_zero(1, sizeof *p)))
    status = tn_no_memory("a device plug-in", sizeof *p);
  if (status == TENON_OK) {
    if (!is_new) { /* the previous plug-in of this name may still be closing */
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

static tenon_status_t resume_ordinal(tn_ordinal_t *o);

/* Stops the memory of all ordinals before the streams of any, because one ordinal's memory may
 * still use another's streams. */
static void close_plugin(tn_plugin_t *p) {
  for (tn_ordinal_t *o = p->ordinals; o < p->ordinals + p->count; o++) {
    if (o->state == TN_ORDINAL_FORKED) (void)resume_ordinal(o);
    tn_groups_release(o);
    if (o->state == TN_ORDINAL_WORKS) {
      tn_programs_release(o);
      tn_memory_stop(o);
    }
  }
  for (tn_ordinal_t *o = p->ordinals; o < p->ordinals + p->count; o++) {
    tn_events_release(o);
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

static tn_plugin_t *find_by_table(const tenon_device_table_t *table) {
  tn_plugin_t *p = NULL;
  while ((p = tn_plugin_next(p)) && p->table != table)
    continue;
  return p;
}

uint64_t tn_plugin_live(const tenon_device_table_t *table) {
  uint64_t live = 0;
  tn_mutex_lock(&lock);
  const tn_plugin_t *p = find_by_table(table);
  for (int32_t i = 0; p && i < p->count; i++)
    if (p->ordinals[i].state == TN_ORDINAL_WORKS) live += tn_memory_live(&p->ordinals[i]);
  tn_mutex_unlock(&lock);
  return live;
}

uint64_t tn_plugin_groups(const tenon_device_table_t *table) {
  uint64_t count = 0;
  tn_mutex_lock(&lock);
  const tn_plugin_t *p = find_by_table(table);
  for (int32_t i = 0; p && i < p->count; i++)
    count += tn_groups_count(&p->ordinals[i]);
  tn_mutex_unlock(&lock);
  return count;
}

void tn_plugin_remove(const tenon_device_table_t *table) {
  tn_mutex_lock(&lock);
  tn_plugin_t *p = find_by_table(table);
  if (p) __atomic_store_n(&p->table, NULL, __ATOMIC_RELEASE);
  tn_mutex_unlock(&lock);
  if (!p) return;
  /* Not the lock of the list: a plug-in may have locks of its own that it takes around a fork. */
  tn_mutex_lock(&p->lock);
  close_plugin(p);
  tn_mutex_unlock(&p->lock);
}

/* Resets locks that other threads of the parent held. */
static void reset_in_child(tn_ordinal_t *o) {
  if (o->state != TN_ORDINAL_WORKS) return;
  o->lock = (tn_mutex_t)TN_MUTEX_INIT;
  tn_memory_in_child(o);
  o->state = TN_ORDINAL_FORKED;
}

/* Makes the ordinal usable in a child after fork(), on first use. The handler of fork() is too
 * early, because the plug-in may have a handler of its own that runs later. */
static tenon_status_t resume_ordinal(tn_ordinal_t *o) {
  const char *why = "it is lost after a fork: start the process with spawn, or fork before the "
                    "first use of the device";
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
      reset_in_child(&p->ordinals[i]);
  }
}

tenon_status_t tn_ordinal_complete(const tn_ordinal_t *o, uint64_t errors, const char *function,
                                   tenon_status_t status) {
  char name[80];
  if (status == TENON_OK) return status;
  snprintf(name, sizeof name, "device %s:%d", o->plugin->name, (int)o->context.ordinal);
  return tn_reason_complete(status, errors, name, function);
}

/* Keeps the error of this thread as the reason why the plug-in or ordinal does not work. */
static tenon_status_t fail_for_good(tenon_status_t status, int32_t *state, char **reason) {
  *reason = tn_copy_text(tn_error(), strlen(tn_error()));
  __atomic_store_n(state, TN_ORDINAL_FAILED, __ATOMIC_RELEASE);
  return status;
}

static tenon_status_t fail_again(const tn_plugin_t *p, const char *reason) {
  return tn_fail(TENON_UNAVAILABLE, "device %s: %s", p->name,
                 reason ? reason : "it failed to start");
}

static tenon_status_t enumerate_ordinals(tn_plugin_t *p) {
  int32_t count = 0;
  const uint64_t errors = tn_error_count();
  tenon_status_t status = p->table->enumerate(&p->context, &count);
  status = tn_reason_complete(status, errors, "", "enumerate");
  if (status == TENON_OK && (count < 1 || count > 256))
    status =
        tn_fail(TENON_INTERNAL, "its plug-in reports %d ordinals: expected 1 to 256", (int)count);
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
  tenon_status_t status = TENON_OK;
  if (p->state == TN_ORDINAL_FAILED)
    status = fail_again(p, p->reason);
  else if (p->state == TN_ORDINAL_NEW)
    status = enumerate_ordinals(p);
  tn_mutex_unlock(&p->lock);
  return status;
}

static tenon_status_t check_properties(tn_ordinal_t *o) {
  tenon_device_properties_t *q = &o->properties;
  *q = (tenon_device_properties_t){.size = sizeof *q};
  const uint64_t errors = tn_error_count();
  tenon_status_t status = o->table->properties(&o->context, q);
  TN_TRY(tn_reason_complete(status, errors, "", "properties"));
  if (!q->name) q->name = o->plugin->name;
  if (!q->driver) q->driver = "";
  if (!q->target) q->target = "";
  if (q->alignment < 64 || q->alignment & (q->alignment - 1))
    return tn_fail(TENON_INTERNAL,
                   "its properties state alignment %u: expected a power of two of at least 64",
                   q->alignment);
  o->is_handles = !(q->features & TENON_DEVICE_ADDRESSES);
  tn_device_set_handles(o->context.device, o->is_handles);
  return TENON_OK;
}

static tenon_status_t start_ordinal(tn_ordinal_t *o) {
  const uint64_t errors = tn_error_count();
  tenon_status_t status = o->table->start(&o->context);
  status = tn_reason_complete(status, errors, "", "start");
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
    return tn_fail(TENON_NOT_FOUND, "no plug-in provides device (type %d, id %d)", (int)device.type,
                   (int)device.id);
  TN_TRY(tn_plugin_open(p));
  int32_t ordinal = device.id - p->device.id;
  if (ordinal >= p->count)
    return tn_fail(TENON_NOT_FOUND, "device %s:%d does not exist: there %s %d of it", p->name,
                   (int)ordinal, p->count == 1 ? "is" : "are", (int)p->count);
  tn_ordinal_t *o = &p->ordinals[ordinal];
  tenon_status_t status = TENON_OK;
  if (__atomic_load_n(&o->state, __ATOMIC_ACQUIRE) != TN_ORDINAL_WORKS) {
    tn_mutex_lock(&p->lock);
    if (o->state == TN_ORDINAL_FAILED)
      status = fail_again(p, o->reason);
    else if (o->state == TN_ORDINAL_NEW)
      status = start_ordinal(o);
    else if (o->state == TN_ORDINAL_FORKED)
      status = resume_ordinal(o);
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
