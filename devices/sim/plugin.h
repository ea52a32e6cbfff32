/* Declarations that the files of sim share. The process has one instance of the plug-in, `sim`. Its
 * lock guards everything in it, except the bytes that a piece of work reads and writes. The
 * functions here are called with the lock held unless their comment says otherwise. */
#ifndef TENON_SIM_PLUGIN_H
#define TENON_SIM_PLUGIN_H

#include "sim.h"

#include <pthread.h>
#include <stdbool.h>

enum {
  SIM_ORDINALS = 2,
  SIM_FINDINGS = 64,
  SIM_RANGES = 64,
  SIM_GROUP_MOST = 1024,
  SIM_LOCAL_MOST = 1 << 16,
};

/* clock.c: how much work of each stream is known to be finished, indexed by the slot of the
 * stream */

typedef struct sim_clock_t {
  uint64_t *ticks;
  uint32_t count;
  uint32_t room; /* ticks from `count` on are 0 */
} sim_clock_t;

bool sim_clock_reserve(sim_clock_t *clock, uint32_t count); /* false: no host memory */
/* The caller has reserved room for other->count ticks. */
void sim_clock_join(sim_clock_t *clock, const sim_clock_t *other);
void sim_clock_set(sim_clock_t *clock, uint32_t slot, uint64_t tick); /* room is reserved */
uint64_t sim_clock_at(const sim_clock_t *clock, uint32_t slot);
void sim_clock_free(sim_clock_t *clock);

/* settings.c */

#define SIM_CALLS(X)                                                                               \
  X(ALLOCATE, allocate, TENON_MEMORY)                                                              \
  X(HOST_ALLOCATE, host_allocate, TENON_MEMORY)                                                    \
  X(COPY, copy, TENON_UNAVAILABLE)                                                                 \
  X(FILL, fill, TENON_UNAVAILABLE)                                                                 \
  X(LAUNCH, launch, TENON_UNAVAILABLE)                                                             \
  X(STREAM_CREATE, stream_create, TENON_UNAVAILABLE)                                               \
  X(EVENT_CREATE, event_create, TENON_UNAVAILABLE)                                                 \
  X(COMPILE, compile, TENON_UNAVAILABLE)                                                           \
  X(GROUP_COMPILE, group_compile, TENON_UNAVAILABLE)
enum {
#define X(NAME, name, code) SIM_CALL_##NAME,
  SIM_CALLS(X)
#undef X
      SIM_CALL_COUNT
};
enum {
  SIM_CHECK_FAIL,
  SIM_CHECK_COUNT,
  SIM_CHECK_ABORT,
};

enum {
  SIM_WITHOUT_F64 = 1,
  SIM_WITHOUT_F16 = 2,
  SIM_WITHOUT_ATOMICS64 = 4,
};

typedef struct sim_settings_t {
  uint64_t handles;
  uint64_t peers;
  uint64_t blame;
  uint64_t reuse;
  uint64_t claim; /* 0 or 1 */
  uint64_t delay;
  /* delay: the maximum in microseconds before each piece of work; seed: of the random delays */
  uint64_t seed;
  uint64_t memory;               /* bytes of each ordinal */
  uint64_t check;                /* SIM_CHECK_... */
  uint64_t fail[SIM_CALL_COUNT]; /* calls until one fails; 0: never */
  uint64_t fault;                /* pieces of work until one fails */
  uint64_t lose[SIM_ORDINALS];   /* pieces of work of that ordinal until it is lost */
  /* SIM_WITHOUT_..., the features that the device reports as missing */
  uint64_t without;
} sim_settings_t;

extern const sim_settings_t sim_settings_usual;
/* Parses `text` and changes *settings. On TENON_INVALID, *settings is unchanged. */
tenon_status_t sim_settings_read(const void *context, const char *text, sim_settings_t *settings);
/* Fails if a setting says that this call fails. */
tenon_status_t sim_inject(tenon_on_t on, int call);

/* memory.c */

/* An access to bytes [begin, end) by work `tick` of the stream in `slot`. */
typedef struct sim_access_t {
  uint64_t begin;
  uint64_t end;
  uint64_t tick;
  uint32_t slot;
  uint32_t is_write;
  sim_piece_t piece;
} sim_access_t;

typedef struct sim_accesses_t {
  sim_access_t *items;
  uint32_t count;
  uint32_t room;
} sim_accesses_t;

