/* Executables and the state of their runs. An executable is a compiled graph: it is constant after
 * compilation and shared by threads. A run state belongs to one thread at a time and is kept for
 * reuse. compile.c creates executables, and executable.c releases them. stage.c plans one stage of
 * a run (which steps it has, and where in memory their results are), run.c runs the stages, and
 * interpreter.c runs graphs that are not planned. */
#ifndef TN_GRAPH_EXECUTABLE_H
#define TN_GRAPH_EXECUTABLE_H

#include "base/thread.h"
#include "graph/graph.h"
#include "graph/passes/rules.h"
#include "graph/placement.h"
#include "operator/frame.h"
#include "operator/library.h"
#include "registry/reload.h"

/* A node of the graph, with everything that is created once for it. */
typedef struct tn_step_t {
  const tn_node_t *node;
  void *state;
  void *plan;
  const tn_kernel_t *prepared; /* the kernel that `plan` was prepared for */
  bool has_state;
  tenon_free_fn release; /* frees `plan` */
  uint64_t wanted;       /* bit o: result o is used */
  /* held while a kernel marked "serial" runs: it guards the kernel's state */
  tn_mutex_t lock;
} tn_step_t;

/* Two axes of inputs whose extents must be equal, because they have the same symbolic name. */
typedef struct tn_same_axes_t {
  int32_t input;
  int32_t axis;
  int32_t first_input; /* the first axis of this name */
  int32_t first_axis;
} tn_same_axes_t;

typedef struct tn_training_t tn_training_t;

/* Captured graphs of an executable, see capture.c. */
typedef struct tn_captures_t {
  const struct tenon_executable_t *executable;
  struct tn_capture_t *idle; /* most recently used first */
  char *reason;              /* why nothing can be captured; NULL: capturing is possible */
  uint64_t replays;          /* atomic */
  bool was_wanted;
  bool is_on; /* atomic */
  tn_mutex_t lock;
} tn_captures_t;

/* Regions on devices, see device_region.h. */
typedef struct tn_device_regions_t {
  tn_arena_t memory;
  struct tn_device_region_t **at;
  size_t count;
  size_t capacity;
  int32_t *of_node; /* for each node, 1 + its region; 0: none. NULL: there are no regions */
} tn_device_regions_t;

struct tenon_executable_t {
  /* Atomic. The registry's count of library reloads up to which this executable is known to be
   * current. */
  uint64_t reloads;
  /* The executable that was compiled after a later reload and runs in place of this one; guarded by
   * `renewal`. */
  struct tenon_executable_t *renewed;
  tn_mutex_t renewal;
  /* The options that it was compiled with; what they point to was copied into `memory`. */
  tenon_compile_t options;
  tn_arena_t memory;
  int64_t references;          /* atomic */
  const tenon_graph_t *source; /* the graph as it was imported: it defines inputs and outputs */
  tenon_graph_t *graph;        /* the rewritten copy that runs */
  tn_step_t *steps;            /* graph->node_count of them */
  /* For each edge the last step that reads it; INT32_MAX: a graph output; -1: never read. */
  int32_t *last_use;
  /* The graph outputs of an edge form a list: the first one of each edge, then for each output the
   * next one of its edge; -1: none. Only for planned executables. */
  int32_t *first_output;
  int32_t *next_output;
  tn_same_axes_t *same_axes; /* in the order of the inputs */
  size_t same_axes_count;
  size_t same_axes_capacity;
  tn_mutex_t lock; /* guards `idle` and `libraries` */
  /* Libraries in use, each once: those that registered kernels for operators of other libraries. */
  const tn_library_t **libraries;
  size_t library_count;
  size_t library_capacity;
  struct tn_run_t *idle; /* run states that no run uses now */
  /* true: all nodes run on the CPU, in planned stages; false: interpreter.c runs node by node */
  bool is_planned;
  struct tn_collector_t *collector; /* only while an artifact is compiled: packing.h */
  bool gives_up;                    /* copies of constants may be given up: file_copy.h */
  bool has_lists;                   /* a value is a list, whose items may be inputs of the run */
  bool has_gradients;               /* runs are recorded on the autograd tape */
  struct tn_training_t *training;   /* of one with gradients: training.h; NULL: none */
  tn_placement_t placement;         /* the device of each node, if runs are not planned */
  tn_captures_t captures;           /* captured graphs, for runs on a device */
  /* constants copied to devices other than the host: [edge * device count + device] */
  tenon_tensor_t **device_constants;
  tn_device_regions_t device_regions;
  struct tn_offload_t *offloads; /* subgraphs that devices run as one: offload.h */
  size_t offload_count;
  tn_rules_t rules;     /* by which the graph was rewritten, and how often each was applied */
  char *offload_report; /* what was offloaded and why not more; NULL: no device was asked */
};

