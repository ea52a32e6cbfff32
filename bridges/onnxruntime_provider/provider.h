/* Tenon as an execution provider of ONNX Runtime: what the files of this folder share.
 *
 * ONNX Runtime opens the library and asks its factory (factory.c) for devices, and for a provider
 * for each session. It offers the provider the graph (capability.c); nodes that Tenon can import
 * form groups (groups.c) that are compiled before they are taken. Compile (compile.c) makes an
 * executable of each group, which compute.c runs. */
#ifndef BRIDGES_ONNXRUNTIME_PROVIDER_PROVIDER_H
#define BRIDGES_ONNXRUNTIME_PROVIDER_PROVIDER_H

#include <pthread.h>

#include "api.h"
#include "base/text.h"
#include "common/message.h"
#include "model.h"
#include "nodes.h"

#define PROVIDER_NAME "tenon"

/* ---- options (options.c) --------------------------------------------------------------------- */

typedef struct options_t {
  int32_t threads;  /* 0: Tenon's default */
  int32_t smallest; /* the fewest nodes of a group */
  bool is_plain;    /* no rewriting of graphs */
  char *leave;      /* ",Softmax,com.acme::Foo,": operators that stay; NULL: none */
  char *report;     /* a file to which the lines of the report are appended; NULL: none */
  bool saves_contexts;
  bool embeds_contexts;
  char *context_path;   /* of the model with the saved groups; NULL: beside the model */
  char *context_prefix; /* of the names of its nodes */
} options_t;

/* Reads the options of a session. The caller calls options_clear, also after a failure. */
tenon_status_t options_read(const OrtSessionOptions *session, const char *provider,
                            options_t *out_options);
void options_clear(options_t *options);
/* Does the user want the operator to stay outside? */
bool options_leave(const options_t *options, const node_t *node);

/* ---- the report (report.c) ------------------------------------------------------------------- */

/* Adds a line to the report of the process, the file and the log. */
void report_add(const options_t *options, const OrtLogger *logger, const char *line);
/* Returns the lines of all graphs, each with a line break; `clear` forgets them.
 * Ownership: valid until the next call. */
TENON_EXPORT const char *tenon_onnxruntime_provider_report(int32_t clear);

/* ---- devices (device.c) ---------------------------------------------------------------------- */

/* A device of Tenon as one of ONNX Runtime, whose allocator and copies the factory serves. */
typedef struct factory_t {
  OrtEpFactory factory;    /* first, as ONNX Runtime knows only this */
  char *name;              /* of the provider: "tenon", or "tenon:sim:0" */
  const char *device_name; /* "cpu", "sim:0" */
  tenon_device_t device;
  OrtMemoryInfo *memory; /* of the device; NULL: the processor */
} factory_t;

/* Finds a device by its name, and lets nodes for which it has no kernel run on the CPU. */
tenon_status_t device_open(const char *name, tenon_device_t *out_device);
/* Sets the functions of the factory for memory of its device. */
void device_serve(factory_t *factory);
/* Copies a tensor on the host to memory that the work of the device can read later. ONNX Runtime
 * may write to a value as soon as the work has been enqueued. */
tenon_status_t device_stage(const factory_t *factory, const tenon_tensor_t *tensor,
                            tenon_tensor_t **out_staged);
/* A view of a value that lies in memory of a device; NULL in *out_tensor: it is in host memory. */
tenon_status_t device_view(const void *data, tenon_dtype_t dtype, int32_t ndim,
                           const int64_t *shape, tenon_tensor_t **out_tensor);

/* ---- streams (stream.c) ---------------------------------------------------------------------- */

/* A stream in which this thread enqueues work. Without a stream of ONNX Runtime the stream is
 * one of its own, so that a failure ends with it. */
typedef struct stream_use_t {
  tenon_device_t device;
  struct ep_stream_t *owner; /* NULL: no stream of ONNX Runtime for this device */
  tenon_stream_t *stream;
  tenon_stream_t *before;
} stream_use_t;

/* Sets the functions of the factory for streams of its device. */
void stream_serve(factory_t *factory);
/* Makes this thread use the stream with this handle, which ONNX Runtime has handed over, or NULL.
 * The caller calls stream_end, also after a failure. */
tenon_status_t stream_begin(const factory_t *factory, void *handle, stream_use_t *out_use);
/* Ends the use, and waits for the work if `waits`, or if ONNX Runtime has no stream for it.
 * `status`: that of the work. Returns: `status`, or the failure of the stream. */
tenon_status_t stream_end(stream_use_t *use, tenon_status_t status, bool waits);

/* ---- threads (threads.c) --------------------------------------------------------------------- */

