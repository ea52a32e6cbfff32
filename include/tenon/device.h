/* tenon/device.h: the binary contract between an accelerator's plug-in and its host.  Contract
 * version 1.1.
 *
 * A plug-in is a library (op.h) with an item TENON_DEVICE(&table): a constant table of functions,
 * which is the same for all ordinals.  The library may also contain operators and kernels.  The
 * host caches memory, orders streams, copies tensors, keeps statistics, and names the operator when
 * work fails.
 *
 * Growth.  Structures start with their size and grow only at their end.  A function pointer that is
 * NULL, or beyond the size of the table, is absent; its comment says what the host does then.
 *
 * Calls.  Every function receives the context of one ordinal.  Several threads may call it at the
 * same time, also for one stream.  A function that fails records a message with tenon_fail(context,
 * code, ...), changes nothing, and may be called again.  Functions that free, destroy or stop
 * cannot fail.  No function throws an exception.  Only functions that say "waits" wait for work of
 * the device.
 *
 * Memory is a handle and an offset in bytes.  The host does not treat the handle as an address,
 * unless the properties include TENON_DEVICE_ADDRESSES: then `data` of a tensor is handle + offset
 * and byte_offset is 0; otherwise `data` is the handle.  Several streams may use parts of one
 * allocation at the same time.
 *
 * Streams.  Work on one stream runs in the order in which it was enqueued.  Work on two streams
 * runs in any order, unless events order it.  The stream NULL is the ordinal's default stream.  A
 * device without streams completes all work before its functions return.  Enqueued work carries the
 * `ticket` of its call, a number that increases along each stream.
 *
 * Asynchronous failures.  When work fails later, its stream fails permanently: the stream skips all
 * later work, the functions of this stream return the failure and its ticket, and streams that wait
 * for its events fail in the same way.  Other streams continue.  The code of a failure is never
 * TENON_UNAVAILABLE, which means "not finished" in queries. */
#ifndef TENON_DEVICE_H
#define TENON_DEVICE_H

#include <tenon/op.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_DEVICE_ABI 0x10001u /* Version of this contract: major << 16 | minor. */

/* Features, combined in tenon_device_properties_t. */
enum {
  /* Memory has flat addresses: handle + offset is an address, for kernels and in DLPack. */
  TENON_DEVICE_ADDRESSES = 1,
  /* The host can read and write such an address while no work uses it. */
  TENON_DEVICE_HOST_READS = 2,
  TENON_DEVICE_OVERLAPS = 4,      /* Copies of one stream overlap with kernels of another. */
  TENON_DEVICE_TIMES = 8,         /* Events have times. */
  TENON_DEVICE_WIDE_ATOMICS = 16, /* 64-bit atomic operations. */
  /* A failure names the ticket of its work.  Without this feature, the failed work is one of those
   * enqueued since the last wait. */
  TENON_DEVICE_BLAMES = 32
};

/* Directions of a copy. */
enum {
  TENON_COPY_IN = 1,     /* From host memory. */
  TENON_COPY_OUT = 2,    /* To host memory. */
  TENON_COPY_WITHIN = 3, /* Within the ordinal; ranges may overlap, as in memmove. */
  TENON_COPY_PEER = 4    /* From another ordinal of the plug-in. */
};

/* Languages of source code. */
enum {
  TENON_SOURCE_OPENCL = 1, /* OpenCL C 1.2. */
  TENON_SOURCE_CUDA = 2,   /* CUDA C++, for NVRTC. */
  TENON_SOURCE_C = 3       /* C11, one function for each kernel; see docs/devices.md. */
};

/* Kinds of kernel arguments. */
enum {
  /* A handle and an offset.  The kernel receives one pointer; a kernel that takes offsets receives
   * a pointer and an int64. */
  TENON_ARG_MEMORY = 1,
  TENON_ARG_BYTES = 2, /* `size` bytes at `data`. */
  TENON_ARG_LOCAL = 3  /* `size` bytes of local memory for each group. */
};

/* How a kernel accesses the `size` bytes of a TENON_ARG_MEMORY argument; 0: unknown. */
enum {
  TENON_ACCESS_READ = 1,
  TENON_ACCESS_WRITE = 2
};

/* One ordinal of a plug-in; the argument of every function.
 *
 * Ownership: the host owns the context, which keeps its address while the plug-in is open. */