typedef struct sim_memory_t {
  uintptr_t key; /* the handle: an inaccessible address, or a number */
  char *reserved;
  char *work; /* `reserved` is the mapping; `work` is the part that workers read and write */
  uint64_t bytes;
  uint64_t mapped;
  int32_t ordinal;
  uint32_t pins;
  uint32_t imports; /* `pins` counts pieces of work that use the memory; `imports` counts imports */
  bool freed;
  bool gone; /* gone: the pages are released, but the address range is kept to detect later uses */
  sim_accesses_t accesses;
} sim_memory_t;

/* Finds the memory at `at` and checks that `bytes` from there lie in it. *out_begin receives the
 * offset in the memory. */
tenon_status_t sim_memory_find(tenon_on_t on, const char *what, tenon_memory_t at, uint64_t bytes,
                               sim_memory_t **out_memory, uint64_t *out_begin);
void sim_memory_unpin(sim_memory_t *memory);
void sim_memory_drop(tenon_on_t on, void *handle); /* what sim_free does, with the lock held */
void sim_memory_stop(int32_t ordinal);
void sim_memory_forget_all(void); /* called after the last ordinal has stopped */

/* check.c */

struct sim_stream_t;
struct sim_work_t;
struct sim_mark_t;
bool sim_check_reserve(struct sim_work_t *work); /* false: no host memory */
/* Call sim_check_reserve first; puts races into work->failure. */
void sim_check(const struct sim_stream_t *stream, struct sim_work_t *work);
void sim_check_wait(struct sim_stream_t *stream, struct sim_mark_t *mark);
/* Reports an error that does not depend on timing. It is listed together with the races. */
void sim_find(const sim_piece_t *first, const sim_piece_t *second, const char *format, ...)
    TENON_FORMAT(3, 4);
/* Does work that the host does not know to be finished write there? */
bool sim_check_writes(const void *data, uint64_t bytes);
/* Checks an access of the host to its own memory, as if it were a piece of work. true: it is a
 * race, which `text` describes. */
bool sim_check_host(tenon_on_t on, const char *kind, const void *data, uint64_t bytes,
                    uint32_t is_write, char text[SIM_TEXT]);

typedef struct sim_findings_t {
  uint64_t count;
  sim_finding_t items[SIM_FINDINGS];
} sim_findings_t;

/* handle.c: numbers that stand for streams, events and other objects, and are never reused */

enum {
  SIM_STREAM = 1,
  SIM_EVENT,
  SIM_PROGRAM,
  SIM_KERNEL,
  SIM_CAPTURED,
  SIM_CHAIN,
};

typedef struct sim_object_t { /* the first member of every object that has a handle */
  uint32_t kind;
  int32_t ordinal;
  void *handle;
} sim_object_t;

tenon_status_t sim_handle_create(tenon_on_t on, uint32_t kind, sim_object_t *object);
/* An object of this ordinal. */
tenon_status_t sim_handle_find(tenon_on_t on, uint32_t kind, void *handle, void *out_object);
/* The object, whose handle is now invalid; NULL: there is no such object. */
void *sim_handle_end(tenon_on_t on, uint32_t kind, void *handle);
void sim_handle_drop(sim_object_t *object); /* invalidates the handle of the object */
/* Invalidates the handle of any one object of an ordinal; NULL: none is left. */
void *sim_handle_any(int32_t ordinal, uint32_t kind);
void sim_handle_forget_all(void);

/* work.c */

typedef struct sim_failure_t {
  tenon_status_t code; /* 0: none */
  uint64_t ticket;
  uint64_t order;
  char text[SIM_TEXT];
} sim_failure_t;

/* A point in a stream, shared by the event that recorded it and those that wait for it. */
typedef struct sim_mark_t {
  uint32_t references;
  bool done;
  sim_failure_t failure; /* the failure of the stream when it reached the mark */
  int64_t time;
  sim_clock_t clock; /* the work that is finished when the stream reaches the mark */
  uint32_t slot;
  uint64_t tick;
  sim_piece_t last; /* the last work before the mark in the stream */
  pthread_cond_t reached;
} sim_mark_t;

typedef struct sim_region_t {
  sim_memory_t *memory; /* NULL: host memory */
  uint64_t begin;
  uint64_t bytes;
  uint32_t is_write;
} sim_region_t;

