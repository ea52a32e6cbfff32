/* Plug-ins of devices and their ordinals.  A plug-in is known from the moment its library is there;
 * it looks for hardware when somebody first wants one of its ordinals, and each ordinal is started
 * on first use.  Invariant: an ordinal stays at its address, and its streams and memory stay valid,
 * until its plug-in is removed. */
#ifndef TN_DEVICE_PLUGIN_H
#define TN_DEVICE_PLUGIN_H

#include <stdbool.h>
#include <tenon/device.h>

#include "base/text.h"
#include "base/thread.h"

typedef struct tn_pool_t tn_pool_t; /* pool.h */
typedef struct tenon_stream_t tenon_stream_t;

typedef struct tn_copies_t { /* atomic */
  uint64_t count;
  uint64_t bytes;
} tn_copies_t;

typedef struct tn_ordinal_t {
  tenon_device_context_t context; /* first: plug-ins are given it */
  const tenon_device_table_t *table;
  struct tn_plugin_t *plugin;
  tenon_device_properties_t properties;
  int32_t state;   /* TN_ORDINAL_...; atomic */
  bool is_handles; /* no flat addresses */
  bool has_streams;
  bool has_events;
  int32_t has_several;     /* streams were made beside its first; atomic */
  uint64_t id;             /* no other ordinal of the process had it */
  char *reason;            /* why it does not work */
  tenon_stream_t *first;   /* its own stream */
  tenon_stream_t *streams; /* all of it, used and idle: stream.c, under `lock` */
  tn_pool_t *pool;
  tn_pool_t *pinned;             /* memory.c: the device's memory, and the host's for copies */
  struct tn_program_t *programs; /* program.c */
  struct tn_group_t *groups;     /* group.c */
  tn_copies_t copies[5];         /* by direction */
  tn_mutex_t lock;               /* of the list of streams, and of failures */
} tn_ordinal_t;

enum {
  TN_ORDINAL_NEW = 0,
  TN_ORDINAL_WORKS = 1,
  TN_ORDINAL_FAILED = 2,
  TN_ORDINAL_FORKED = 3,
};

typedef struct tn_plugin_t {
  const tenon_device_table_t *table;
  const char *name;               /* the backend's: lives as long as the process */
  tenon_device_context_t context; /* of enumerate */
  tenon_device_t device;          /* of ordinal 0 */
  int32_t state;                  /* as of ordinals: was enumerate called?; atomic */
  int32_t count;
  char *reason;
  tn_ordinal_t *ordinals;
  struct tn_plugin_t *next;
  tn_mutex_t lock;
} tn_plugin_t;

/* Checks a table: what every plug-in has, groups that are whole.  Appends offences; false when
 * there are any. */
bool tn_device_table_check(const tenon_device_table_t *table, tn_text_t *offences);
/* A plug-in for the backend of that name, whose ordinal i is device {device.type, device.id + i}.
 * EXISTS: there is one. */
tenon_status_t tn_plugin_add(const tenon_device_table_t *table, const char *name,
                             tenon_device_t device, const tenon_host_t *host);
/* Waits for all work, and lets go of it.  Memory that is still held is lost; its tensors can only
 * be released. */
void tn_plugin_remove(const tenon_device_table_t *table);
uint64_t tn_plugin_live(const tenon_device_table_t *table); /* pieces of memory that are held */
uint64_t
tn_plugin_groups(const tenon_device_table_t *table); /* compiled groups that executables hold */
tn_plugin_t *tn_plugin_find(const char *name);       /* NULL: none */
tn_plugin_t *tn_plugin_of(tenon_device_t device);    /* NULL: none */
tn_plugin_t *tn_plugin_next(const tn_plugin_t *of);  /* NULL: the first; gives NULL past the last */
tenon_status_t tn_plugin_open(tn_plugin_t *plugin);  /* enumerates, once */
/* The ordinal, started.  NOT_FOUND: no plug-in, or it has fewer. */
tenon_status_t tn_ordinal_get(tenon_device_t device, tn_ordinal_t **out_ordinal);
/* The same where it is known to have been started, since there is memory of it; NULL: of no
 * plug-in. */
tn_ordinal_t *tn_ordinal_of(tenon_device_t device);
tn_mutex_t *tn_plugins_mutex(void);
/* After a fork: ordinals that their plug-in cannot make usable are lost; what was held of them can
 * only be released. */
void tn_plugins_in_child(void);

static inline void tn_copy_counts(tn_ordinal_t *o, uint32_t direction, uint64_t bytes) {
  __atomic_add_fetch(&o->copies[direction].count, 1, __ATOMIC_RELAXED);
  __atomic_add_fetch(&o->copies[direction].bytes, bytes, __ATOMIC_RELAXED);
}

/* Adds the plug-in of the tree of that name (NULL: all of them), if there is one and it was not
 * added: start.c sets it. */
extern tenon_status_t (*tn_device_builtin)(const char *name);

/* Is the slot there?  Functions past the table's size are absent. */
#define TN_SLOT(table, name) (TENON_HAS(table, name) && (table)->name)

#endif