typedef struct tenon_device_context_t {
  uint32_t size;
  uint32_t phase; /* TENON_PHASE_DEVICE */
  const tenon_host_t *host;
  tenon_device_t device; /* The device of its tensors. */
  int32_t ordinal;       /* 0, 1, ...; -1 in `enumerate`. */
  uint32_t reserved;
  void *plugin; /* Set by `enumerate`; the same for all ordinals. */
  void *state;  /* Set by `start`, for this ordinal. */
  /* The user's settings, from the environment variable TENON_<NAME>: "key=value,...", or "". */
  const char *settings;
} tenon_device_context_t;

/* The properties of an ordinal.  The host sets `size`: do not write beyond it.  Zero means "none"
 * or "unknown".  The strings are not NULL, and not empty except for the target of a device that
 * compiles no source code.
 *
 * Ownership: strings and lists must remain valid until `stop`. */
typedef struct tenon_device_properties_t {
  uint32_t size;
  uint32_t features;  /* TENON_DEVICE_... */
  const char *name;   /* The hardware: "NVIDIA H200". */
  const char *driver; /* The driver with its version: "PoCL 3.1". */
  /* What compiled code depends on; the host never loads code of another target. */
  const char *target;
  uint64_t memory;  /* Total bytes of memory. */
  uint64_t largest; /* Bytes of the largest allocation; 0: `memory`. */
  /* Alignment of the offsets that the host uses, and of handles that are addresses: a power of two,
   * at least 64. */
  uint32_t alignment;
  uint32_t units;      /* Number of processors. */
  uint32_t group_most; /* Most items in a group. */
  uint32_t languages;  /* Bit i: compiles source code of language i. */
  uint64_t local_most; /* Most bytes of local memory in a group. */
  /* Lists of dtypes (TENON_F32, ...) that end with 0; NULL: all dtypes. */
  const uint32_t *stores;   /* Dtypes that memory can hold. */
  const uint32_t *computes; /* Dtypes that kernels can compute with. */
  const uint32_t *atomics;  /* Dtypes that support atomic addition. */
  /* Kinds of tenon_detail_t that its tensors may have; ends with 0.  NULL: only dense tensors. */
  const uint32_t *layouts;
} tenon_device_properties_t;

/* A position in the device's memory. */
typedef struct tenon_memory_t {
  void *handle;
  uint64_t offset;
} tenon_memory_t;

typedef struct tenon_copy_t {
  uint32_t size;
  uint32_t direction; /* TENON_COPY_... */
  uint64_t ticket;
  uint64_t bytes; /* > 0 */
  /* For host memory, the handle is an address and the offset is 0. */
  tenon_memory_t from;
  tenon_memory_t to;
  const tenon_device_context_t *peer; /* PEER: the ordinal that owns `from`. */
} tenon_copy_t;

/* The failed work of a stream. */
typedef struct tenon_fault_t {
  uint32_t size;
  uint32_t reserved;
  uint64_t ticket; /* 0: unknown. */
} tenon_fault_t;

typedef struct tenon_source_t {
  uint32_t size;
  uint32_t language; /* TENON_SOURCE_... */
  const char *text;  /* Terminated by a zero byte. */
  uint64_t text_size;
  const char *file;    /* The file name in messages, whose lines are those of the file. */
  const char *options; /* Options of the compiler. */
} tenon_source_t;

/* Receives bytes whose number the writer knows. */
typedef struct tenon_sink_t {
  uint32_t size;
  uint32_t reserved;
  /* Returns memory for `bytes` bytes; may be called once.  NULL: out of memory, with the message
   * recorded. */
  void *(*reserve)(struct tenon_sink_t *sink, uint64_t bytes);
} tenon_sink_t;

typedef struct tenon_kernel_argument_t {
  uint32_t kind;   /* TENON_ARG_... */
  uint32_t access; /* MEMORY: TENON_ACCESS_... */
  uint64_t size;
  union {
    tenon_memory_t memory; /* MEMORY */
    const void *data;      /* BYTES */
  } as;
} tenon_kernel_argument_t;

typedef struct tenon_launch_t {
  uint32_t size;
  uint32_t argument_count;
  uint64_t ticket;
  void *kernel;
  const tenon_kernel_argument_t *arguments; /* `launch` copies them before it returns. */
  uint64_t groups[3];                       /* Number of groups; each > 0. */
  uint32_t group[3];                        /* Items in a group. */
  uint32_t reserved;
} tenon_launch_t;

typedef const tenon_device_context_t *tenon_on_t; /* "On this ordinal". */

/* ---- views of graphs ------------------------------------------------------------------------- */

/* A node of a graph view.
 *
 * inputs[starts[i]] to inputs[starts[i + 1] - 1] are the edges of tensor argument i of the
 * operator's schema: one edge; none if the argument is omitted; the items of a `Tensor[]`. */