typedef struct threads_t { /* of one run */
  tenon_thread_pool_t pool;
  const tenon_thread_pool_t *before;
  const OrtKernelContext *context;
  int32_t count;
} threads_t;

/* Lets the threads of the session run the loops that this thread begins, until threads_leave.
 * `count`: the most threads of a loop; 0: as everywhere in Tenon. */
void threads_enter(threads_t *threads, const OrtKernelContext *context, int32_t count);
void threads_leave(const threads_t *threads);

/* ---- the provider ---------------------------------------------------------------------------- */

typedef struct provider_t { /* of one session */
  OrtEp ep;                 /* first, as ONNX Runtime knows only this */
  const factory_t *factory;
  options_t options;
  const OrtLogger *logger;
  char description[160];   /* for GetCompiledModelCompatibilityInfo */
  struct program_t *ready; /* groups that GetCapability has compiled, for Compile */
} provider_t;

/* ---- groups (groups.c) ----------------------------------------------------------------------- */

/* Numbers the groups of the nodes that can be taken, node_t.level. Nodes of one group may run as
 * one, because no path leaves the group and comes back.
 * Returns: the number of groups; some may be empty. */
int32_t groups_find(nodes_t *nodes);

/* The inputs and outputs of a group.
 *
 * Ownership: the arena of the nodes has the values. */
tenon_status_t groups_bound(nodes_t *nodes, node_t *const *items, size_t count,
                            values_t *out_inputs, values_t *out_outputs);

/* ---- capability (capability.c) --------------------------------------------------------------- */

OrtStatus *provider_capability(OrtEp *ep, const OrtGraph *graph, OrtEpGraphSupportInfo *support);

/* ---- compilation (compile.c) ----------------------------------------------------------------- */

/* Compiles a model, which the program takes over also after a failure. The caller releases the
 * program. */
tenon_status_t program_create(const provider_t *provider, message_t *model,
                              struct program_t **out_program);
void program_release(struct program_t *program);
/* Releases what GetCapability compiled and nobody took. */
void provider_forget(provider_t *provider);
OrtStatus *provider_compile(OrtEp *ep, const OrtGraph **graphs, const OrtNode **fused, size_t count,
                            OrtNodeComputeInfo **out_infos, OrtNode **out_contexts);
void provider_release_infos(OrtEp *ep, OrtNodeComputeInfo **infos, size_t count);

/* ---- runs (compute.c) ------------------------------------------------------------------------ */

/* Where the extent of an output comes from. */
typedef struct extent_t {
  int64_t extent; /* -1: that of an input */
  int32_t input;
  int32_t axis;
} extent_t;

typedef struct output_t {
  tenon_dtype_t dtype;
  int32_t ndim;      /* -1: only a run knows the shape */
  extent_t *extents; /* one for each axis */
} output_t;

typedef struct program_t { /* a compiled group */
  OrtNodeComputeInfo info; /* first, as ONNX Runtime knows only this */
  struct program_t *next;  /* of provider_t.ready */
  const provider_t *provider;
  message_t model;
  tenon_graph_t *graph;
  tenon_executable_t *executable;
  char *name;
  int32_t input_count;
  int32_t output_count;
  int32_t *ranks; /* of the inputs */
  output_t *outputs;
  size_t room; /* for the strides of one run */
} program_t;

/* Finds out what a run needs to know of the outputs. */
tenon_status_t program_prepare(program_t *program);
/* Sets the functions that ONNX Runtime calls. */
void program_serve(program_t *program);

/* ---- strings (strings.c) --------------------------------------------------------------------- */

/* Copies the strings of a value to a new tensor. */
tenon_status_t strings_read(const OrtValue *value, int32_t ndim, const int64_t *shape,
                            tenon_tensor_t **out_tensor);
tenon_status_t strings_write(const tenon_tensor_t *tensor, OrtValue *value);

/* ---- saved groups (context.c) ---------------------------------------------------------------- */

bool context_is_node(const node_t *node);
/* Reads the model of a node EPContext.
 *
 * Errors: another version, device or processor; damaged bytes. */
tenon_status_t context_read(const provider_t *provider, const OrtGraph *graph, const node_t *node,
                            message_t *out_model);
/* Makes the node EPContext of a group. */
tenon_status_t context_write(const provider_t *provider, const OrtGraph *graph, const node_t *fused,
                             const message_t *model, OrtNode **out_node);
/* What a saved group depends on, as a text. */
void context_describe(const provider_t *provider, char *text, size_t capacity);
/* Whether this library on this processor can use a group with this description. */
ep_compatibility_t context_judge(const char *text);

#endif
