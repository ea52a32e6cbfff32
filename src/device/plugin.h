/* Device plug-ins and their ordinals. A plug-in is known as soon as its library is loaded. It
 * searches for hardware when one of its ordinals is first requested, and each ordinal is started on
 * first use. Invariant: until its plug-in is removed, an ordinal keeps its address, and its streams
 * and memory stay valid. */
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
  tenon_device_context_t context; /* first member: passed to plug-ins */
  const tenon_device_table_t *table;
  struct tn_plugin_t *plugin;
  tenon_device_properties_t properties;
  int32_t state;   /* TN_ORDINAL_...; atomic */
  bool is_handles; /* memory has handles instead of flat addresses */
  bool has_streams;
  bool has_events;
  int32_t has_several;     /* streams were created besides its first; atomic */
  uint64_t id;             /* unique in the process */
  char *reason;            /* why it does not work */
  tenon_stream_t *first;   /* default stream */
  tenon_stream_t *streams; /* all streams, used and idle; stream.c, protected by `lock` */
  tn_pool_t *pool;
  tn_pool_t *pinned;             /* memory.c: device memory, and host memory for copies */
  struct tn_program_t *programs; /* program.c */
  struct tn_group_t *groups;     /* group.c */
  struct tenon_event_t *events;  /* event.c */
  tn_copies_t copies[5];         /* by direction */
  tn_mutex_t lock;               /* protects the list of streams and their failures */
} tn_ordinal_t;

enum {
  TN_ORDINAL_NEW = 0,
  TN_ORDINAL_WORKS = 1,
  TN_ORDINAL_FAILED = 2,
  TN_ORDINAL_FORKED = 3,
};

typedef struct tn_plugin_t {
  const tenon_device_table_t *table;
  const char *name;               /* the backend's name, which lives as long as the process */
  tenon_device_context_t context; /* passed to enumerate */
  tenon_device_t device;          /* of ordinal 0 */
  int32_t state;                  /* as for ordinals: whether enumerate was called; atomic */
  int32_t count;
  char *reason;
  tn_ordinal_t *ordinals;
  struct tn_plugin_t *next;
  tn_mutex_t lock;
} tn_plugin_t;

/* Checks that a table has all mandatory functions and complete groups of optional functions.
 * Appends one line for each problem. Returns: false if there is one. */
bool tn_device_table_check(const tenon_device_table_t *table, tn_text_t *offences);
/* Adds a plug-in for the backend of that name. Its ordinal i is device {device.type, device.id +
 * i}. Errors: EXISTS if the backend has a plug-in. */
tenon_status_t tn_plugin_add(const tenon_device_table_t *table, const char *name,
                             tenon_device_t device, const tenon_host_t *host);
/* Waits for all work and removes the plug-in. Memory that is still in use is lost, and its tensors
 * can only be released. */
void tn_plugin_remove(const tenon_device_table_t *table);
uint64_t tn_plugin_live(const tenon_device_table_t *table); /* pieces of memory in use */
uint64_t
tn_plugin_groups(const tenon_device_table_t *table); /* compiled groups that executables hold */
tn_plugin_t *tn_plugin_find(const char *name);       /* NULL: none */
tn_plugin_t *tn_plugin_of(tenon_device_t device);    /* NULL: none */
/* NULL: returns the first; after the last returns NULL */
tn_plugin_t *tn_plugin_next(const tn_plugin_t *of);
tenon_status_t tn_plugin_open(tn_plugin_t *plugin); /* calls enumerate once */
/* Returns the ordinal, started. Errors: NOT_FOUND if there is no plug-in or no such ordinal. */
/* Completes a failure of `function` of the ordinal's table ("allocate"), which may have no reason
 * or a status that does not exist. `errors` is tn_error_count() before the function was called. */
tenon_status_t tn_ordinal_complete(const tn_ordinal_t *ordinal, uint64_t errors,
                                   const char *function, tenon_status_t status);
tenon_status_t tn_ordinal_get(tenon_device_t device, tn_ordinal_t **out_ordinal);
/* The same for an ordinal that is known to have been started, because memory of it exists. Returns:
 * NULL if it belongs to no plug-in. */
tn_ordinal_t *tn_ordinal_of(tenon_device_t device);
tn_mutex_t *tn_plugins_mutex(void);
/* In a child after fork(). An ordinal that its plug-in cannot make usable is lost, and what was
 * held of it can only be released. */
void tn_plugins_in_child(void);

static inline void tn_copy_counts(tn_ordinal_t *o, uint32_t direction, uint64_t bytes) {
  __atomic_add_fetch(&o->copies[direction].count, 1, __ATOMIC_RELAXED);
  __atomic_add_fetch(&o->copies[direction].bytes, bytes, __ATOMIC_RELAXED);
}

/* Adds the built-in plug-in of that name (NULL: all of them) if it exists and was not added before.
 * Set by start.c. */
extern tenon_status_t (*tn_device_builtin)(const char *name);

/* Does the table have this function? Functions beyond the table's size are absent. */
#define TN_SLOT(table, name) (TENON_HAS(table, name) && (table)->name)

#endif