typedef struct tenon_graph_node_t {
  uint32_t size;
  uint32_t attr_count;
  const char *op;             /* "core::matmul" */
  const char *name;           /* The name in the model, for messages. */
  int64_t version;            /* Version of the operator. */
  const tenon_value_t *attrs; /* As in tenon_call_t. */
  uint32_t argument_count;
  uint32_t output_count;
  const uint32_t *starts;  /* argument_count + 1 indices. */
  const uint32_t *inputs;  /* Edges. */
  const uint32_t *outputs; /* Edges: the results in order, with the items of lists one by one. */
  /* 1: the node belongs to another device, by a claim or a pin.  Paths through it still count. */
  uint32_t taken;
  uint32_t reserved;
} tenon_graph_node_t;

/* A graph, or a group of its nodes.
 *
 * Edges are metas: dtype (bits 0: unknown), ndim (-1: unknown), dims (equal symbols are equal
 * extents), `values` of small integer tensors as far as they are known, and `value` of constants:
 * the tensor in host memory, which is row-major in a group. In a group dtype and ndim are known,
 * but for optional results that nothing reads.
 *
 * Ownership: everything is valid until the function that received the view returns. */
typedef struct tenon_graph_view_t {
  uint32_t size;
  uint32_t node_count;
  uint32_t edge_count;
  uint32_t input_count;
  uint32_t output_count;
  uint32_t reserved;
  const tenon_graph_node_t *const *nodes; /* In an order in which they can run. */
  const tenon_meta_t *const *edges;
  const char *const *names; /* Names of the edges. */
  const uint32_t *inputs;   /* Edges that come from outside and are not constants. */
  const uint32_t *outputs;  /* Edges that are used outside. */
} tenon_graph_view_t;

/* Receives the claims of a plug-in: the subgraphs that it wants to be offloaded to it.  The host
 * copies strings and lists. */
typedef struct tenon_claims_t {
  uint32_t size;
  uint32_t reserved;
  /* Claims nodes (indices into view->nodes) as one group, and states the reason. */
  tenon_status_t (*take)(struct tenon_claims_t *claims, uint32_t node_count, const uint32_t *nodes,
                         const char *reason);
  /* States for the report why a node is not claimed.  Optional. */
  tenon_status_t (*leave)(struct tenon_claims_t *claims, uint32_t node, const char *reason);
} tenon_claims_t;

typedef struct tenon_group_run_t {
  uint32_t size;
  uint32_t input_count;
  uint32_t output_count;
  uint32_t reserved;
  uint64_t ticket;
  void *group;
  /* Inputs and outputs in the order of the group's view: row-major, on the ordinal, with the shapes
   * that infer computed, possibly without elements.
   * Ownership: the structures are valid until group_run returns, their memory until the work is
   * done. */
  tenon_tensor_t *const *inputs;
  tenon_tensor_t *const *outputs;
} tenon_group_run_t;

