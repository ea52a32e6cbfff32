/* Groups of graph nodes that a plug-in compiled, or loaded from the file cache, and runs as one.
 * Called by the graph's compiler and by runs. Invariant: when the ordinal stops before its groups
 * are released, they keep NULL in place of it and can only be released. */
#ifndef TN_DEVICE_GROUP_H
#define TN_DEVICE_GROUP_H

#include "device/stream.h"

typedef struct tn_group_t {
  struct tn_group_t *before;
  struct tn_group_t *after; /* list of the ordinal, protected by a lock of group.c */
  tenon_device_t device;
  tn_ordinal_t *ordinal; /* NULL: it has stopped, and the plug-in's group was freed */
  void *native;
  char *name; /* for messages: "group 2 (core::matmul 'a', ...)" */
} tn_group_t;

/* Loads the group from the cache, or compiles it. `settings` is "" for none. `name` is copied. */
tenon_status_t tn_group_create(tn_ordinal_t *ordinal, const tenon_graph_view_t *view,
                               const char *settings, const char *name, tn_group_t **out_group);
void tn_group_release(tn_group_t *group); /* NULL is accepted */
void tn_groups_release(tn_ordinal_t *ordinal);
uint64_t tn_groups_count(const tn_ordinal_t *ordinal);
void tn_groups_in_child(void);
/* How many groups of the process were compiled, and how many were read from files. */
typedef struct tn_group_counts_t {
  uint64_t compiled;
  uint64_t read;
} tn_group_counts_t;
extern tn_group_counts_t tn_group_counts;

#endif