typedef struct sim_work_t {
  struct sim_work_t *next;
  sim_piece_t piece;
  sim_work_fn function;
  sim_mark_t *reach;
  sim_mark_t *await; /* `reach` is a mark that this work sets; `await` is one that it waits for */
  void (*callback)(void *argument, tenon_status_t status);
  void *argument;
  void **addresses;
  uint64_t argument_bytes;
  uint32_t region_count;
  sim_region_t *regions;
  /* releases what the argument holds when the work is freed; may be NULL */
  void (*release)(void *argument);
  void (*retain)(void *argument); /* retains the same when the work is copied */
  tenon_status_t failure;         /* the failure that the work will have */
  bool loses;                     /* this work makes the ordinal lost */
  char failure_text[SIM_TEXT];
} sim_work_t;

typedef struct sim_use_t { /* a range, possibly of another ordinal or of host memory */
  sim_range_t range;
  tenon_on_t peer;
  bool is_host;
} sim_use_t;

tenon_status_t sim_work_create(tenon_on_t on, uint64_t ticket, const char *kind,
                               sim_work_fn function, const void *argument, uint64_t bytes,
                               uint32_t range_count, const sim_use_t *ranges,
                               sim_work_t **out_work);
tenon_status_t sim_work_copy(tenon_on_t on, const sim_work_t *work, uint64_t ticket,
                             sim_work_t **out_copy);
void sim_work_free(sim_work_t *work);
/* Creates a piece of work and appends it to the stream or to its captured graph. Takes the lock
 * itself. */
tenon_status_t sim_work_enqueue(tenon_on_t on, void *stream, uint64_t ticket, const char *kind,
                                sim_work_fn function, const void *argument, uint64_t bytes,
                                uint32_t range_count, const sim_use_t *ranges, int call);
/* Takes ownership of the work. */
tenon_status_t sim_work_submit(tenon_on_t on, struct sim_stream_t *stream, sim_work_t *work);

/* stream.c */

typedef struct sim_stream_t {
  sim_object_t object;
  struct sim_stream_t *next;
  int32_t number;
  uint32_t users; /* the host, and importers */
  uint32_t slot;
  uint64_t tick;
  sim_clock_t clock;
  sim_piece_t last;
  sim_mark_t *fresh[8]; /* waits since the last piece of work */
  uint32_t fresh_count;
  sim_work_t *first;
  sim_work_t **end; /* the first piece of work may be running */
  bool has_thread;
  bool closed;
  bool ended;
  pthread_t thread;
  pthread_cond_t came;
  uint64_t random;
  sim_failure_t failure;
  struct sim_captured_t *captured;
} sim_stream_t;

/* Creates a stream without a handle. */
tenon_status_t sim_stream_start(tenon_on_t on, sim_stream_t **out_stream);
tenon_status_t sim_stream_find(tenon_on_t on, void *handle, sim_stream_t **out_stream);
/* Finds the stream. Fails with the failure of the stream if it has one. */
tenon_status_t sim_stream_enter(tenon_on_t on, void *handle, sim_stream_t **out_stream);
void sim_stream_close(sim_stream_t *stream);
/* Closes all streams of the ordinal and waits until their work is finished. */
void sim_stream_stop(int32_t ordinal);
tenon_status_t sim_stream_thread(tenon_on_t on, sim_stream_t *stream);
void *sim_stream_work(void *stream); /* work.c: the function of a stream's thread */
void sim_stream_fail(sim_stream_t *stream, const sim_failure_t *failure);
tenon_status_t sim_failure_say(const void *on, const sim_failure_t *failure, tenon_fault_t *fault);
/* A mark of where the stream's end is; push also enqueues it.  The caller has a reference, which
 * wait gives up. */
tenon_status_t sim_mark_create(tenon_on_t on, sim_stream_t *stream, sim_mark_t **out_mark);
tenon_status_t sim_mark_push(tenon_on_t on, sim_stream_t *stream, sim_mark_t **out_mark);
/* Waits for the mark. Afterwards the host knows that the work before it is finished. Returns the
 * failure of the stream at the mark. */
/* Called when the stream reaches the mark. */
void sim_mark_reach(const sim_stream_t *stream, sim_mark_t *mark);
void sim_mark_wait(sim_mark_t *mark, sim_failure_t *out_failure);
void sim_mark_release(sim_mark_t *mark);
void sim_host_knows(const sim_clock_t *clock);

/* group.c: runs the work groups of a kernel; called without the lock */

typedef void (*sim_kernel_fn)(const sim_item_t *item, void *const *arguments);
/* `local` is the local memory of a group, which is overwritten before each group. */
tenon_status_t sim_groups_run(sim_kernel_fn function, const uint64_t groups[3],
                              const uint32_t items[3], void *const *arguments, void *local,
                              uint64_t local_bytes, char *message);

/* matmul.c: called without the lock */