typedef struct tenon_device_table_t {
  uint32_t size;
  uint32_t abi; /* TENON_DEVICE_ABI */
  /* The backend's name, as in TENON_KERNEL("name", ...): small letters, digits and '_'. */
  const char *name;
  /* The device type of DLPack: 2 CUDA, 4 OpenCL, ...; 12 for devices that DLPack does not
   * number. */
  int32_t type;
  uint32_t reserved;

  /* ---- required functions -------------------------------------------------------------------- */

  /* Discovers drivers and hardware, and reports the number of ordinals, at most 256.  May set
   * context->plugin.  The host calls it once, when a program first uses a device of this name.
   * Errors: TENON_UNAVAILABLE if there is no device, with a message that says what is missing.  The
   * failure is reported to the caller and shown by `tenon devices`; other plug-ins are
   * unaffected. */
  tenon_status_t (*enumerate)(tenon_device_context_t *context, int32_t *out_count);

  /* Opens one ordinal, before any other function uses it.  May set context->state. */
  tenon_status_t (*start)(tenon_device_context_t *context);

  /* Waits for all work of the ordinal and frees its resources.  The host uses nothing of it
   * later. */
  void (*stop)(tenon_device_context_t *context);

  tenon_status_t (*properties)(tenon_on_t on, tenon_device_properties_t *out);

  /* Allocates at least `bytes` > 0 of memory with undefined contents.
   * Errors: after TENON_MEMORY, the host frees its cached memory and tries again. */
  tenon_status_t (*allocate)(tenon_on_t on, uint64_t bytes, void **out_handle);

  /* Frees memory.  Enqueued work that uses this memory completes first. */
  void (*free)(tenon_on_t on, void *handle);

  /* Enqueues a copy: IN, OUT, WITHIN and, if the table has `peers`, PEER.  The host memory of IN
   * and OUT remains unchanged until the stream has passed the copy.  If host memory is not pinned,
   * the copy may complete before the function returns; a copy OUT then waits for earlier work of
   * the stream. */
  tenon_status_t (*copy)(tenon_on_t on, void *stream, const tenon_copy_t *copy);

  /* Waits for all streams, including destroyed ones.
   * Returns: the first failure that is still present in any stream.  Failed streams remain
   * failed. */
  tenon_status_t (*synchronize)(tenon_on_t on);

  /* ---- streams: all of these functions or none ----------------------------------------------- */
  /* Without them, the only stream is NULL, and all work is done when a function returns. */

  tenon_status_t (*stream_create)(tenon_on_t on, void **out_stream);

  /* Destroys a stream.  Enqueued work still completes. */
  void (*stream_destroy)(tenon_on_t on, void *stream);

  /* Tests whether the work of a stream is done.
   * Returns: TENON_OK; TENON_UNAVAILABLE if it is not done yet, without a message; or the failure
   * of its work, with `fault` filled in. */
  tenon_status_t (*stream_query)(tenon_on_t on, void *stream, tenon_fault_t *fault);

  /* Waits for a stream.
   * Returns: as stream_query, but never TENON_UNAVAILABLE. */
  tenon_status_t (*stream_synchronize)(tenon_on_t on, void *stream, tenon_fault_t *fault);

  /* ---- events: all of these functions or none ------------------------------------------------ */
  /* Without them, the host waits where one stream follows another. */

  tenon_status_t (*event_create)(tenon_on_t on, void **out_event);

  /* Destroys an event.  Streams that wait for it continue to wait. */
  void (*event_destroy)(tenon_on_t on, void *event);

  /* Makes the event stand for the work enqueued in the stream so far.  Streams that already wait
   * for the event still wait for the work it stood for before. */
  tenon_status_t (*event_record)(tenon_on_t on, void *event, void *stream);

  /* As stream_query.  An event that was never recorded returns TENON_OK. */
  tenon_status_t (*event_query)(tenon_on_t on, void *event);

  /* Waits for the event. */
  tenon_status_t (*event_synchronize)(tenon_on_t on, void *event);

  /* Makes all later work of the stream follow the event, which may belong to another ordinal,
   * `of`. */
  tenon_status_t (*stream_wait)(tenon_on_t on, void *stream, tenon_on_t of, void *event);

  /* Reports the time of the event in nanoseconds, on a clock of the ordinal.  NULL: events have no
   * times.
   * Errors: TENON_UNAVAILABLE if the event has not happened yet. */
  tenon_status_t (*event_time)(tenon_on_t on, void *event, int64_t *out_time);

  /* ---- optional functions -------------------------------------------------------------------- */

  /* Reports the free bytes of memory, as far as the plug-in can tell.  NULL: the host subtracts
   * what it allocated from properties.memory. */
  tenon_status_t (*memory_free)(tenon_on_t on, uint64_t *out_bytes);

  /* Fills memory with a pattern of 1, 2, 4 or 8 bytes.  `bytes` and the offset are multiples of the
   * size of the pattern.  NULL: the host copies from its own memory. */
  tenon_status_t (*fill)(tenon_on_t on, void *stream, uint64_t ticket, tenon_memory_t to,
                         uint64_t bytes, const void *pattern, uint32_t pattern_bytes);

  /* Returns 1 if copies from the ordinal `from` are direct.  NULL or 0: the host copies through its
   * own memory and requests no PEER copy. */
  int32_t (*peers)(tenon_on_t on, tenon_on_t from);

  /* Allocates and frees pinned host memory, which copies access directly.  NULL: ordinary
   * memory. */
  tenon_status_t (*host_allocate)(tenon_on_t on, uint64_t bytes, void **out_data);
  void (*host_free)(tenon_on_t on, void *data);

  /* Enqueues a call of function(argument, status).  NULL: the host waits, then calls the function.
   * Arguments: `status` is the failure of the stream, or TENON_OK.
   * Threads: the function runs on any thread, and calls no function of the device. */
  tenon_status_t (*callback)(tenon_on_t on, void *stream,
                             void (*function)(void *argument, tenon_status_t status),
                             void *argument);

  /* Returns a native object by name ("cl_context"; "cl_command_queue" of a stream), or NULL if
   * there is none of this name.  NULL: the device has no native objects. */
  void *(*native)(tenon_on_t on, const char *name, void *stream);

  /* Wraps memory and streams of other owners as handles and streams of this table, until `forget`
   * returns them.  Both functions of a pair, or neither.  NULL: streams are refused; so is memory,
   * unless the device has addresses: then every address is accepted. */
  tenon_status_t (*memory_import)(tenon_on_t on, void *native, uint64_t bytes, void **out_handle);
  void (*memory_forget)(tenon_on_t on, void *handle);
  tenon_status_t (*stream_import)(tenon_on_t on, void *native, void **out_stream);
  void (*stream_forget)(tenon_on_t on, void *stream);

  /* Makes the ordinal usable in the child of a fork, or fails and says why not.  The host calls it
   * once for each ordinal, in the child.  NULL: the device is lost in the child. */
  tenon_status_t (*forked)(tenon_on_t on);

  /* ---- run-time compilation: all of these functions or none ---------------------------------- */
  /* Without them, operators with source kernels run elsewhere. */

  /* Compiles source code.
   * Errors: the message includes the compiler's messages, with file and line of the source. */
  tenon_status_t (*compile)(tenon_on_t on, const tenon_source_t *source, tenon_sink_t *out_code);

  tenon_status_t (*program_load)(tenon_on_t on, const void *code, uint64_t bytes,
                                 void **out_program);

  /* Unloads a program.  Enqueued work still completes. */
  void (*program_unload)(tenon_on_t on, void *program);

  tenon_status_t (*kernel_find)(tenon_on_t on, void *program, const char *name, void **out_kernel);

  tenon_status_t (*launch)(tenon_on_t on, void *stream, const tenon_launch_t *launch);

  /* ---- captured graphs: all of these functions or none --------------------------------------- */
  /* Without them, the host enqueues the work again each time. */

  /* Starts to capture: the work enqueued in the stream until record_end goes into the recording
   * instead of the device.  The host enqueues copies, fills and launches; the device refuses what
   * it cannot capture. */
  tenon_status_t (*record_begin)(tenon_on_t on, void *stream);

  /* Ends the capture.
   * Ownership: the recording outlives its stream. */
  tenon_status_t (*record_end)(tenon_on_t on, void *stream, void **out_recording);

  /* Enqueues the captured work. */
  tenon_status_t (*replay)(tenon_on_t on, void *stream, void *recording, uint64_t ticket);

  void (*recording_free)(tenon_on_t on, void *recording);

  /* ---- offloaded subgraphs (since 1.1): all of these functions or none ----------------------- */
  /* Without them, each node is a call of its own. */

  /* Claims groups of nodes to be offloaded: the device runs each group as one.  No path may leave a
   * group and return to it.  The host rejects a group that cannot run as one (docs/devices.md,
   * "Claims"); its nodes then run as if they were not claimed, and the report says why.
   * Arguments: `settings`: the user's, "key=value,..." or "".
   * Errors: TENON_INVALID for wrong settings, which ends the compilation.  After any other failure,
   * nothing is claimed. */
  tenon_status_t (*claim)(tenon_on_t on, const tenon_graph_view_t *graph, const char *settings,
                          tenon_claims_t *out);

  /* Compiles a group and copies what it needs of its constants.  May take long.
   * Errors: after a failure, the host runs the nodes of the group one by one. */
  tenon_status_t (*group_compile)(tenon_on_t on, const tenon_graph_view_t *group,
                                  const char *settings, void **out_group);

  /* Enqueues a run of the group, like a launch.  Several runs may be enqueued at the same time,
   * also of one group.  A run does not change its inputs. */
  tenon_status_t (*group_run)(tenon_on_t on, void *stream, const tenon_group_run_t *run);

  /* Serialises a compiled group with its weights, for an ordinal with the same properties.name,
   * driver and target.
   * Errors: after a failure, the host compiles the group each time. */
  tenon_status_t (*group_save)(tenon_on_t on, void *group, tenon_sink_t *out_bytes);

  /* Loads a serialised group.
   * Errors: TENON_INVALID for bytes that are damaged, or that come from somewhere else. */
  tenon_status_t (*group_load)(tenon_on_t on, const void *bytes, uint64_t size, void **out_group);

  /* Frees a group.  Enqueued work still completes. */
  void (*group_free)(tenon_on_t on, void *group);
} tenon_device_table_t;

/* clang-format off */
/* The item that declares a device.  Precedes the first operator. */
#define TENON_DEVICE(table) \
  { TENON_TAG_DEVICE, 0, 0 * (int64_t)sizeof((table)->enumerate), (table), 0 }
/* clang-format on */

#ifdef __cplusplus
}
#endif
#endif
