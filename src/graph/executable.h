/* Executables: a compiled graph (constant, shared by threads) and the states of its runs (one
 * thread each, kept for reuse). compile.c makes them, plan.c places one stage of a run in memory,
 * run.c runs it. */
#ifndef TN_GRAPH_EXECUTABLE_H
#define TN_GRAPH_EXECUTABLE_H

#include "base/thread.h"
#include "graph/graph.h"
#include "graph/placement.h"
#include "operator/frame.h"
#include "operator/library.h"
#include "registry/reload.h"

typedef struct tn_step_t { /* a node, with what was made for it once */
  const tn_node_t *node;
  void *state;
  void *plan;
  const tn_kernel_t *prepared; /* the kernel that plan is for */
  bool has_state;
  tenon_free_fn release; /* of plan */
  uint64_t wanted;       /* bit o: result o has a user */
  tn_mutex_t lock;       /* of a "serial" kernel's state */
} tn_step_t;

typedef struct tn_recorded_t { /* recordings of runs: recorded.c */
  const struct tenon_executable_t *executable;
  struct tn_recording_t *idle; /* the one that was used last first */
  char *reason;                /* why there are none; NULL: there may be */
  uint64_t replays;            /* atomic */
  bool was_wanted;
  bool is_on; /* is_on: atomic */
  tn_mutex_t lock;
} tn_recorded_t;

struct tenon_executable_t {
  uint64_t reloads; /* of libraries, that this was compiled after, or known not to need; atomic */
  struct tenon_executable_t
      *renewed; /* compiled after a later one, and runs in its place; under renewal */
  tn_mutex_t renewal;
  tenon_compile_t options; /* as it was compiled; what they point to is in memory */
  tn_arena_t memory;
  int64_t references;          /* atomic */
  const tenon_graph_t *source; /* as imported: its ports */
  tenon_graph_t *graph;        /* rewritten */
  tn_step_t *steps;            /* graph->node_count */
  int32_t *last_use; /* of each edge: the last step that reads it; INT32_MAX: an output; -1: none */
  tn_mutex_t lock;   /* of idle, libraries */
  const tn_library_t *
      *libraries; /* in use, each once: of kernels that others added to the nodes' operators */
  size_t library_count;
  size_t library_capacity;
  struct tn_run_t *idle;     /* states that no run uses now */
  bool is_planned;           /* all on the CPU; else each node is a call: eager.c */
  bool has_gradients;        /* runs make a history: each node is a call */
  tn_placement_t place;      /* of nodes, where runs are not planned */
  tn_recorded_t recorded;    /* runs on a device */
  tenon_tensor_t **placed;   /* constants on homes beside the host: edge * homes + home */
  struct tn_claim_t *claims; /* groups of nodes that devices have claimed: group.h */
  size_t claim_count;
  char *claim_report; /* what became of claims; NULL: nobody was asked */
};

/* where an edge's memory is */
enum {
  TN_PLACE_NONE,
  TN_PLACE_INPUT,
  TN_PLACE_CONSTANT,
  TN_PLACE_KNOWN, /* computed while planning: shapes and what follows from them */
  TN_PLACE_ARENA,
  TN_PLACE_OUTPUT, /* a tensor that the caller gets */
  TN_PLACE_VIEW,   /* in the memory of `root` */
  TN_PLACE_OWN,    /* made by run itself */
};

typedef struct tn_place_t {
  uint8_t where;
  bool is_pending; /* its shape is known after its node ran */
  int32_t root;    /* edge whose memory it is, itself unless VIEW */
  int64_t delta;   /* bytes from there */
  int32_t source;  /* edge whose detail (quantisation) it has: of views and copies; else itself */
  uint32_t layout; /* of a sparse result, which run makes; 0: dense */
  int32_t stage;   /* that places it, -1: none yet */
  tn_tensor_t *tensor; /* header; points to data while a stage runs */
  int32_t room;        /* axes that the header has room for */
  uint64_t offset;
  uint64_t size; /* in the stage's arena */
  int32_t first;
  int32_t last;   /* actions between which it lives */
  int64_t *bound; /* shape to start from, of a pending one in the arena, of a sparse one */
} tn_place_t;