typedef struct sim_factor_t { /* strides in elements; 0 along a broadcast axis */
  int64_t row;
  int64_t column;
  int64_t batch[TENON_RANK_MAX];
} sim_factor_t;

typedef struct sim_matmul_t {
  int64_t m;
  int64_t n;
  int64_t k;
  int64_t batches;
  int64_t shape[TENON_RANK_MAX];
  int32_t rank;
  uint32_t has_bias;
  uint32_t activation;
  float alpha;
  float beta;
  sim_factor_t a;
  sim_factor_t b;
  sim_factor_t bias;
} sim_matmul_t;

/* `attrs` are those of core::matmul. `bias` may be NULL. */
void sim_matmul_make(const tenon_tensor_t *a, const tenon_tensor_t *b, const tenon_tensor_t *bias,
                     const tenon_tensor_t *out, const tenon_value_t *attrs,
                     sim_matmul_t *out_matmul);
void sim_matmul(const sim_matmul_t *matmul, const float *a, const float *b, const float *bias,
                float *out);
float sim_activate(uint32_t activation, float x, float alpha, float beta);

/* step.c: one operator of a compiled group; called without the lock */

enum {
  SIM_RANK = 8,
  SIM_STEP_INPUTS = 3,
};
enum {
  SIM_ADD,
  SIM_MUL,
  SIM_RELU,
  SIM_GELU,
  SIM_MATMUL,
  SIM_LAYER_NORM,
  SIM_STEP_KINDS,
};
enum {
  SIM_NOWHERE,
  SIM_IN,
  SIM_OUT,
  SIM_WEIGHT,
  SIM_SCRATCH,
}; /* where a value is stored */

typedef struct sim_value_t { /* f32, row-major */
  uint32_t where;
  int32_t ndim;
  uint64_t at;
  /* `at`: the index of the input or output for IN and OUT, otherwise a byte offset; `count`:
   * elements */
  uint64_t count;
  int64_t shape[SIM_RANK];
} sim_value_t;

typedef struct sim_step_t {
  uint32_t kind;
  uint32_t reserved;
  int32_t inputs[SIM_STEP_INPUTS];
  int32_t output;     /* indices of values; -1: absent */
  int64_t numbers[3]; /* attributes: approximation of gelu, axis, transposes and activation */
  double reals[2];    /* epsilon, alpha and beta */
} sim_step_t;

/* Makes the step of a node. Returns NULL, or the reason why sim does not support the node. */
const char *sim_step_of(const tenon_graph_node_t *node, const tenon_graph_view_t *view,
                        sim_step_t *out_step);
/* Describes the value of an edge without its storage. Returns NULL, or the reason why sim does not
 * support it. */
const char *sim_value_of(const tenon_meta_t *edge, sim_value_t *out_value);
/* Checks a step against these values. Returns NULL if the step is sound, or the reason if it is
 * not. */
const char *sim_step_check(const sim_step_t *step, const sim_value_t *values, uint32_t value_count);
void sim_step_run(const sim_step_t *step, const sim_value_t *values, float *const *at);

/* capture.c, program.c, chain.c: destructors that stop() calls */

typedef struct sim_captured_t {
  sim_object_t object;
  sim_work_t *first;
  sim_work_t **end;
} sim_captured_t;

void sim_captured_free(sim_captured_t *captured);
void sim_program_free(sim_object_t *program);
void sim_event_free(sim_object_t *event);
void sim_chain_free(sim_object_t *chain);

/* device.c: the plug-in */

typedef struct sim_ordinal_t {
  bool started;
  bool lost;
  uint64_t used; /* bytes */
  int32_t stream_count;
  sim_stream_t *own;
  sim_clock_t past; /* clock of streams that no longer exist; joined by a synchronize */
} sim_ordinal_t;

typedef struct sim_slot_t { /* a slot in the clocks */
  bool taken;
  uint64_t tick;
} sim_slot_t;

typedef struct sim_plugin_t {
  pthread_mutex_t lock;
  pthread_cond_t ended; /* signalled when a stream has ended */
  sim_settings_t settings;
  sim_ordinal_t ordinals[SIM_ORDINALS];
  uint32_t started;
  sim_stream_t *streams;
  sim_clock_t host;
  sim_slot_t *slots;
  uint32_t slot_count;
  uint32_t slot_room;
  sim_memory_t **memories; /* sorted by key */
  uint32_t memory_count;
  uint32_t memory_room;
  uint32_t gone_count;
  uint64_t last_key;            /* the last handle that is a number (handles=1) */
  sim_accesses_t host_accesses; /* accesses to host memory, by address */
  uint64_t failure_order;
  uint64_t stream_order;
  sim_findings_t races;
  sim_findings_t waits;
} sim_plugin_t;

