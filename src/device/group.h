/* Groups of a graph's nodes that a plug-in compiled: from the cache of files where it has them.
 * Called by the graph's compiler and by runs.  Invariant: a group outlives neither its ordinal nor
 * who made it; the other one finds it gone. */
#ifndef TN_DEVICE_GROUP_H
#define TN_DEVICE_GROUP_H

#include "device/stream.h"

typedef struct tn_group_t {
  struct tn_group_t *before;
  struct tn_group_t *after; /* of the ordinal, under a lock of group.c */
  tenon_device_t device;
  tn_ordinal_t *ordinal; /* NULL: it has stopped, and the plug-in's group with it */
  void *native;
  char *name; /* for messages: "group 2 (core::matmul 'a', ...)" */
} tn_group_t;

/* Loads or compiles; settings "" for none; the name is copied. */
tenon_status_t tn_group_create(tn_ordinal_t *ordinal, const tenon_graph_view_t *view,
                               const char *settings, const char *name, tn_group_t **out_group);
void tn_group_release(tn_group_t *group); /* NULL is fine */
void tn_groups_release(tn_ordinal_t *ordinal);
uint64_t tn_groups_count(const tn_ordinal_t *ordinal);
void tn_groups_in_child(void);
/* Compiled, and taken from files: of the process. */
typedef struct tn_group_counts_t {
  uint64_t compiled;
  uint64_t read;
} tn_group_counts_t;
extern tn_group_counts_t tn_group_counts;

#endif
