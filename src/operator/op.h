/* The operator record, made from a library's items.  A call reads only its first two cache lines.
 * registry/definition.c creates it; afterwards it is constant, except for kernels that other
 * libraries add. */
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

/* The gate of an entry whose code belongs to several unloadable libraries. */
enum { TN_GATE_SEVERAL = TN_GATES - 1 };

/* The host's own traits, in bits above those of tenon/op.h. */
/* The operator writes to inputs: its calls have the key of the layer that counts versions. */
#define TN_WRITES TN_KEY(TN_BIT_VIEW)
/* Some attribute has no default. */
#define TN_NEEDS_ATTRS ((uint64_t)1 << 62)
/* The operator has a state. */
#define TN_STATEFUL ((uint64_t)1 << 61)
/* The dtypes and shapes of single tensors determine the outputs, so that tn_match replaces
 * tn_infer. */
#define TN_PLAIN ((uint64_t)1 << 60)

/* Kinds of kernels. */
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
  /* The kernel itself, the driver of its loop, the parent of its stub, or the host's own function.
   * NULL: calls run no function of this kernel (fallthrough, no_fallback). */
  tenon_run_fn run;
  void *context;
  uint8_t kind; /* TN_KIND_... */
  tn_kernel_words_t words;
  /* The backend that words.device names; NULL: all backends, or for SOURCE those that compile. */
  const tn_backend_t *backend;
  tn_loop_t loop;        /* for LOOP and ROW */
  tenon_stub_fn stub;    /* for STUB */
  tenon_node_fn prepare; /* NULL: none */
  tenon_free_fn release;
  const tn_library_t *library;
  uint64_t number; /* number of the registration, counted over the process */
  const char *text;
  struct tn_kernel_t *next; /* list of all kernels of the operator, newest first */
} tn_kernel_t;

/* Which registration an entry resolves to (docs/decisions/0006-dispatcher.md, precedence). */
enum {
  TN_RESOLVED_MISSING,
  /* A kernel for exactly this key, the operator's own fallback, or its fallthrough. */
  TN_RESOLVED_DIRECT,
  TN_RESOLVED_EXPLICIT, /* a composite for every backend, with a gradient of its own */
  TN_RESOLVED_COMPOSITE,
  TN_RESOLVED_AUTOGRAD, /* a kernel for the gradients of all backends */
  TN_RESOLVED_GRADIENT, /* derived from the operator's GRADIENT text */
  TN_RESOLVED_FALLBACK, /* the fallback of the whole backend or layer */
  TN_RESOLVED_FALLTHROUGH,
  TN_RESOLVED_VIEW,   /* infer describes the view: no kernel is needed */
  TN_RESOLVED_META,   /* infer does all that meta tensors need */
  TN_RESOLVED_LAYER,  /* a layer of this host, the same for every operator */
  TN_RESOLVED_DENIED, /* missing, since the operator denies the backend's fallback */
};

/* An entry of a table.  It never changes once it is in a table, so that a call sees all of the old
 * entry or all of the new one. */
struct tn_table_entry_t {
  tenon_run_fn run;
  void *context;
  const tn_kernel_t *only; /* the kernel, if it does not depend on dtypes */
  /* Otherwise the candidates for each dtype, best first. */
  const tn_kernel_t *const *const *by_dtype;
  const tn_kernel_t *denial; /* the kernel whose words deny the backend's fallback; NULL: none */
  /* The keys that concern the operator while this entry is in its table; other keys of a call are
   * ignored. */
  uint64_t mask;
  uint8_t resolved;  /* TN_RESOLVED_... */
  bool is_preferred; /* a fallback that precedes composites */
  /* The gate of the unloadable library whose code the entry runs, TN_GATE_SEVERAL if there are
   * several such libraries, 0 if there are none. */
  uint8_t gate;
  bool is_idle; /* it left the table, no call is behind its gate, and it may be reused */
  /* Links all entries that were made for the operator. An entry is reused when its contents fit
   * again. */
  struct tn_table_entry_t *next;
};

/* Counts the calls for which fallbacks or moved arguments made copies, and the bytes of these
 * copies. */
typedef struct tn_copy_counts_t {
  uint64_t count;
  uint64_t bytes;
} tn_copy_counts_t;

/* The entry of a backend that shares its bit with others. */
typedef struct tn_other_t {
  const tn_backend_t *backend;
  const tn_table_entry_t *entry; /* NULL: the entry of backends without kernels */
  struct tn_other_t *next;
} tn_other_t;

