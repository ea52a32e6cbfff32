/* The registry: libraries and their operators by name.  Adding is all or nothing: everything is
 * parsed, checked and resolved first, every offence is collected, then the names are published.
 * One mutex guards it; calls never take it. */
#ifndef TN_DISPATCH_REGISTRY_H
#define TN_DISPATCH_REGISTRY_H

#include <tenon/bridge.h>

#include "base/text.h"
#include "base/trust.h"
#include "device/plugin.h"
#include "dispatch/op.h"

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

/* Kernels that are there already: libraries may take their place, programs say whether they mean
 * it. */
enum {
  TN_OVERRIDE_MAY,
  TN_OVERRIDE_NEVER,
  TN_OVERRIDE_MUST,
  TN_ADD_UNLOADABLE = 16,
  TN_ADD_ISOLATED = 32,
};

/* Gives a descriptor to take in the place of one that is to be added; NULL: none.  The checker of
 * operators sets it. */
extern const tenon_descriptor_t *(*tn_registry_around)(const tenon_descriptor_t *descriptor);
/* Builds and publishes the library of a descriptor that the loader has verified (size, major
 * version, layout, features) or that is linked in (verified here too).  Offences are appended to
 * `offences`, one line each, and INVALID (or the code of the only one) is returned with nothing
 * registered.  `path` "" when linked in. */
tenon_status_t tn_registry_add(const tenon_descriptor_t *descriptor, const char *path,
                               void *context, tenon_free_fn destroy, int flags, tn_text_t *offences,
                               tn_library_t **out_library);
/* Puts a library that was read anew in the place of the newest generation of another, all of it or
 * nothing (reload.c). */
tenon_status_t tn_registry_replace(tn_library_t *old, const tenon_descriptor_t *descriptor,
                                   const char *path, tn_text_t *offences,
                                   tn_library_t **out_library);
/* The generation that is in use. */
static inline tn_library_t *tn_library_now(const tn_library_t *library) {
  return __atomic_load_n(&library->first->newest, __ATOMIC_ACQUIRE);
}
/* How many reloads there were: what was prepared before the last one may be of an older
 * generation. */
uint64_t tn_registry_reloads(void);
/* Unloads an unloadable library whose only holder is the caller: takes that reference, or says who
 * holds it. */
tenon_status_t tn_registry_unload(tn_library_t *library);
/* Takes the library's kernels out of the tables, and its names; what it was made of stays until
 * shutdown.  False: without memory nothing was done. */
bool tn_registry_undo(tn_library_t *library);
/* Operators that it adds kernels to, and those that are not there yet (may be NULL). */
int32_t tn_registry_extended(const tn_library_t *library, int32_t *out_waiting);
/* A line for each extension whose operator is not there, or whose kernels did not fit it. */
void tn_registry_dangling(tn_text_t *text);
/* Checks the head of a descriptor: sizes, version, layout, features, name.  Appends offences; false
 * when there are any. */
bool tn_descriptor_check(const tenon_descriptor_t *descriptor, tn_text_t *offences);
/* Gives a reference back (tn_registry_add gives the first).  With the last one an unloadable
 * library that nothing uses is closed; one that is used goes when that ends, any other at shutdown
 * (or now, if shutdown was before). */
void tn_registry_release(tn_library_t *library);
/* A bound call, a graph, or a plan with kernels of the library uses it from here to there. */
void tn_registry_use(const tn_library_t *library);
void tn_registry_unuse(const tn_library_t *library);
/* Library with that path (as the loader gave it) with one more reference, or NULL. */
tn_library_t *tn_registry_library(const char *path);
/* The bridges among the libraries, in the order in which they came; NULL past the last. */
const tenon_bridge_table_t *tn_registry_bridge(size_t index);
/* Shows the libraries in the order in which they came, with the mutex held, until visit says
 * false. */
void tn_registry_walk(bool (*visit)(void *context, tn_library_t *library), void *context);
/* For whoever walks the kernels of an operator outside a call: libraries come and go. */
void tn_registry_lock(void);
void tn_registry_unlock(void);
tn_mutex_t *tn_registry_mutex(void);
const tenon_op_t *tn_registry_find(const char *name);
tenon_status_t tn_registry_list(const tenon_op_t *const **out_ops, int32_t *out_count);
/* Appends ", did you mean 'x'?" and what libraries are there, for a name that was not found. */
void tn_registry_suggest(const char *name, tn_text_t *text);
void tn_registry_clear(void); /* at shutdown: every library, in reverse order */

#endif
