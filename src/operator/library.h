/* The record of a library: its operators, its devices, passes and bridges, and who holds it. */
#ifndef TN_OPERATOR_LIBRARY_H
#define TN_OPERATOR_LIBRARY_H

#include <tenon/bridge.h>

#include "base/trust.h"
#include "device/plugin.h"
#include "operator/op.h"

enum { TN_LIBRARY_DEVICES = 4 };
/* A library that is reloaded gets another record, a newer generation (registry/reload.c).  The
 * caller's handles refer to the first generation.  Outside it is the opaque tenon_library_t. */
struct tn_library_t {
  int64_t references; /* of the caller to all generations, kept in the first; atomic */
  int64_t users;      /* bound calls, graphs and executables; under the registry's mutex */
  struct tn_library_t *first;
  struct tn_library_t *newest; /* of the first generation, atomic; itself if never reloaded */
  struct tn_library_t *older;  /* the generation before; it stays until the newest goes */
  uint64_t replaced;           /* number of the reload that replaced it, 0: none; atomic */
  tn_file_identity_t file;     /* when it was loaded */
  uint32_t load_flags;         /* TENON_LOAD_..., used again for a reload */
  const char *name;
  const char *version;
  const char *path;
  const char *about;
  const tenon_descriptor_t *descriptor; /* it was made of it; lives as long */
  uint32_t op_count;
  tenon_op_t **ops;
  uint32_t extension_count; /* kernels added to operators of other libraries */
  struct tn_extension_t *extensions;
  tenon_free_fn close; /* of TENON_OPEN, with its state */
  void *open_state;
  void *context; /* of its functions, and what frees it */
  tenon_free_fn destroy;
  bool is_unloadable;
  /* It runs in a process of its own: outputs are created in memory that both processes share. */
  bool places;
  bool is_stuck; /* could not leave all tables for want of memory: kept until shutdown */
  uint8_t gate;  /* that calls of its code pass while it is unloadable; 0: none */
  void *dynlib;  /* the loader's; NULL when linked in */
  uint32_t device_count;
  const tenon_device_table_t *devices[TN_LIBRARY_DEVICES];
  tn_backend_t *backends[TN_LIBRARY_DEVICES]; /* of those devices */
  const tenon_bridge_table_t *bridge;         /* NULL: it is none */
  uint32_t transform_count;
  const struct tn_transform_t *transforms; /* passes and partitioners */
  tn_arena_t arena;
};

/* The generation that is in use. */
static inline tn_library_t *tn_library_now(const tn_library_t *library) {
  return __atomic_load_n(&library->first->newest, __ATOMIC_ACQUIRE);
}

#endif
