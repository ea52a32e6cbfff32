/* The operator record: what a library's items became.  The first two cache lines are all that a
 * call reads.  Made by registry.c, constant afterwards except for kernels that other libraries
 * add. */
#ifndef TN_OPERATOR_OP_H
#define TN_OPERATOR_OP_H

#include "base/arena.h"
#include "base/thread.h"
#include "core/declarations.h"
#include "core/gradient.h"
#include "core/pattern.h"
#include "core/samples.h"
#include "core/schema.h"
#include "core/types.h"
#include "core/upgrade.h"
#include "operator/key.h"

typedef struct tn_library_t tn_library_t;

enum { TN_GATE_SEVERAL = TN_GATES - 1 };
/* Traits of ours, beside those of tenon/op.h: it has written inputs, and its calls have the key of
 * the layer that counts; attributes without a default; state; types and shapes of single tensors
 * tell all about its results, so that tn_match does what metas and tn_infer do. */
#define TN_WRITES TN_KEY(TN_BIT_VIEW)
#define TN_NEEDS_ATTRS ((uint64_t)1 << 62)
#define TN_STATEFUL ((uint64_t)1 << 61)
#define TN_PLAIN ((uint64_t)1 << 60)

enum {
  TN_KIND_DEVICE,
  TN_KIND_COMPOSITE,
  TN_KIND_LOOP,
  TN_KIND_ROW,
  TN_KIND_VIEW,
  TN_KIND_STUB,
  TN_KIND_SOURCE,
};

typedef struct tn_loop_t {
  tenon_loop_fn function;
  tn_loop_words_t words;
  void *context;
} tn_loop_t;

typedef struct tn_kernel_t {
  tenon_run_fn
      /* the kernel itself, the driver of its loops, or the parent of its stub; NULL: fallthrough,
       * fallback */
      run;
  void *context;
  uint8_t kind;
  tn_kernel_words_t words;
  const tn_backend_t
      *backend;          /* that words.device names; NULL: of all, of SOURCE those that compile */
  tn_loop_t loop;        /* LOOP, ROW */
  tenon_stub_fn stub;    /* STUB */
  tenon_node_fn prepare; /* NULL: none */
  tenon_free_fn release;
  const tn_library_t *library;
  uint64_t number; /* of the registration, counted over the process */
  const char *text;
  struct tn_kernel_t *next; /* all kernels of the operator, the newest first */
} tn_kernel_t;

/* Why a entry holds what it holds: decisions/0006, precedence. */
enum {
  TN_RESOLVED_MISSING,
  TN_RESOLVED_DIRECT, /* a kernel for just this key, the operator's own fallback, or its fallthrough */
  TN_RESOLVED_EXPLICIT, /* composite for every backend, with a gradient of its own */
  TN_RESOLVED_COMPOSITE,
  TN_RESOLVED_AUTOGRAD, /* the one for all backends' gradients */
  TN_RESOLVED_GRADIENT, /* made of the operator's GRADIENT text */
  TN_RESOLVED_FALLBACK, /* of the whole backend or layer */
  TN_RESOLVED_FALLTHROUGH,
  TN_RESOLVED_VIEW,   /* described by infer: no kernel is needed */
  TN_RESOLVED_META,   /* of infer */
  TN_RESOLVED_LAYER,  /* of this host, for every operator */
  TN_RESOLVED_DENIED, /* missing, and the backend's fallback is denied */
};

struct
    /* what the table leads to: never changed, so that a call sees all of the old one or of the new
     * one */
    tn_table_entry_t {
  tenon_run_fn run;
  void *context;
  const tn_kernel_t *only; /* the kernel that there is, where dtypes do not choose */
  const tn_kernel_t *const *const *by_dtype; /* else for each dtype candidates, best first */
  const tn_kernel_t *denial; /* the words that deny the backend's fallback; NULL: it may serve */
  uint64_t
      /* keys that concern the operator while this entry is in its table: others are not looked at */
      mask;
  uint8_t resolved;  /* TN_RESOLVED_... */
  bool is_preferred; /* a fallback: composites stand behind it */
  uint8_t
      /* of the unloadable library whose code it runs, GATE_SEVERAL of more than one; 0: none */
      gate;
  bool is_idle; /* it is gone, and no call is behind its gate: another may be made of it */
  struct tn_table_entry_t
      *next; /* all that were made for the operator: one is used again when it is right again */
};

typedef struct tn_copy_counts_t { /* of fallbacks, of moved arguments; counted by calls */
  uint64_t count;
  uint64_t bytes;
} tn_copy_counts_t;

typedef struct tn_other_t { /* a backend that shares its bit with others */
  const tn_backend_t *backend;
  const tn_table_entry_t *entry; /* NULL: as of backends without kernels */
  struct tn_other_t *next;
} tn_other_t;

