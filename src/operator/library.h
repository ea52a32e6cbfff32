/* The record of a library: its operators, devices, passes and bridges, and who holds it. */
#ifndef TN_OPERATOR_LIBRARY_H
#define TN_OPERATOR_LIBRARY_H

#include <tenon/bridge.h>

#include "base/trust.h"
#include "device/plugin.h"
#include "operator/op.h"

enum { TN_LIBRARY_DEVICES = 4 };
/* A library that is reloaded gets another record, a newer generation (registry/reload.c).  The
 * caller's handles refer to the first generation.  In the public interface the record is the opaque
 * tenon_library_t. */
struct tn_library_t {
  /* The caller's references to all generations, kept in the first one; atomic. */
  int64_t references;
  /* Number of bound calls, graphs and executables; guarded by the registry's mutex. */
  int64_t users;
  struct tn_library_t *first;
  /* Kept in the first generation; itself if it was never reloaded; atomic. */
  struct tn_library_t *newest;
  struct tn_library_t *older; /* the generation before; it stays until the newest goes */
  /* Number of the reload that replaced this generation; 0: none; atomic. */
  uint64_t replaced;
  tn_file_identity_t file; /* identity of the file when it was loaded */
  uint32_t load_flags;     /* TENON_LOAD_..., used again for a reload */
  const char *name;
  const char *version;
  const char *path;
  const char *about;
  const tenon_descriptor_t *descriptor; /* the source of this record; lives as long as it */
  uint32_t op_count;
  tenon_op_t **ops;
  uint32_t extension_count; /* number of kernels that it adds to other libraries' operators */
  struct tn_extension_t *extensions;
  tenon_free_fn close; /* declared with TENON_OPEN; gets open_state */
  void *open_state;
  void *context; /* context of its functions; `destroy` frees it */
  tenon_free_fn destroy;
  bool is_unloadable;
  /* The library runs in a process of its own: outputs are created in memory that both processes
   * share. */
  bool places;
  /* It could not leave all tables, for want of memory, and is kept until shutdown. */
  bool is_stuck;
  /* Calls of its code pass this gate while the library is unloadable; 0: none. */
  uint8_t gate;
  void *dynlib; /* handle of the dynamic loader; NULL: linked in */
  uint32_t device_count;
  const tenon_device_table_t *devices[TN_LIBRARY_DEVICES];
  tn_backend_t *backends[TN_LIBRARY_DEVICES]; /* the backends of those devices */
  const tenon_bridge_table_t *bridge;         /* NULL: the library is no bridge */
  uint32_t transform_count;
  const struct tn_transform_t *transforms; /* passes and partitioners */
  struct tn_rewrite_list_t *rules;         /* rewriting rules (core/rule.h); NULL: none */
  tn_arena_t arena;
};

/* Returns the generation that is in use. */
static inline tn_library_t *tn_library_now(const tn_library_t *library) {
  return __atomic_load_n(&library->first->newest, __ATOMIC_ACQUIRE);
}

#endif