struct tenon_op_t {
  /* First cache line. */
  /* The entry of plain tensors on the CPU. Its mask holds for all calls, so that the entry and the
   * mask change at once. */
  const tn_table_entry_t *cpu;
  const tn_table_entry_t **entries; /* entries of keys that have an index, which counts from 1 */
  /* Entry of backends without one of their own; NULL: their row. */
  const tn_table_entry_t *others;
  const tenon_value_t *defaults;
  const tenon_op_t *const *uses;
  uint32_t input_count;
  uint32_t output_count;
  uint64_t traits;
  /* After a reload: the operator that serves calls, or this one itself if none does. NULL: this one
   * serves. Atomic. */
  const tenon_op_t *successor;
  /* Second cache line. */
  /* For each key its position in `entries`; 0: the key's row, which all operators share. */
  uint8_t index[TN_KEY_COUNT];
  /* Not read by calls of plain tensors. */
  int64_t draws;            /* random numbers that each call draws; -1: infer states them */
  uint64_t born;            /* number of the reload that created the operator; 0: none */
  int64_t graphs;           /* number of graphs that hold the operator; atomic */
  int64_t bounds;           /* number of bound calls that hold it; atomic */
  int32_t dispatch_input;   /* the input whose dtype chooses among the kernels; -1: none */
  uint32_t needs_workspace; /* set once infer has asked for a workspace */
  uint32_t entry_count;
  uint32_t entry_room;
  bool is_view;           /* the outputs are views, which infer describes: no kernel is needed */
  bool is_anywhere;       /* the CPU's entry also serves backends without kernels */
  bool accumulates;       /* some kernel of a backend accumulates */
  tn_table_entry_t *made; /* list of all entries except those in `gone` */
  tn_table_entry_t *gone; /* entries that name kernels of removed libraries */
  uint64_t mask;          /* mask for entries that are made now; guarded by the registry's mutex */
  tn_other_t *other_backends;
  tn_copy_counts_t fallbacks;
  tn_copy_counts_t moves;
  int32_t mixed; /* policy for mixed arguments; 0: the thread's */
  /* The entry for gradients on backends without such an entry of their own; NULL: the layer's
   * row. */
  const tn_table_entry_t *autograd;
  tn_other_t *autograd_backends; /* entries of backends that have another one */
  const char *name;              /* the full name, with its namespace */
  tn_schema_t schema;
  tn_types_t types;
  tn_patterns_t shapes;
  tn_patterns_t sharding;
  tn_reduces_t reduces;
  tn_gradient_t gradient;
  tn_batching_t batching;
  const uint8_t *where; /* TN_INPUT_... of each input; NULL: none */
  const int32_t *reuse; /* the input whose buffer each output may reuse, -1: none */
  const char *doc;
  const char *where_text;
  const char *reuse_text;
  tn_samples_t samples;
  tenon_run_fn reference; /* declared by tenon/check.h; NULL: none */
  tenon_infer_fn infer;
  int32_t body; /* the attribute whose graph determines the outputs; -1: none */
  /* If the operator has a body, `infer` is the host's function, which then calls this one of the
   * library. */
  tenon_infer_fn body_infer;
  tenon_node_fn validate;
  tenon_node_fn create;
  tenon_node_fn prepare;
  tenon_free_fn destroy;
  tenon_free_fn release;
  void *context; /* the library's context for infer, create and so on */
  const char *const *use_names;
  uint32_t use_count;
  int64_t version;
  tn_upgrades_t upgrades;
  tn_kernel_t *kernels;
  const tn_library_t *library;
  tn_mutex_t serial;          /* calls of "serial" kernels hold it */
  struct tn_states_t *states; /* states of unbound calls by attribute values: state.c */
  tn_arena_t arena;
};

/* Read fields of an entry whose gate the call has not passed. At that moment the entry may be
 * reused for other contents (table.c). */
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

/* Returns the operator that serves calls of this one. An operator that has ended, because its
 * library was reloaded with another schema, returns itself: tn_op_has_ended. */
static inline const tenon_op_t *tn_op_now(const tenon_op_t *op) {
  for (const tenon_op_t *next;
       (next = __atomic_load_n(&op->successor, __ATOMIC_ACQUIRE)) && next != op;)
    op = next;
  return op;
}
static inline bool tn_op_has_ended(const tenon_op_t *op) {
  return __atomic_load_n(&op->successor, __ATOMIC_ACQUIRE) == op;
}
/* Returns the error for calls of an operator that has ended. */
tenon_status_t tn_op_ended(const tenon_op_t *op);
static inline uint64_t tn_op_mask(const tenon_op_t *op) {
  return __atomic_load_n(&op->cpu, __ATOMIC_ACQUIRE)->mask & ~TN_KEY(TN_BIT_CAREFUL);
}

#endif
