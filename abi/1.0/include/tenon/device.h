/* tenon/device.h: what an accelerator's plug-in and its host know of each other.  Contract version 1.1.
 *
 * A plug-in is a library (op.h) that has an item TENON_DEVICE(&table): a constant table of functions, which may differ from
 * ordinal to ordinal in what they find, not in what they are.  The same library may carry operators, and kernels for those of
 * others.  The host does the rest: it caches memory, orders streams, moves tensors, counts, and names what failed.
 *
 * Rules of this file.  Structures start with their size and grow only at the end.  A slot that is NULL, or past the size of
 * the table, is absent, and the comment at the slot says what the host does then.  Every function gets the context of one
 * ordinal and may be called by several threads at once, also for one stream.  A function that fails says why by
 * tenon_fail(context, code, ...), has changed nothing, and may be called again; what frees, destroys or stops cannot fail.
 * Nothing is thrown out, and no function but those that say "waits" waits for work of the device.
 *
 * Memory is a handle and an offset in bytes, never taken for an address by the host unless the properties say so
 * (TENON_DEVICE_ADDRESSES: then data = handle + offset in tensors and byte_offset is 0; else data = handle).  Parts of one
 * allocation are used by several streams at once.
 *
 * Streams.  Work on one stream is done in the order in which it was enqueued; on two, in any order, but for events.  A
 * stream that is NULL is the ordinal's own first one.  A device without streams does all work before its functions return.
 * What is enqueued carries the `ticket` of the call that it belongs to, a number that grows along each stream.  Work that
 * fails later makes its stream fail for good: all that comes after it there is left undone, functions of the stream give
 * that failure and its ticket, and streams that wait for its events fail the same way.  Other streams go on.  Work fails with any code
 * but TENON_UNAVAILABLE, which is "not yet" in queries. */
#ifndef TENON_DEVICE_H
#define TENON_DEVICE_H

#include <tenon/op.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_DEVICE_ABI 0x10001u /* major << 16 | minor */

/* clang-format off */
enum { /* features, of tenon_device_properties_t */
  TENON_DEVICE_ADDRESSES = 1,   /* memory has flat addresses: handle + offset is one, for kernels and in DLPack */
  TENON_DEVICE_HOST_READS = 2,  /* such an address can be read and written by the host, when no work uses it */
  TENON_DEVICE_OVERLAPS = 4,    /* copies of one stream run beside kernels of another */
  TENON_DEVICE_TIMES = 8,       /* events have times */
  TENON_DEVICE_WIDE_ATOMICS = 16, /* atomic operations on 64 bits */
  TENON_DEVICE_BLAMES = 32      /* failures of work name their ticket; else it is one of those since the last wait */
};

enum { /* directions of copies */
  TENON_COPY_IN = 1,     /* from host memory */
  TENON_COPY_OUT = 2,    /* to host memory */
  TENON_COPY_WITHIN = 3, /* on the ordinal; ranges that overlap are copied as by memmove */
  TENON_COPY_PEER = 4    /* from another ordinal of the plug-in */
};

enum { /* languages of sources */
  TENON_SOURCE_OPENCL = 1, /* OpenCL C 1.2 */
  TENON_SOURCE_CUDA = 2,   /* CUDA C++, for NVRTC */
  TENON_SOURCE_C = 3       /* C11: a function of each kernel, see docs/devices.md */
};

enum { /* kinds of a kernel's arguments */
  TENON_ARG_MEMORY = 1, /* handle and offset: one pointer; with a kernel that takes offsets, pointer and int64 */
  TENON_ARG_BYTES = 2,  /* `size` bytes at `data` */
  TENON_ARG_LOCAL = 3   /* `size` bytes of memory of each group */
};
enum { TENON_ACCESS_READ = 1, TENON_ACCESS_WRITE = 2 }; /* of the `size` bytes from there on; 0: not told */
/* clang-format on */

/* One ordinal of a plug-in, as every function is given it.  It lives at this address as long as the plug-in is open. */
typedef struct tenon_device_context_t {
  uint32_t size, phase; /* TENON_PHASE_DEVICE */
  const tenon_host_t *host;
  tenon_device_t device; /* as tensors of it say */
  int32_t ordinal;       /* 0, 1, ...; of enumerate -1 */
  uint32_t reserved;
  void *plugin;         /* set by enumerate: the same for all ordinals */
  void *state;          /* set by start: of this ordinal */
  const char *settings; /* of the user: "key=value,key=value", "" if there are none (environment: TENON_<NAME>) */
} tenon_device_context_t;