/* Where the memory of an edge's value is. */
enum {
  TN_ALLOCATION_NONE,
  TN_ALLOCATION_INPUT,
  TN_ALLOCATION_CONSTANT,
  TN_ALLOCATION_KNOWN, /* computed while planning: shapes, and values that follow from them */
  TN_ALLOCATION_ARENA,
  TN_ALLOCATION_OUTPUT, /* in a tensor that the caller receives */
  TN_ALLOCATION_VIEW,   /* in the memory of the edge `root` */
  TN_ALLOCATION_OWN,    /* allocated by the kernel while it runs, or a storage of its own */
  TN_ALLOCATION_TILE,   /* in a tile of a region, and never in memory as a whole */
  TN_ALLOCATION_PART,   /* in the memory of the edge `block`, the result of a concat */
};

enum {
  TN_WATCHED_TYPE = 1,
  TN_WATCHED_VALUES,
};

typedef struct tn_allocation_t {
  uint8_t where;
  bool is_pending; /* its shape is known only after its node has run */
  uint8_t watched; /* by the stage that is being planned: TN_WATCHED_TYPE, ..._VALUES or 0 */
  /* While regions are made: an action outside of the region reads it. */
  bool is_read_outside;
  bool is_block;      /* values are parts of it */
  bool may_be_part;   /* While regions are made: it becomes a part if no region makes it. */
  int32_t block;      /* of a part: the edge in whose memory it is */
  int64_t part_delta; /* of a value that may be a part: its `delta` then */
  int32_t tile;       /* 1 + its tile in a region of its stage; 0: none */
  int32_t root;       /* the edge that owns the memory; the edge itself unless this is a view */
  int64_t delta;      /* bytes from the beginning of that memory, or of the block */
  /* The edge whose detail (quantisation) the value has: the source of a view or a copy, else the
   * edge itself. */
  int32_t source;
  /* The allocation of the dense copy that the stage which is being planned made; 0: none, because
   * the first allocation is never a copy. */
  int32_t dense;
  uint32_t layout;     /* layout of a sparse result, which the kernel allocates; 0: dense */
  int32_t stage;       /* the stage that planned it; -1: none yet */
  tn_tensor_t *tensor; /* the tensor header; it points to data while a stage runs */
  int32_t room;        /* number of axes that the header can hold */
  uint64_t offset;     /* in the stage's arena */
  uint64_t size;       /* bytes */
  int32_t first;       /* the value is alive from this action */
  int32_t last;        /* to this action */
  /* The shape to start from, for a pending value in the arena and for a sparse one: an upper
   * bound. */
  int64_t *bound;
} tn_allocation_t;

/* One entry of a stage's program: a kernel call, a region of kernel calls, or a copy between the
 * headers of two edges. */
typedef struct tn_action_t {
  tn_frame_t frame;
  const tn_kernel_t *kernel; /* NULL: copy inputs[0] to outputs[0], or run the region */
  struct tn_region_t *region;
  const char *label; /* the operators of the region; NULL: no region */
  int32_t step;      /* of a region: its first one */
  bool makes_sparse; /* a result is sparse */
  tenon_tensor_t **inputs;
  tenon_tensor_t **outputs;
  uint64_t workspace_offset;
  uint64_t workspace_size;
  int64_t draws;
} tn_action_t;

/* A property of an input that the plan of a stage depends on: if it changes, the plan is made
 * again. */
typedef struct tn_watch_t {
  int32_t edge;
  uint32_t detail; /* kind of its detail; 0: none */
  int32_t ndim;
  tenon_dtype_t dtype;
  int64_t *shape;
  int64_t *strides;
  int64_t *values; /* contents that infer read; NULL: none */
  /* bytes of `values`; UINT64_MAX: too many to compare, so the plan is always made again */
  uint64_t size;
} tn_watch_t;