extern sim_plugin_t sim;
static inline void sim_lock(void) { pthread_mutex_lock(&sim.lock); }
static inline void sim_unlock(void) { pthread_mutex_unlock(&sim.lock); }
tenon_status_t sim_usable(tenon_on_t on); /* fails if the ordinal is not started, or is lost */
/* Takes the lock and does the same. The lock stays held only if the ordinal is usable. */
tenon_status_t sim_enter(tenon_on_t on);
static inline tenon_status_t sim_leave(tenon_status_t status) {
  sim_unlock();
  return status;
}

/* Functions of the device table */

tenon_status_t sim_allocate(tenon_on_t on, uint64_t bytes, void **out_handle);
void sim_free(tenon_on_t on, void *handle);
tenon_status_t sim_memory_left(tenon_on_t on, uint64_t *out_bytes);
tenon_status_t sim_memory_import(tenon_on_t on, void *native, uint64_t bytes, void **out_handle);
void sim_memory_forget(tenon_on_t on, void *handle);
tenon_status_t sim_copy(tenon_on_t on, void *stream, const tenon_copy_t *copy);
tenon_status_t sim_fill(tenon_on_t on, void *stream, uint64_t ticket, tenon_memory_t to,
                        uint64_t bytes, const void *pattern, uint32_t pattern_bytes);
int32_t sim_peers(tenon_on_t on, tenon_on_t from);
tenon_status_t sim_host_allocate(tenon_on_t on, uint64_t bytes, void **out_data);
void sim_host_free(tenon_on_t on, void *data);
tenon_status_t sim_stream_create(tenon_on_t on, void **out_stream);
void sim_stream_destroy(tenon_on_t on, void *stream);
tenon_status_t sim_stream_query(tenon_on_t on, void *stream, tenon_fault_t *fault);
tenon_status_t sim_stream_synchronize(tenon_on_t on, void *stream, tenon_fault_t *fault);
tenon_status_t sim_stream_import(tenon_on_t on, void *native, void **out_stream);
tenon_status_t sim_synchronize(tenon_on_t on);
tenon_status_t sim_callback(tenon_on_t on, void *stream,
                            void (*function)(void *argument, tenon_status_t status),
                            void *argument);
tenon_status_t sim_event_create(tenon_on_t on, void **out_event);
void sim_event_destroy(tenon_on_t on, void *event);
tenon_status_t sim_event_record(tenon_on_t on, void *event, void *stream);
tenon_status_t sim_event_query(tenon_on_t on, void *event);
tenon_status_t sim_event_synchronize(tenon_on_t on, void *event);
tenon_status_t sim_stream_wait(tenon_on_t on, void *stream, tenon_on_t of, void *event);
tenon_status_t sim_event_time(tenon_on_t on, void *event, int64_t *out_time);
tenon_status_t sim_compile(tenon_on_t on, const tenon_source_t *source, tenon_sink_t *out_code);
tenon_status_t sim_program_load(tenon_on_t on, const void *code, uint64_t bytes,
                                void **out_program);
void sim_program_unload(tenon_on_t on, void *program);
tenon_status_t sim_kernel_find(tenon_on_t on, void *program, const char *name, void **out_kernel);
tenon_status_t sim_launch(tenon_on_t on, void *stream, const tenon_launch_t *launch);
tenon_status_t sim_record_begin(tenon_on_t on, void *stream);
tenon_status_t sim_record_end(tenon_on_t on, void *stream, void **out_recording);
tenon_status_t sim_replay(tenon_on_t on, void *stream, void *recording, uint64_t ticket);
void sim_recording_end(tenon_on_t on, void *recording);
tenon_status_t sim_forked(tenon_on_t on);
tenon_status_t sim_offload(tenon_on_t on, const tenon_graph_view_t *graph, const char *settings,
                           tenon_claims_t *out);
tenon_status_t sim_group_compile(tenon_on_t on, const tenon_graph_view_t *group,
                                 const char *settings, void **out_group);
tenon_status_t sim_group_run(tenon_on_t on, void *stream, const tenon_group_run_t *run);
tenon_status_t sim_group_save(tenon_on_t on, void *group, tenon_sink_t *out_bytes);
tenon_status_t sim_group_load(tenon_on_t on, const void *bytes, uint64_t size, void **out_group);
void sim_group_free(tenon_on_t on, void *group);
extern const tenon_item_t sim_ops[];

#endif