typedef struct tn_action_t { /* a call, or a copy between two edges' headers */
  tn_frame_t frame;
  const tn_kernel_t *kernel; /* NULL: copy inputs[0] to outputs[0] */
  int32_t step;
  bool makes_sparse; /* some result */
  tenon_tensor_t **inputs;
  tenon_tensor_t **outputs;
  uint64_t workspace_offset;
  uint64_t workspace_size;
  int64_t draws;
} tn_action_t;

typedef struct tn_watch_t { /* what a stage's plan depends on */
  int32_t edge;
  uint32_t detail; /* its kind, 0: none */
  int32_t ndim;
  tenon_dtype_t dtype;
  int64_t *shape;
  int64_t *strides;
  int64_t *values; /* contents that infer read, NULL: none */
  uint64_t size;   /* bytes of them; UINT64_MAX: too many to compare, so the plan is made anew */
} tn_watch_t;

typedef struct tn_stage_t {
  int32_t begin;
  int32_t end; /* steps */
  tn_action_t *actions;
  size_t action_count;
  size_t action_capacity;
  tn_watch_t *watches;
  size_t watch_count;
  size_t watch_capacity;
  int32_t *edges; /* placed by this stage, in order; extra headers (dense copies) included */
  size_t placed_count;
  size_t placed_capacity;
  void *arena;
  uint64_t arena_size;
  uint64_t arena_bound; /* bytes used; lower bound: most bytes alive at once */
  tn_arena_t memory;    /* of the arrays above that grow only while planning */
} tn_stage_t;

typedef struct tn_run_t {
  struct tn_run_t *next;
  tenon_executable_t *executable;
  tn_place_t *places; /* edge_count, then extra ones: dense copies */
  size_t place_count;
  size_t place_capacity;
  tn_stage_t *stages;
  size_t stage_count;
  size_t stage_capacity;
  tn_arena_t arena;
} tn_run_t;

/* Keeps options for renew.c. */
tenon_status_t tn_executable_keep(tenon_executable_t *executable, const tenon_compile_t *options);
/* What to run: the executable itself, or, after a library of its operators was reloaded, one that
 * is compiled anew.  The caller releases it. */
tenon_status_t tn_executable_current(tenon_executable_t *executable,
                                     tenon_executable_t **out_executable);
/* Has a library been reloaded that may concern it? */
static inline bool tn_executable_is_old(const tenon_executable_t *executable) {
  return __atomic_load_n(&executable->reloads, __ATOMIC_RELAXED) != tn_registry_reloads();
}
/* The executable runs that kernel from now on: its library stays. */
tenon_status_t tn_executable_use(tenon_executable_t *executable, const tn_kernel_t *kernel,
                                 const tenon_op_t *op);
tenon_status_t tn_run_create(tenon_executable_t *executable, tn_run_t **out_run);
void tn_run_release(tn_run_t *run);
/* Plans the stage that begins at step `begin`; everything before has run.  run->stages gets one
 * more. */
tenon_status_t tn_stage_plan(tn_run_t *run, int32_t begin);
/* Is the plan of that stage still right for what is there now? */
bool tn_stage_fits(const tn_run_t *run, const tn_stage_t *stage);
/* Drops stages from that index on. */
void tn_stages_drop(tn_run_t *run, size_t index);
/* Memory offsets for values that live from first to last: sizes in bytes, aligned; returns the
 * arena's size. */
typedef struct tn_lifetime_t {
  uint64_t size;
  uint64_t offset;
  int32_t first;
  int32_t last;
} tn_lifetime_t;
tenon_status_t tn_memory_plan(tn_lifetime_t *lifetimes, size_t count, uint64_t *out_size,
                              uint64_t *out_bound);

#endif