typedef struct tn_stage_t {
  int32_t begin; /* the stage has the steps begin..end-1 */
  int32_t end;
  tn_action_t *actions;
  size_t action_count;
  size_t action_capacity;
  tn_watch_t *watches;
  size_t watch_count;
  size_t watch_capacity;
  /* edges planned by this stage, in order, including extra headers for dense copies */
  int32_t *edges;
  size_t planned_count;
  size_t planned_capacity;
  bool is_watched; /* calls were watched when it was planned, so it has no regions */
  void *arena;
  uint64_t arena_size;
  uint64_t arena_bound; /* most bytes alive at once: no arena can be smaller */
  tn_arena_t memory;    /* holds the arrays that are allocated while planning */
} tn_stage_t;

typedef struct tn_run_t {
  struct tn_run_t *next;
  tenon_executable_t *executable;
  tn_allocation_t *allocations; /* edge_count entries, then one for each dense copy */
  size_t allocation_count;
  size_t allocation_capacity;
  tn_stage_t *stages;
  size_t stage_count;
  size_t stage_capacity;
  tn_arena_t arena;
} tn_run_t;

/* Compiles a graph like tenon_executable_create, and notes in `collector`, which is empty, what an
 * artifact holds. The blocks live as long as the executable; tn_collector_clear frees the lists. */
tenon_status_t tn_executable_collect(const tenon_graph_t *graph, tn_collector_t *collector,
                                     tenon_executable_t **out_executable);
void tn_collector_clear(tn_collector_t *collector);
/* Copies `options` into the executable, so that recompile.c can compile it again. */
tenon_status_t tn_executable_keep_options(tenon_executable_t *executable,
                                          const tenon_compile_t *options);
/* Returns the executable that has to run: `executable` itself or, if a library of its operators was
 * reloaded, one that is compiled again. The caller releases it. */
tenon_status_t tn_executable_current(tenon_executable_t *executable,
                                     tenon_executable_t **out_executable);
/* Whether a library was reloaded since the executable was last known to be current. */
static inline bool tn_executable_is_old(const tenon_executable_t *executable) {
  return __atomic_load_n(&executable->reloads, __ATOMIC_RELAXED) != tn_registry_reloads();
}
/* Keeps the library of `kernel` loaded as long as the executable exists. */
tenon_status_t tn_executable_use(tenon_executable_t *executable, const tn_kernel_t *kernel,
                                 const tenon_op_t *op);
/* Makes constants readable that were given up because their kernels do not read them. Called where
 * something else may. */
tenon_status_t tn_executable_recall(const tenon_executable_t *executable);
/* Creates a run state, to which the constants of the graph are bound. It has no stages yet. */
tenon_status_t tn_run_create(tenon_executable_t *executable, tn_run_t **out_run);
/* Releases a run state and its stages. */
void tn_run_release(tn_run_t *run);
/* Plans the stage that begins at step `begin` and appends it to run->stages. All earlier steps have
 * run. */
tenon_status_t tn_stage_plan(tn_run_t *run, int32_t begin);
/* Makes regions of the planned stage's consecutive calls of loop kernels. Lifetimes are known, and
 * memory has not been allocated. See region.c. */
tenon_status_t tn_stage_make_regions(tn_run_t *run, tn_stage_t *stage);
/* Whether the plan of the stage still holds for the values that its inputs have now. */
bool tn_stage_fits(const tn_run_t *run, const tn_stage_t *stage);
/* Drops the stages from `index` on, with the storage of their values. Values that these stages
 * planned are unplanned again. */
void tn_stages_drop(tn_run_t *run, size_t index);
/* Finds an arena offset for each value, which is alive from action `first` to action `last`. Sizes
 * are in bytes and are rounded up to the alignment. Returns the size of the arena and the lower
 * bound (most bytes alive at once). */
typedef struct tn_lifetime_t {
  uint64_t size;
  uint64_t offset;
  int32_t first;
  int32_t last;
} tn_lifetime_t;
tenon_status_t tn_memory_plan(tn_lifetime_t *lifetimes, size_t count, uint64_t *out_size,
                              uint64_t *out_bound);

#endif