typedef struct tenon_device_properties_t { /* size is the host's; zero: none, or not known.  Texts live until stop */
  uint32_t size, features;
  const char *name;   /* of the hardware: "NVIDIA H200" */
  const char *driver; /* and its version: "PoCL 3.1" */
  const char *target; /* what compiled code depends on: code of another target is never loaded */
  uint64_t memory;    /* bytes in all */
  uint64_t largest;   /* bytes of the largest allocation; 0: as memory */
  uint32_t
      alignment; /* of offsets that the host hands out, and of handles that are addresses: a power of two, at least 64 */
  uint32_t units;      /* processors */
  uint32_t group_most; /* items of a group */
  uint32_t languages;  /* bit i: takes sources of language i */
  uint64_t local_most; /* bytes of local memory of a group */
  /* Lists of TENON_F32, ... that end with 0; NULL: of every dtype.  What memory may hold, kernels compute with, and
   * atomic additions take. */
  const uint32_t *stores, *computes, *atomics;
  const uint32_t *layouts; /* kinds of tenon_detail_t that tensors of it may have, up to 0; NULL: only dense ones */
} tenon_device_properties_t;

typedef struct tenon_memory_t { /* a place in the device's memory */
  void *handle;
  uint64_t offset;
} tenon_memory_t;

typedef struct tenon_copy_t {
  uint32_t size, direction;
  uint64_t ticket, bytes;             /* bytes > 0 */
  tenon_memory_t from, to;            /* the host's side: an address, and offset 0 */
  const tenon_device_context_t *peer; /* PEER: whose memory `from` is */
} tenon_copy_t;

typedef struct tenon_fault_t { /* what failed in a stream */
  uint32_t size, reserved;
  uint64_t ticket; /* 0: not known */
} tenon_fault_t;

typedef struct tenon_source_t {
  uint32_t size, language;
  const char *text; /* ends with 0 */
  uint64_t text_size;
  const char *file;    /* for messages, which name its lines */
  const char *options; /* of the compiler */
} tenon_source_t;

typedef struct tenon_sink_t { /* takes bytes of a size that the writer knows */
  uint32_t size, reserved;
  void *(*reserve)(struct tenon_sink_t *sink, uint64_t bytes); /* once; NULL: no memory, and said so */
} tenon_sink_t;

typedef struct tenon_kernel_argument_t {
  uint32_t kind, access; /* access: TENON_ACCESS_..., of MEMORY */
  uint64_t size;
  union {
    tenon_memory_t memory;
    const void *data;
  } as;
} tenon_kernel_argument_t;

typedef struct tenon_launch_t {
  uint32_t size, argument_count;
  uint64_t ticket;
  void *kernel;
  const tenon_kernel_argument_t *arguments; /* copied before launch returns */
  uint64_t groups[3];                       /* each > 0 */
  uint32_t group[3];                        /* items of a group */
  uint32_t reserved;
} tenon_launch_t;

typedef const tenon_device_context_t *tenon_on_t; /* "on this ordinal" */

/* ---- graphs, to look at --------------------------------------------------------------------------------------------- */

/* A node.  The edges of tensor argument i of its operator's schema are inputs[starts[i]] to inputs[starts[i + 1] - 1]: one; of
 * an argument that is absent none; of `Tensor[]` its items.  Outputs are the results in order, items of lists one by one. */
typedef struct tenon_graph_node_t {
  uint32_t size, attr_count;
  const char *op;             /* "core::matmul" */
  const char *name;           /* the model's, for messages */
  int64_t version;            /* of the operator */
  const tenon_value_t *attrs; /* as of calls */
  uint32_t argument_count, output_count;
  const uint32_t *starts; /* argument_count + 1 */
  const uint32_t *inputs, *outputs;
  uint32_t taken, reserved; /* 1: another device has it, by a claim or a pin; paths go through it all the same */
} tenon_graph_node_t;

/* A graph, or a group of its nodes.  Nodes are in an order in which they may run.  An edge is a meta: dtype (bits 0: unknown),
 * ndim (-1: unknown), dims (equal symbols are equal extents), `values` of small integer tensors as far as they are known,
 * and of a constant `value`: the tensor, in host memory, in a group row-major.  All of it lives until the function that is given it returns. */
typedef struct tenon_graph_view_t {
  uint32_t size, node_count, edge_count, input_count, output_count, reserved;
  const tenon_graph_node_t *const *nodes;
  const tenon_meta_t *const *edges;
  const char *const *names;         /* of edges */
  const uint32_t *inputs, *outputs; /* edges that come from outside and are no constants; that are used outside */
} tenon_graph_view_t;

typedef struct tenon_claims_t { /* takes claims; texts and lists are copied */
  uint32_t size, reserved;
  /* These nodes (places in view->nodes), as one group, for that reason. */
  tenon_status_t (*take)(struct tenon_claims_t *claims, uint32_t node_count, const uint32_t *nodes, const char *reason);
  /* Why a node was left, for the report; nodes may be left without a word. */
  tenon_status_t (*leave)(struct tenon_claims_t *claims, uint32_t node, const char *reason);
} tenon_claims_t;

