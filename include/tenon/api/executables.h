/* tenon/api/executables.h: compiling and running graphs; profiles of runs.  Part of
 * tenon/tenon.h. */
#ifndef TENON_API_EXECUTABLES_H
#define TENON_API_EXECUTABLES_H

#include <tenon/api/export.h>
#include <tenon/op.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tenon_executable_t tenon_executable_t; /* A compiled graph. */
typedef struct tenon_profile_t tenon_profile_t;       /* Times and memory of a run. */

/* ---- compiling ------------------------------------------------------------------------------- */

/* Places nodes on a device, whatever the cost model says. */
typedef struct tenon_pin_t {
  const char *node; /* The name of a node or of an operator; '*' matches any characters. */
  tenon_device_t device;
} tenon_pin_t;

/* Options of compilation. */
typedef struct tenon_compile_t {
  uint32_t size;
  uint32_t flags; /* TENON_COMPILE_... */
  /* The device.  Type 0 or 1: the CPU.  On another device, constants are copied there, each node is
   * a call through dispatch, and inputs and outputs are copied as needed: an input that is on the
   * device already is used there. */
  tenon_device_t device;
  /* More devices, the preferred first; they follow `device` if it is set.  The compiler places
   * nodes on them with its cost model, and copies each value once where it crosses
   * devices.  A node for which none of them has a kernel goes to the first device and falls back to
   * the CPU.  The CPU takes part only if it is in the list. */
  const tenon_device_t *devices;
  uint32_t device_count;
  uint32_t pin_count;
  const tenon_pin_t *pins; /* If several pins match a node, the last one counts. */
  /* Which subgraphs may be offloaded: "claims" of devices (tenon/device.h).  The compiler asks each
   * device in this order, and each node is claimed at most once.  NULL or "": what the devices
   * want; "off": none; otherwise settings for the devices, "key=value,...".  TENON_INVALID if a
   * device does not know a setting. */
  const char *claims;
  /* Rewriting rules to leave out: names, separated by commas (docs/rewrites.md).  NULL: none.
   * TENON_NOT_FOUND if there is no such rule. */
  const char *without;
} tenon_compile_t;

/* Flags of compilation. */
enum {
  /* No graph rewriting and no offloading: every node as it was imported. */
  TENON_COMPILE_PLAIN = 1,
  /* On a device that can capture work: the first run with new shapes is captured, and later runs
   * with these shapes replay the captured graph.  A captured graph has memory of its own; the
   * executable keeps at most 8 idle ones.  If a node cannot be captured (it falls back, reads a
   * value on the host, draws random numbers, or has a state), all runs are as usual, and the dump
   * "placement" says why. */
  TENON_COMPILE_RECORD = 2,
  /* Runs with inputs that require gradients are recorded on the tape (docs/autograd.md): the
   * outputs have gradients where the operators have them.  Only on the CPU.  If an operator on the
   * way has no gradient formulas, each node is a call through dispatch and is not fused.  Outputs
   * that are on the tape may be inputs, or views of inputs.  Outputs given by the caller are not on
   * the tape.  The executable outlives the tape. */
  TENON_COMPILE_GRADIENTS = 4
};

/* Compiles a graph: verifies it, infers shapes, folds constants and chooses kernels.
 *
 * Arguments: `options`: NULL: defaults.
 * Threads: several threads may run an executable at the same time.  Runs that overlap do not share
 * memory: the executable keeps one set of buffers for each until it is released.  A state
 * (TENON_STATE) belongs to the node, and all runs share it. */
TENON_API tenon_status_t tenon_executable_create(const tenon_graph_t *graph,
                                                 const tenon_compile_t *options,
                                                 tenon_executable_t **out_executable);
TENON_API void tenon_executable_retain(tenon_executable_t *executable);
TENON_API void tenon_executable_release(tenon_executable_t *executable);

/* Returns the graph, with its ports as imported. */
TENON_API const tenon_graph_t *tenon_executable_graph(const tenon_executable_t *executable);

/* ---- running --------------------------------------------------------------------------------- */

/* Runs an executable.
 *
 * Arguments: `inputs`: one tensor for each input, in order.  `outputs`: outputs[i] NULL: the run
 * creates it in host memory; otherwise the run writes to it, and its shape must fit.  To keep a
 * result on a device, pass a tensor of that device.  `profile`: may be NULL.
 * Errors: outputs that the run created are released; the executable works as before.
 * Ownership: the caller releases created outputs. */
TENON_API tenon_status_t tenon_executable_run(tenon_executable_t *executable,
                                              tenon_tensor_t *const *inputs,
                                              tenon_tensor_t **outputs, tenon_profile_t *profile);

/* Describes an executable.
 *
 * Arguments: `what`: "graph": after rewriting; "shapes": of every value, symbolic; "claims":
 * offloaded subgraphs, rejected ones, and why; "placement": which node runs where, and why; "plan":
 * the last run's memory; "rewrites": uses of each rule; "gradients": what recorded runs keep for
 * backward; "graph.dot", "plan.dot", "memory.svg".
 * Ownership: the caller frees *out_text. */
TENON_API tenon_status_t tenon_executable_dump(tenon_executable_t *executable, const char *what,
                                               char **out_text);

/* ---- profiles -------------------------------------------------------------------------------- */

/* Creates a profile, which holds times by node and by the spans that kernels open.  A profile
 * belongs to one run at a time. */
TENON_API tenon_status_t tenon_profile_create(tenon_profile_t **out_profile);
TENON_API void tenon_profile_release(tenon_profile_t *profile);

/* Writes a trace for Chrome (chrome://tracing) and Perfetto. */
TENON_API tenon_status_t tenon_profile_write(const tenon_profile_t *profile, const char *path);

/* A span of time. */
typedef struct tenon_span_t {
  uint32_t size;
  int32_t depth;    /* 0: a node; larger: a span of its kernel. */
  const char *name; /* The node, or the name that a kernel gave to its span. */
  const char *kind; /* The operator; "" for a kernel's span. */
  int64_t begin;    /* Nanoseconds. */
  int64_t end;      /* Nanoseconds. */
  /* Of a node: the bytes of its arguments and results, without values that exist only inside a
   * region, and the multiplications and additions of products, convolutions, attention and
   * recurrent layers. 0: unknown. */
  double bytes;
  double operations;
} tenon_span_t;
TENON_API int32_t tenon_profile_count(const tenon_profile_t *profile);
TENON_API tenon_status_t tenon_profile_span(const tenon_profile_t *profile, int32_t index,
                                            tenon_span_t *span);

/* Memory in use after a node.  On a device: all tensors.  On the CPU: the values of the run. */
typedef struct tenon_level_t {
  uint32_t size;
  uint32_t reserved;
  const char *device; /* "cpu", "opencl:0" */
  int64_t time;       /* Nanoseconds, as in tenon_span_t. */
  uint64_t bytes;     /* In use from this time on. */
} tenon_level_t;
TENON_API int32_t tenon_profile_level_count(const tenon_profile_t *profile);
TENON_API tenon_status_t tenon_profile_level(const tenon_profile_t *profile, int32_t index,
                                             tenon_level_t *level);

#ifdef __cplusplus
}
#endif
#endif
