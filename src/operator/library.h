/* The record of a library: its operators, what it brings beside them, and who holds it. */
#ifndef TN_OPERATOR_LIBRARY_H
#define TN_OPERATOR_LIBRARY_H

#include <tenon/bridge.h>

#include "base/trust.h"
#include "device/plugin.h"
#include "operator/op.h"

enum { TN_LIBRARY_DEVICES = 4 };
/* A library that is reloaded gets another record, a newer generation (reload.c).  Handles of the
 * caller are of the first. */
struct tn_library_t { /* opaque outside as tenon_library_t */
  int64_t references; /* handles of the caller, of all generations, at the first; atomic */
  int64_t users; /* bound calls and graphs, executables' own included; under the registry's mutex */
  struct tn_library_t *first;
  struct tn_library_t
      *newest; /* generations: itself where it was never reloaded; newest: of the first, atomic */
  struct tn_library_t *older; /* the generation before; it stays until the newest goes */
  uint64_t replaced;       /* number of the reload that put another in its place, 0: none; atomic */
  tn_file_identity_t file; /* as it was when it was loaded */
  uint32_t load_flags;     /* TENON_LOAD_..., by which it is loaded anew */
  const char *name;
  const char *version;
  const char *path;
  const char *about;
  const tenon_descriptor_t *descriptor; /* that it was made of, which stays as long */
  uint32_t op_count;
  tenon_op_t **ops;
  uint32_t extension_count; /* kernels added to operators of others */
  struct tn_extension_t *extensions;
  tenon_free_fn close; /* of TENON_OPEN, with its state */
  void *open_state;
  void *context; /* of functions, and what frees it */
  tenon_free_fn destroy;
  bool is_unloadable;
  bool
      /* it runs in a process of its own, and results are made in memory that is shared with that */
      places;
  bool is_stuck; /* could not be taken out of all tables for want of memory: kept until shutdown */
  uint8_t gate;  /* that calls of its code pass while it is unloadable; 0: none */
  void *dynlib;  /* the loader's; NULL when linked in */
  uint32_t device_count; /* plug-ins, and the backends that are theirs */
  const tenon_device_table_t *devices[TN_LIBRARY_DEVICES];
  tn_backend_t *backends[TN_LIBRARY_DEVICES];
  const tenon_bridge_table_t *bridge; /* NULL: it is none */
  uint32_t transform_count;           /* passes and partitioners */
  const struct tn_transform_t *transforms;
  tn_arena_t arena;
};

/* The generation that is in use. */
static inline tn_library_t *tn_library_now(const tn_library_t *library) {
  return __atomic_load_n(&library->first->newest, __ATOMIC_ACQUIRE);
}

#endif