typedef struct tenon_group_run_t {
  uint32_t size, input_count, output_count, reserved;
  uint64_t ticket;
  void *group;
  /* As the group's view lists them: row-major, on the ordinal, with shapes that infer gave; perhaps without elements. The
   * structures live until group_run returns, their memory until the work is done. */
  tenon_tensor_t *const *inputs, *const *outputs;
} tenon_group_run_t;

typedef struct tenon_device_table_t {
  uint32_t size, abi;
  const char *name; /* the backend's, as in TENON_KERNEL("name", ...) */
  int32_t type;     /* DLPack's: 2 CUDA, 4 OpenCL, ...; 12 for what DLPack has no number for */
  uint32_t reserved;

  /* ---- what every plug-in has --------------------------------------------------------------------------------------- */

  /* Looks for drivers and hardware, once, when the first wants a device of this name; at most 256.  May set
   * context->plugin.  A failure is told to who asked, and shown in `tenon devices`; others work on.  None found: fail with
   * TENON_UNAVAILABLE and say what is missing. */
  tenon_status_t (*enumerate)(tenon_device_context_t *context, int32_t *out_count);
  /* Opens one ordinal, before any other function of it; may set context->state. */
  tenon_status_t (*start)(tenon_device_context_t *context);
  /* Waits for all work, and lets go of it.  Nothing of the ordinal is used any more. */
  void (*stop)(tenon_device_context_t *context);
  tenon_status_t (*properties)(tenon_on_t on, tenon_device_properties_t *out);
  /* Memory of at least `bytes` > 0, contents undefined.  TENON_MEMORY: the host gives back what it caches and tries again. */
  tenon_status_t (*allocate)(tenon_on_t on, uint64_t bytes, void **out_handle);
  void (*free)(tenon_on_t on, void *handle); /* work that uses it may still be enqueued: it is done first */
  /* IN and OUT: host memory stays as it is until the stream has passed the copy; memory that is not pinned may be copied
   * before this returns (and OUT then waits).  WITHIN and, if the slot `peers` is there, PEER too. */
  tenon_status_t (*copy)(tenon_on_t on, void *stream, const tenon_copy_t *copy);
  /* Waits until all streams are done, those that were destroyed too.  Gives the first failure of any that is still there;
   * streams that failed stay so. */
  tenon_status_t (*synchronize)(tenon_on_t on);

  /* ---- streams: all of these or none.  None: there is one stream, NULL, and all work is done when a function returns ----- */

  tenon_status_t (*stream_create)(tenon_on_t on, void **out_stream);
  void (*stream_destroy)(tenon_on_t on, void *stream); /* what is enqueued is still done */
  /* Is it done?  TENON_OK, TENON_UNAVAILABLE (not yet; nothing is said), or the failure of its work, with `fault` filled in. */
  tenon_status_t (*stream_query)(tenon_on_t on, void *stream, tenon_fault_t *fault);
  tenon_status_t (*stream_synchronize)(tenon_on_t on, void *stream, tenon_fault_t *fault); /* waits, then the same */

  /* ---- events: all of these or none.  None: the host waits where one stream follows another ----------------------------- */

  tenon_status_t (*event_create)(tenon_on_t on, void **out_event);
  void (*event_destroy)(tenon_on_t on, void *event); /* who waits for it waits on */
  /* It stands for what is in the stream so far; what it stood for before is forgotten, by who waits already not. */
  tenon_status_t (*event_record)(tenon_on_t on, void *event, void *stream);
  tenon_status_t (*event_query)(tenon_on_t on, void *event); /* as stream_query; never recorded: TENON_OK */
  tenon_status_t (*event_synchronize)(tenon_on_t on, void *event);
  /* What is enqueued in the stream from here on follows the event, which may be another ordinal's (`of`). */
  tenon_status_t (*stream_wait)(tenon_on_t on, void *stream, tenon_on_t of, void *event);
  /* Nanoseconds on a clock of the ordinal.  NULL: events have no times.  UNAVAILABLE: not yet. */
  tenon_status_t (*event_time)(tenon_on_t on, void *event, int64_t *out_time);

  /* ---- optional ------------------------------------------------------------------------------------------------------ */

  /* Bytes that are free, as far as anybody can tell.  NULL: what the host did not allocate of properties.memory. */
  tenon_status_t (*memory_free)(tenon_on_t on, uint64_t *out_bytes);
  /* Sets `bytes` to a pattern of 1, 2, 4 or 8 bytes; bytes and the offset are multiples of its size.  NULL: a copy from the
   * host. */
  tenon_status_t (*fill)(tenon_on_t on, void *stream, uint64_t ticket, tenon_memory_t to, uint64_t bytes,
                         const void *pattern, uint32_t pattern_bytes);
  /* 1: copies from that ordinal go directly.  NULL, or 0: the host copies through its own memory, and asks for none. */
  int32_t (*peers)(tenon_on_t on, tenon_on_t from);
  /* Host memory that copies go to and from without another one between.  NULL: ordinary memory. */
  tenon_status_t (*host_allocate)(tenon_on_t on, uint64_t bytes, void **out_data);
  void (*host_free)(tenon_on_t on, void *data);
  /* function(argument) is called, on any thread, when the stream comes here; status: the stream's failure, or OK.  It calls
   * no function of the device.  NULL: the host waits, then calls it. */
  tenon_status_t (*callback)(tenon_on_t on, void *stream, void (*function)(void *argument, tenon_status_t status),
                             void *argument);
  /* A native object by name ("cl_context", "cl_command_queue" of a stream); NULL: there is none of that name.  The slot
   * NULL: there are none. */
  void *(*native)(tenon_on_t on, const char *name, void *stream);
  /* Memory and streams that others own, as handles and streams of this table, until they are given back.  NULL: refused. */
  tenon_status_t (*memory_import)(tenon_on_t on, void *native, uint64_t bytes, void **out_handle);
  void (*memory_forget)(tenon_on_t on, void *handle);
  tenon_status_t (*stream_import)(tenon_on_t on, void *native, void **out_stream);
  void (*stream_forget)(tenon_on_t on, void *stream);
  /* In the child after a fork, once for each ordinal: make it usable, or say why not.  NULL: it is lost there. */
  tenon_status_t (*forked)(tenon_on_t on);

  /* ---- code that is compiled here: all of these or none.  None: operators from source run elsewhere ---------------------- */

  /* Messages of the compiler, with file and lines of the source, go into the failure. */
  tenon_status_t (*compile)(tenon_on_t on, const tenon_source_t *source, tenon_sink_t *out_code);
  tenon_status_t (*program_load)(tenon_on_t on, const void *code, uint64_t bytes, void **out_program);
  void (*program_unload)(tenon_on_t on, void *program); /* what is enqueued is still done */
  tenon_status_t (*kernel_find)(tenon_on_t on, void *program, const char *name, void **out_kernel);
  tenon_status_t (*launch)(tenon_on_t on, void *stream, const tenon_launch_t *launch);

  /* ---- work that is recorded: all of these or none.  None: it is enqueued anew each time -------------------------------- */

  /* What is enqueued in the stream goes into the recording, not to the device, until record_end: copies, fills,
   * launches; what a device cannot record it refuses.  A recording outlives its stream. */
  tenon_status_t (*record_begin)(tenon_on_t on, void *stream);
  tenon_status_t (*record_end)(tenon_on_t on, void *stream, void **out_recording);
  tenon_status_t (*replay)(tenon_on_t on, void *stream, void *recording, uint64_t ticket);
  void (*recording_free)(tenon_on_t on, void *recording);

  /* ---- groups of a graph's nodes (1.1): all of these or none.  None: each node is a call of its own --------------------- */

  /* Tells `out` which nodes it wants to run as one, in groups of which no path leaves that comes back.  A group that cannot
   * be one (docs/devices.md, "Claims") is handed back: its nodes run as if they had not been claimed, and the report says why.
   * settings: the user's, "key=value,...", or "".  TENON_INVALID: they are wrong, which ends the compilation; after any other
   * failure nothing is claimed. */
  tenon_status_t (*claim)(tenon_on_t on, const tenon_graph_view_t *graph, const char *settings, tenon_claims_t *out);
  /* Makes code of a group, takes what it needs of its constants, and may take long.  A failure: the group is handed back. */
  tenon_status_t (*group_compile)(tenon_on_t on, const tenon_graph_view_t *group, const char *settings,
                                  void **out_group);
  /* Enqueues it, as a launch.  Several may be enqueued at once, also of one group.  Inputs stay as they are. */
  tenon_status_t (*group_run)(tenon_on_t on, void *stream, const tenon_group_run_t *run);
  /* The compiled group as bytes, weights too, for an ordinal of the same properties.name, driver and target.  A failure: it
   * is compiled anew each time. */
  tenon_status_t (*group_save)(tenon_on_t on, void *group, tenon_sink_t *out_bytes);
  /* Bytes that may be damaged, or of somebody else: refused then, with TENON_INVALID. */
  tenon_status_t (*group_load)(tenon_on_t on, const void *bytes, uint64_t size, void **out_group);
  void (*group_free)(tenon_on_t on, void *group); /* what is enqueued is still done */
} tenon_device_table_t;

/* Of the library: before its first operator. */
#define TENON_DEVICE(table)                                                                                            \
  { TENON_TAG_DEVICE, 0, 0 * (int64_t)sizeof((table)->enumerate), (table), 0 }

#ifdef __cplusplus
}
#endif
#endif