struct tenon_op_t {
  /* line 0 */
  const tn_table_entry_t *
      cpu; /* of plain tensors on the CPU; its mask is that of calls, so that both change at once */
  const tn_table_entry_t **entries; /* of keys with an index, from 1 */
  const tn_table_entry_t *others;   /* of backends without one; NULL: their row */
  const tenon_value_t *defaults;
  const tenon_op_t *const *uses;
  uint32_t input_count;
  uint32_t output_count;
  uint64_t traits;
  const tenon_op_t *
      /* of a reloaded library, atomic: the operator that serves; itself: none does; NULL: this
       * one */
      successor;
  /* line 1 */
  uint8_t index[TN_KEY_COUNT]; /* place in slots, 0: the key's row, which all operators share */
  /* colder */
  int64_t draws; /* of each call; -1: infer says */
  uint64_t born; /* number of the reload that made it; 0: none */
  int64_t graphs;
  int64_t bounds;           /* that have it; atomic */
  int32_t dispatch_input;   /* whose dtype chooses among kernels; -1: none */
  uint32_t needs_workspace; /* set once some infer asked for workspace */
  uint32_t entry_count;
  uint32_t entry_room;
  bool is_view;           /* its results are views, which infer describes: no kernel is needed */
  bool is_anywhere;       /* what the CPU has serves backends without kernels too */
  bool accumulates;       /* some kernel of a backend does */
  tn_table_entry_t *made; /* all slots */
  tn_table_entry_t *gone; /* those of libraries that went */
  uint64_t mask;          /* of those that are made now; under the registry's mutex */
  tn_other_t *other_backends;
  tn_copy_counts_t fallbacks;
  tn_copy_counts_t moves;
  int32_t mixed; /* what calls with arguments in several places do, 0: as the thread says */
  const tn_table_entry_t
      *autograd; /* of gradients on backends without a entry of their own; NULL: the layer's row */
  tn_other_t *autograd_backends; /* where a backend's differs */
  const char *name;              /* full */
  tn_schema_t schema;
  tn_types_t types;
  tn_patterns_t shapes;
  tn_patterns_t sharding;
  tn_reduces_t reduces;
  tn_gradient_t gradient;
  tn_batching_t batching;
  const uint8_t *where; /* TN_INPUT_... of each input, NULL: none */
  const int32_t *reuse; /* input of each result, -1: none */
  const char *doc;
  const char *where_text;
  const char *reuse_text;
  tn_samples_t samples;
  tenon_run_fn reference; /* of tenon/check.h; NULL: none */
  tenon_infer_fn infer;
  int32_t body;              /* the attribute whose graph says what the results are; -1: none */
  tenon_infer_fn body_infer; /* the library's own, after that; `infer` is the host's then */
  tenon_node_fn validate;
  tenon_node_fn create;
  tenon_node_fn prepare;
  tenon_free_fn destroy;
  tenon_free_fn release;
  void *context; /* of the library: infer, create, ... */
  const char *const *use_names;
  uint32_t use_count;
  int64_t version;
  tn_upgrades_t upgrades;
  tn_kernel_t *kernels; /* all */
  const tn_library_t *library;
  tn_mutex_t serial;          /* held by calls of "serial" kernels */
  struct tn_states_t *states; /* of calls without a binding, by attribute values: state.c */
  tn_arena_t arena;
};

/* Of a entry whose gate the call has not passed: it may just become another (table.c). */
static inline void *tn_entry_context(const tn_table_entry_t *entry) {
  return __atomic_load_n(&entry->context, __ATOMIC_RELAXED);
}
static inline tenon_run_fn tn_entry_function(const tn_table_entry_t *entry) {
  return __atomic_load_n(&entry->run, __ATOMIC_RELAXED);
}
static inline bool tn_entry_has_kernels(const tn_table_entry_t *entry) {
  return __atomic_load_n(&entry->only, __ATOMIC_RELAXED) ||
         __atomic_load_n(&entry->by_dtype, __ATOMIC_RELAXED);
}

/* The operator that serves calls of this one.  One that has ended, since its library was reloaded
 * with another schema, gives itself: its calls say so. */
static inline const tenon_op_t *tn_op_now(const tenon_op_t *op) {
  for (const tenon_op_t *next;
       (next = __atomic_load_n(&op->successor, __ATOMIC_ACQUIRE)) && next != op;)
    op = next;
  return op;
}
static inline bool tn_op_has_ended(const tenon_op_t *op) {
  return __atomic_load_n(&op->successor, __ATOMIC_ACQUIRE) == op;
}
tenon_status_t tn_op_ended(const tenon_op_t *op); /* the error of its calls */
static inline uint64_t tn_op_mask(const tenon_op_t *op) {
  return __atomic_load_n(&op->cpu, __ATOMIC_ACQUIRE)->mask & ~TN_KEY(TN_BIT_CAREFUL);
}

#endif
