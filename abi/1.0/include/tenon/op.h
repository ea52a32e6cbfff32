/* tenon/op.h: what an operator library and its host know of each other.  Contract version 1.0.
 *
 * A library is a constant list of items, returned by its one exported function, tenon_library().  An operator is an item
 * that opens with a schema, and the items after it.  Nothing here is linked; everything that the host offers is reached
 * through `host` in the structure that a function of the library is given.
 *
 * Rules of this file.  Structures that cross start with their size and grow only at the end; tensors, values, strings,
 * dtypes, devices, extents and items never change.  What lies past the writer's size is zero to the reader, and zero means
 * "absent": a library that wants a field or a service newer than 1.0 asks TENON_HAS first.
 * Indices: `inputs[i]` is the i-th tensor argument of the schema, `attrs[i]` the i-th argument that is not a tensor,
 * `outputs[i]` the i-th result, whatever was passed.  The languages of the texts are in docs/contract.md. */
#ifndef TENON_OP_H
#define TENON_OP_H

#include <stddef.h>
#include <stdint.h>

#define TENON_ABI 0x10000u /* major << 16 | minor */
#define TENON_RANK_MAX 64  /* no tensor has more dimensions */

#if defined(_WIN32)
#define TENON_EXPORT __declspec(dllexport)
#else
#define TENON_EXPORT __attribute__((visibility("default")))
#endif
#if defined(__GNUC__)
#define TENON_FORMAT(f, a) __attribute__((format(printf, f, a)))
#else
#define TENON_FORMAT(f, a)
#endif
#ifdef __cplusplus
#define TENON_C extern "C"
extern "C" {
#else
#define TENON_C extern
#endif

/* clang-format off */
/* ---- names ------------------------------------------------------------------------------------------------------ */

enum { /* tenon_status_t: the canonical codes, equal to absl's, XLA's and TensorFlow's */
  TENON_OK = 0, TENON_CANCELLED = 1, TENON_UNKNOWN = 2, TENON_INVALID = 3 /* an argument is wrong */, TENON_DEADLINE = 4,
  TENON_NOT_FOUND = 5, TENON_EXISTS = 6, TENON_DENIED = 7, TENON_MEMORY = 8, TENON_PRECONDITION = 9, TENON_ABORTED = 10,
  TENON_RANGE = 11, TENON_UNIMPLEMENTED = 12, TENON_INTERNAL = 13, TENON_UNAVAILABLE = 14
};

enum { /* of attributes, see tenon_value_t */
  TENON_KIND_NONE = 0, TENON_KIND_BOOL = 1, TENON_KIND_INT = 2, TENON_KIND_DIM = 3, TENON_KIND_FLOAT = 4,
  TENON_KIND_STR = 5, TENON_KIND_CHOICE = 6, TENON_KIND_DTYPE = 7, TENON_KIND_DEVICE = 8, TENON_KIND_TENSOR = 9,
  TENON_KIND_GRAPH = 10, TENON_KIND_INTS = 11, TENON_KIND_DIMS = 12, TENON_KIND_FLOATS = 13, TENON_KIND_STRS = 14,
  TENON_KIND_TENSORS = 15
};

enum { /* operations of tenon_dim() */
  TENON_DIM_ADD = 0, TENON_DIM_SUB = 1, TENON_DIM_MUL = 2, TENON_DIM_DIV = 3 /* rounds down */, TENON_DIM_CEIL_DIV = 4,
  TENON_DIM_MOD = 5, TENON_DIM_MIN = 6, TENON_DIM_MAX = 7,
  TENON_DIM_BROADCAST = 8,   /* of two extents by NumPy's rule */
  TENON_DIM_BOUND = 9,       /* a new extent that only run knows: at most a, at least b; a = -1: no bound */
  TENON_DIM_EQUAL = 10,      /* states that a = b; gives the better known */
  TENON_DIM_TEST_EQUAL = 11, /* 1, 0, or a symbol where the host cannot tell */
  TENON_DIM_TEST_LESS = 12
};

enum { /* tags of items; a host skips what it does not know, unless TENON_MUST is set */
  TENON_TAG_END = 0,
  TENON_TAG_OP = 1,        /* opens an operator; text: schema */
  TENON_TAG_DOC = 2,       /* text: one line, then more after a line break */
  TENON_TAG_TYPES = 3,     /* text: dtypes of inputs and outputs */
  TENON_TAG_SHAPES = 4,    /* text: shapes of outputs, in place of infer or before it */
  TENON_TAG_WHERE = 5,     /* text: words about inputs: known, deduced, strided */
  TENON_TAG_TRAITS = 6,    /* number: TENON_PURE | ... */
  TENON_TAG_GRADIENT = 7, TENON_TAG_BATCHING = 8, TENON_TAG_SHARDING = 9, /* texts */
  TENON_TAG_REUSE = 10,    /* text: outputs that may take the memory of an input which nobody needs any more (and which
                              this call has once only) */
  TENON_TAG_USES = 11,     /* text: operators that the kernels call */
  TENON_TAG_INFER = 12,    /* function: tenon_infer_fn */
  TENON_TAG_VALIDATE = 13, TENON_TAG_CREATE = 14, /* functions: tenon_node_fn */
  TENON_TAG_DESTROY = 15,  /* function: tenon_free_fn */
  TENON_TAG_PREPARE = 16,  /* function: tenon_node_fn */
  TENON_TAG_RELEASE = 17,  /* function: tenon_free_fn */
  TENON_TAG_KERNEL = 18, TENON_TAG_COMPOSITE = 19, /* text: device, words; function: tenon_run_fn */
  TENON_TAG_LOOP = 20,     /* text: dtypes, words; function: tenon_loop_fn */
  TENON_TAG_ROW = 21,      /* the same, by whole rows of the last axis */
  TENON_TAG_SOURCE = 22,   /* text: words; function: tenon_run_fn, which launches kernels of source.h on any device */
  TENON_TAG_SUBGRAPH = 23, /* text: the attribute whose graph says what the results are, see graph.h */
  TENON_TAG_GROUP = 24,    /* text: items of another file */
  TENON_TAG_EXTEND = 25,   /* text: name of an operator of any library, to which the kernels that follow are added */
  TENON_TAG_VERSION = 26,  /* number: version of the operator, 1 unless said */
  TENON_TAG_UPGRADE = 27,  /* number: version; text: how its attributes become those of the next */
  TENON_TAG_OPEN = 28, TENON_TAG_CLOSE = 29, /* before the first operator; function: tenon_node_fn */
  TENON_TAG_ABOUT = 30, /* before the first operator; text: "author: ...\nlicence: ..." */
  TENON_TAG_STUB = 31,  /* text: device, words; function: tenon_stub_fn, see iterator.h */
  TENON_TAG_REDUCES = 32, /* text: the input that a reduction reads, and its axes that vanish */
  TENON_TAG_DEVICE = 33, TENON_TAG_BRIDGE = 34, /* before the first operator; texts: the tables of device.h and bridge.h */
  TENON_TAG_PASS = 35, TENON_TAG_PARTITIONER = 36, /* the same: a tenon_pass_t, a tenon_partitioner_t, see graph.h */
  TENON_TAG_SAMPLES = 37, TENON_TAG_REFERENCE = 38 /* text: calls to try; function: tenon_run_fn, see check.h */
};

enum { /* phases, in the structures that functions are given */
  TENON_PHASE_OPEN = 1, TENON_PHASE_VALIDATE = 2, TENON_PHASE_CREATE = 3, TENON_PHASE_INFER = 4, TENON_PHASE_PREPARE = 5,
  TENON_PHASE_RUN = 6, TENON_PHASE_LOOP = 7, TENON_PHASE_DEVICE = 8, TENON_PHASE_BRIDGE = 9, TENON_PHASE_PASS = 10
};

#define TENON_DTYPE_(code, bits) ((code) | (bits) << 8 | 1 << 16)
enum { /* for switch over tenon_dtype_id(); codes are DLPack's, STRING and LIST are ours and stay on the host */
  TENON_BOOL = TENON_DTYPE_(6, 8), TENON_STRING = TENON_DTYPE_(200, 128), TENON_LIST = TENON_DTYPE_(201, 64),
  TENON_I2 = TENON_DTYPE_(0, 2), TENON_I4 = TENON_DTYPE_(0, 4), TENON_I8 = TENON_DTYPE_(0, 8),
  TENON_I16 = TENON_DTYPE_(0, 16), TENON_I32 = TENON_DTYPE_(0, 32), TENON_I64 = TENON_DTYPE_(0, 64),
  TENON_U2 = TENON_DTYPE_(1, 2), TENON_U4 = TENON_DTYPE_(1, 4), TENON_U8 = TENON_DTYPE_(1, 8),
  TENON_U16 = TENON_DTYPE_(1, 16), TENON_U32 = TENON_DTYPE_(1, 32), TENON_U64 = TENON_DTYPE_(1, 64),
  TENON_F16 = TENON_DTYPE_(2, 16), TENON_F32 = TENON_DTYPE_(2, 32), TENON_F64 = TENON_DTYPE_(2, 64),
  TENON_BF16 = TENON_DTYPE_(4, 16), TENON_C64 = TENON_DTYPE_(5, 64), TENON_C128 = TENON_DTYPE_(5, 128),
  TENON_F8E3M4 = TENON_DTYPE_(7, 8), TENON_F8E4M3 = TENON_DTYPE_(8, 8), TENON_F8E4M3B11FNUZ = TENON_DTYPE_(9, 8),
  TENON_F8E4M3FN = TENON_DTYPE_(10, 8), TENON_F8E4M3FNUZ = TENON_DTYPE_(11, 8), TENON_F8E5M2 = TENON_DTYPE_(12, 8),
  TENON_F8E5M2FNUZ = TENON_DTYPE_(13, 8), TENON_F8E8M0 = TENON_DTYPE_(14, 8), TENON_F6E2M3 = TENON_DTYPE_(15, 6),
  TENON_F6E3M2 = TENON_DTYPE_(16, 6), TENON_F4E2M1 = TENON_DTYPE_(17, 4)
};

enum { /* traits of an operator */
  TENON_PURE = 1,      /* results depend on inputs and attributes only; no effect that the schema does not show */
  TENON_POINTWISE = 2, /* output element i depends on input elements i, after broadcasting */
  TENON_RANDOM = 4,    /* draws from call->random; TENON_PURE is then meant apart from that */
  TENON_BRIEF = 8      /* returns within microseconds: hosts with an interpreter lock need not give it up meanwhile */
};
#define TENON_DRAWS(count) (((int64_t)(count) + 1) << 32) /* beside TENON_RANDOM: each call draws that many, whatever infer says */
#define TENON_MUST 0x40000000u

enum { TENON_DETAIL_QUANTISED = 1, TENON_DETAIL_CSR = 2, TENON_DETAIL_ROW_SPARSE = 3 }; /* kinds of tenon_detail_t */
/* clang-format on */

/* ---- values ----------------------------------------------------------------------------------------------------- */

typedef int32_t tenon_status_t;
typedef struct tenon_op_t tenon_op_t;       /* an operator, resolved by the host */
typedef struct tenon_graph_t tenon_graph_t; /* a graph of the host, as an attribute */
typedef struct tenon_host_t tenon_host_t;   /* the host's services, below */

typedef struct tenon_dtype_t { /* DLDataType; sub-byte elements are packed, low bits first */
  uint8_t code, bits;
  uint16_t lanes;
} tenon_dtype_t;

typedef struct tenon_device_t { /* DLDevice: type 1 is the CPU */
  int32_t type, id;
} tenon_device_t;

/* A view of a tensor: DLTensor, then two words.  The host owns it and what it points to; a kernel keeps no pointer to it
 * and makes new ones only by host->temporary and host->view.  strides (in elements) are never NULL when ndim > 0.
 * byte_offset is 0 on devices whose memory has flat addresses.  `Tensor[]` is one view of dtype LIST: see tenon_item(). */
typedef struct tenon_tensor_t {
  void *data;
  tenon_device_t device;
  int32_t ndim;
  tenon_dtype_t dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
  uint64_t keys;                       /* the host's */
  const struct tenon_detail_t *detail; /* NULL: dense and plain; else only for kernels that say "quantised" or "sparse" */
} tenon_tensor_t;

typedef struct tenon_detail_t { /* what a tensor is besides its shape and data */
  uint32_t size, kind;          /* TENON_DETAIL_... */
  int32_t axis;                 /* QUANTISED: -1: one scale for all elements */
  int32_t block;                /* elements along axis that share a scale; 0: the scale has one element per index */
  const tenon_tensor_t *scale, *zero_point; /* real value = (stored - zero_point) * scale; zero_point NULL: zero */
  /* Sparse: data is NULL, shape is of the whole; what is not stored is 0.  Parts are dense.
   * CSR of [rows, columns]: values [n]; indices i64 [n], the columns, ascending in each row; indptr i64 [rows + 1], where
   * each row begins, from 0 to n.  ROW_SPARSE of [rows, rest...]: values [n, rest...]; indices i64 [n], the rows, ascending. */
  const tenon_tensor_t *values, *indices, *indptr;
} tenon_detail_t;

typedef struct tenon_string_t { /* element of a string tensor; not terminated */
  const char *data;
  uint64_t size;
} tenon_string_t;

/* An extent, or an integer that extents are made of; perhaps not known.  A structure, so that arithmetic on it does not
 * compile: use tenon_dim(). */
typedef struct tenon_dim_t {
  int64_t value; /* below TENON_DIM_LEAST: a symbol of the host; else the number */
} tenon_dim_t;
#define TENON_DIM_LEAST (-((int64_t)1 << 62))

typedef struct tenon_value_t { /* an attribute */
  uint32_t kind;               /* NONE: optional and not given */
  uint32_t count;              /* elements of a list, bytes of a string */
  union {
    int64_t i; /* BOOL, INT; CHOICE: position among the choices of the schema */
    double f;
    tenon_dim_t dim; /* DIM: symbolic in infer only */
    const char *s;   /* terminated by 0 as well */
    tenon_dtype_t dtype;
    tenon_device_t device;
    const int64_t *ints;
    const tenon_dim_t *dims;
    const double *floats;
    const tenon_string_t *strs;
    tenon_tensor_t *tensor;
    tenon_tensor_t *const *tensors;
    const tenon_graph_t *graph;
  } as;
} tenon_value_t;

/* ---- what functions are given: all open with the same fields, so that tenon_fail() takes any ------------------------ */

typedef struct tenon_meta_t { /* a tensor without its data */
  uint32_t size;
  tenon_dtype_t dtype;
  int32_t ndim;   /* -1: unknown, for inputs said to be "deduced" and for outputs that only run knows */
  uint32_t count; /* LIST: of items */
  tenon_device_t device;
  tenon_dim_t *dims;                 /* outputs and deduced inputs: room for TENON_RANK_MAX */
  tenon_dim_t *strides;              /* inputs: NULL when row-major, see tenon_stride(); outputs: room, see `strided` */
  struct tenon_meta_t *const *items; /* LIST */
  const tenon_tensor_t *value;       /* inputs said to be "known": the tensor, in host memory; NULL: not known yet */
  tenon_dim_t *values;               /* the same for at most 64 integers, symbols too; outputs: room */
  uint32_t value_count;              /* outputs: set if `values` are known */
  uint32_t alias;                    /* outputs: set to 1 + i for a view of inputs[i], at offset */
  /* strided: outputs: set to 1 if strides are stated, else they are row-major.  layout: TENON_DETAIL_CSR or _ROW_SPARSE of
   * a sparse tensor, else 0; outputs: set it, and run calls host->sparse. */
  uint32_t strided, layout;
  tenon_dim_t offset;                /* in elements, from the first of that input */
  const tenon_detail_t *detail;      /* of quantised inputs; what sparse ones store is not known before run */
} tenon_meta_t;

typedef struct tenon_infer_t { /* infer: at any time, on any thread, without data or device; keeps nothing */
  uint32_t size, phase;
  const tenon_host_t *host;
  const tenon_op_t *op;
  const tenon_value_t *attrs;
  void *context, *state;
  tenon_meta_t *const *inputs;  /* NULL: absent */
  tenon_meta_t *const *outputs; /* dtype (and dims, where TENON_SHAPES says) are filled in already; NULL: not wanted */
  tenon_dim_t workspace;        /* set: bytes that run needs, 64-byte aligned */
  tenon_dim_t draws;            /* set, with TENON_RANDOM: 32-bit random numbers that run draws at most */
} tenon_infer_t;

typedef struct tenon_node_t { /* open: op is NULL.  validate, create: attributes only.  prepare: one device and types */
  uint32_t size, phase;
  const tenon_host_t *host;
  const tenon_op_t *op;
  const tenon_value_t *attrs; /* live as long as the state */
  void *context, *state;      /* open, create: state is set.  prepare: given */
  void *plan;                 /* prepare: set */
  tenon_meta_t *const *inputs;
  tenon_device_t device;
  uint64_t constant; /* prepare: bit i: inputs[i]->value stays what it is */
  uint64_t consumed; /* prepare: set bit i if run will not read the elements of constant input i: the host may drop them */
} tenon_node_t;

typedef struct tenon_random_t { /* number i of the call is tenon_random(seed, offset + i) */
  uint32_t size, reserved;
  uint64_t seed, offset;
  const uint64_t *device; /* not NULL: the seed and an addend to offset lie there, in device memory */
} tenon_random_t;

typedef struct tenon_call_t { /* run: several at once on one state */
  uint32_t size, phase;
  const tenon_host_t *host;
  const tenon_op_t *op;
  const tenon_value_t *attrs; /* all of them, defaults filled in */
  void *context, *state;
  tenon_tensor_t *const *inputs;  /* NULL: optional and absent */
  tenon_tensor_t *const *outputs; /* NULL: optional and not wanted */
  void *plan;
  void *stream;                  /* the device's native stream or queue; NULL on the CPU */
  void *workspace;               /* as large as infer asked */
  const tenon_op_t *const *uses; /* operators named by TENON_USES, in order */
  const tenon_random_t *random;
  uint64_t accumulate; /* bit i: add to outputs[i]; only for a kernel registered as "accumulates" */
  uint64_t ticket;     /* device.h: of what the kernel enqueues */
  const struct tenon_device_context_t *device; /* device.h: where the call runs; NULL: on no plug-in's device */
} tenon_call_t;

typedef struct tenon_loop_t { /* a run of a pointwise operator, or rows: operands dense, not overlapping */
  uint32_t size, phase;
  const tenon_host_t *host;
  const tenon_op_t *op;
  const tenon_value_t *attrs;
  void *context, *state;
  int64_t count;         /* elements; ROW: of a row of the first input */
  void *const *data;     /* inputs, then outputs; NULL: absent */
  const int64_t *stride; /* bytes to the next element: the element's size.  ROW: to the next row, 0 for a shared row */
  uint64_t first;        /* row-major position of the first element (ROW: number of the first row) in the output */
  uint64_t seed, offset; /* with TENON_RANDOM */
  int64_t rows;          /* ROW */
  const int64_t *widths; /* ROW: elements in a row of each operand */
} tenon_loop_t;

typedef tenon_status_t (*tenon_infer_fn)(tenon_infer_t *infer);
typedef tenon_status_t (*tenon_node_fn)(tenon_node_t *node);
typedef tenon_status_t (*tenon_run_fn)(tenon_call_t *call);
typedef tenon_status_t (*tenon_loop_fn)(const tenon_loop_t *loop);
typedef void (*tenon_free_fn)(void *pointer);
typedef tenon_status_t (*tenon_part_fn)(tenon_call_t *call, void *argument, int64_t begin, int64_t end);
typedef void (*tenon_any_fn)(void);
typedef struct tenon_iterator_t tenon_iterator_t; /* what stubs get: iterator.h */
typedef struct tenon_grid_t tenon_grid_t; /* what launch gets: source.h */
typedef tenon_status_t (*tenon_stub_fn)(const tenon_iterator_t *iterator);

struct tenon_host_t {
  uint32_t size, abi;
  /* Copies the text, gives back `code`.  Any thread, any phase. */
  tenon_status_t (*fail)(const void *context, tenon_status_t code, const char *format, ...) TENON_FORMAT(3, 4);
  /* infer.  Known extents give a known one; what is impossible fails this infer and need not be looked at. */
  tenon_dim_t (*dim)(tenon_infer_t *infer, uint32_t operation, tenon_dim_t a, tenon_dim_t b);
  /* infer.  States how many items an output of dtype LIST has; they are there afterwards. */
  tenon_status_t (*list)(tenon_infer_t *infer, uint32_t output, uint32_t count);
  /* run.  Temporaries on the call's device (of a composite: in host memory), ordered on its stream, gone after the call;
   * NULL: failed, and said so. */
  void *(*allocate)(tenon_call_t *call, uint64_t size);
  tenon_tensor_t *(*temporary)(tenon_call_t *call, tenon_dtype_t dtype, int32_t ndim, const int64_t *shape);
  tenon_tensor_t *(*view)(tenon_call_t *call, const tenon_tensor_t *of, int64_t offset, int32_t ndim,
                          const int64_t *shape, const int64_t *strides);
  /* run.  The true shape of an output that infer bounded, and its memory if there was no bound.  May move its data. */
  tenon_status_t (*resize)(tenon_call_t *call, uint32_t output, int32_t ndim, const int64_t *shape);
  /* run, composite.  outputs[output] is this tensor (or, of dtype LIST, this whole list): an input, a temporary, a result
   * of invoke.  Shares or copies it. */
  tenon_status_t (*assign)(tenon_call_t *call, uint32_t output, tenon_tensor_t *tensor);
  /* run.  Copies text into element `index` of a string output. */
  tenon_status_t (*set_string)(tenon_call_t *call, tenon_tensor_t *output, int64_t index, const char *data, uint64_t size);
  /* run.  Calls an operator through dispatch, on this device and stream.  attrs NULL: defaults.  An output that is NULL is
   * inferred and becomes a temporary. */
  tenon_status_t (*invoke)(tenon_call_t *call, const tenon_op_t *op, const tenon_value_t *attrs,
                           tenon_tensor_t *const *inputs, tenon_tensor_t **outputs);
  /* run.  The same for a graph: all its inputs in order, all its outputs in order; other counts than its own fail. */
  tenon_status_t (*evaluate)(tenon_call_t *call, const tenon_graph_t *graph, uint32_t input_count,
                             tenon_tensor_t *const *inputs, uint32_t output_count, tenon_tensor_t **outputs);
  /* run, CPU.  Parts of [0, count) of at least `grain`, on the host's threads and this one; returns when all are done,
   * with the first failure.  A part calls only fail, zone and set_string, and throws nothing. */
  tenon_status_t (*parallel)(tenon_call_t *call, int64_t count, int64_t grain, tenon_part_fn part, void *argument);
  /* any phase.  Opens a named span in the profile (the text must stay); NULL closes the one opened last. */
  void (*zone)(const void *context, const char *name);
  /* any phase.  A native object of the device by name ("cl_context", "cublas"), or NULL. */
  void *(*native)(const void *context, const char *name);
  /* run.  As resize, for an output that has no memory yet: over memory of the library's own on the call's device, which
   * release(context) frees when the last tensor over it is gone, on any thread. */
  tenon_status_t (*adopt)(tenon_call_t *call, uint32_t output, int32_t ndim, const int64_t *shape, void *data,
                          tenon_free_fn release, void *context);
  /* run, CPU, in a stub.  As parallel: the iterator's range in parts of at least `grain` elements of what is read, each an
   * iterator with this context. */
  tenon_status_t (*split)(const tenon_iterator_t *iterator, int64_t grain, tenon_stub_fn part, void *context);
  /* run, in a SOURCE function.  Enqueues a kernel of its text on the call's device; on the CPU it is done. */
  tenon_status_t (*launch)(tenon_call_t *call, const tenon_grid_t *grid);
  /* run, CPU.  The shape of a result that infer said is sparse (as its shape is already, -1: not known), and its parts, for
   * `count` stored elements (CSR) or rows: values and indices to be written, indptr all 0, by outputs[output]->detail.  What was
   * there is let go.  Each sparse result needs it, unless it is assigned. */
  tenon_status_t (*sparse)(tenon_call_t *call, uint32_t output, int32_t ndim, const int64_t *shape, int64_t count);
};

/* ---- what a library states -------------------------------------------------------------------------------------- */

typedef struct tenon_item_t {
  uint32_t tag, reserved;
  int64_t number;
  const void *text;
  tenon_any_fn function;
} tenon_item_t;

typedef struct tenon_descriptor_t {
  uint32_t size, abi;
  uint32_t layout;   /* sizes of the frozen structures, TENON_LAYOUT: a library of another layout is refused */
  uint32_t required; /* bits of features of the host that the library cannot do without; none exist in 1.0 */
  const char *name, *version;
  const tenon_item_t *items; /* up to TENON_TAG_END */
} tenon_descriptor_t;

#ifndef TENON_REQUIRED
#define TENON_REQUIRED 0u
#endif
#define TENON_LAYOUT                                                                                        \
  ((uint32_t)sizeof(tenon_tensor_t) | (uint32_t)sizeof(tenon_value_t) << 8 | (uint32_t)sizeof(tenon_item_t) << 16 | \
   (uint32_t)sizeof(tenon_string_t) << 24)
typedef char tenon_layout_t[sizeof(void *) == 8 && /* 32-bit machines are not supported by contract 1 */
                                    (sizeof(tenon_tensor_t) == 64 && offsetof(tenon_tensor_t, keys) == 48 &&
                                     sizeof(tenon_value_t) == 16 && sizeof(tenon_item_t) == 32 &&
                                     sizeof(tenon_meta_t) == 96 && offsetof(tenon_call_t, accumulate) == 104 &&
                                     offsetof(tenon_loop_t, widths) == 104 && sizeof(tenon_detail_t) == 56 &&
                                     sizeof(tenon_host_t) == 152)
                                ? 1 : -1];
#ifdef __cplusplus
} /* extern "C" */
#if defined(__cpp_exceptions) || defined(__EXCEPTIONS) || defined(_CPPUNWIND)
#include <exception>
template <class C, tenon_status_t (*F)(C *)> tenon_status_t tenon_guard(C *context) noexcept { /* nothing is thrown out */
  try {
    return F(context);
  } catch (const std::exception &e) {
    return context->host->fail(context, TENON_INTERNAL, "%s", e.what());
  } catch (...) {
    return context->host->fail(context, TENON_INTERNAL, "an exception that is no std::exception");
  }
}
#define TENON_GUARD(C, f) (&tenon_guard<C, f>)
#endif
#endif
#ifndef TENON_GUARD
#define TENON_GUARD(C, f) (f)
#endif

/* clang-format off */
#define TENON_TEXT_(tag, text) { TENON_TAG_##tag, 0, 0, "" text, 0 }
#define TENON_FN_(tag, text, C, f) /* sizeof: only so that a function of another type does not compile */        \
  { TENON_TAG_##tag, 0, 0 * (int64_t)sizeof((f)((C *)0)), text, (tenon_any_fn)TENON_GUARD(C, f) }
#define TENON_FREE_(tag, f) { TENON_TAG_##tag, 0, 0 * (int64_t)sizeof((f) == (tenon_free_fn)0), 0, (tenon_any_fn)(f) }
/* An operator, and what may follow its schema. */
#define TENON_OP(schema, ...) TENON_TEXT_(OP, schema), __VA_ARGS__
#define TENON_DOC(text) TENON_TEXT_(DOC, text)
#define TENON_TYPES(text) TENON_TEXT_(TYPES, text)
#define TENON_SHAPES(text) TENON_TEXT_(SHAPES, text)
#define TENON_WHERE(text) TENON_TEXT_(WHERE, text)
#define TENON_TRAITS(bits) { TENON_TAG_TRAITS, 0, (bits), 0, 0 }
#define TENON_GRADIENT(text) TENON_TEXT_(GRADIENT, text)
#define TENON_BATCHING(text) TENON_TEXT_(BATCHING, text)
#define TENON_SHARDING(text) TENON_TEXT_(SHARDING, text)
#define TENON_REUSE(text) TENON_TEXT_(REUSE, text)
#define TENON_USES(text) TENON_TEXT_(USES, text)
#define TENON_VERSION(number) { TENON_TAG_VERSION, 0, (number), 0, 0 }
#define TENON_UPGRADE(from, text) { TENON_TAG_UPGRADE, 0, (from), "" text, 0 }
#define TENON_INFER(f) TENON_FN_(INFER, 0, tenon_infer_t, f)
#define TENON_VALIDATE(f) TENON_FN_(VALIDATE, 0, tenon_node_t, f)
#define TENON_STATE(create, destroy) TENON_FN_(CREATE, 0, tenon_node_t, create), TENON_FREE_(DESTROY, destroy)
#define TENON_PREPARE(prepare, release) TENON_FN_(PREPARE, 0, tenon_node_t, prepare), TENON_FREE_(RELEASE, release)
#define TENON_KERNEL(where, f) TENON_FN_(KERNEL, where, tenon_call_t, f)
#define TENON_RULE(where) TENON_TEXT_(KERNEL, where) /* one that needs no function: "npu fallback", "autocast f32" */
#define TENON_COMPOSITE(f) TENON_FN_(COMPOSITE, 0, tenon_call_t, f)
#define TENON_LOOP(types, f) TENON_FN_(LOOP, types, const tenon_loop_t, f)
#define TENON_ROW(types, f) TENON_FN_(ROW, types, const tenon_loop_t, f)
/* Kernels for an operator that exists already, here or in another library. */
#define TENON_EXTEND(name, ...) TENON_TEXT_(EXTEND, name), __VA_ARGS__
/* Of the library: before its first operator. */
#define TENON_OPEN(open, close) TENON_FN_(OPEN, 0, tenon_node_t, open), TENON_FREE_(CLOSE, close)
#define TENON_ABOUT(text) TENON_TEXT_(ABOUT, text)
/* Operators of one source file, when a library has several: the file with TENON_LIBRARY lists them by TENON_GROUP. */
#define TENON_GROUP(items) { TENON_TAG_GROUP, 0, 0, (items), 0 }
#define TENON_ITEMS(name, ...)                                                                                         \
  TENON_C const tenon_item_t name[];                                                                                   \
  const tenon_item_t name[] = {__VA_ARGS__, {TENON_TAG_END, 0, 0, 0, 0}};
/* The library itself: exports tenon_library(), or, with TENON_STATIC, defines tenon_library_<name>(). */
#ifdef TENON_STATIC
#define TENON_ENTRY_(name) tenon_library_##name(void)
#else
#define TENON_ENTRY_(name) tenon_library(void)
#endif
#define TENON_LIBRARY(name, version, ...)                                                                              \
  static const tenon_item_t tenon_items_##name[] = {__VA_ARGS__, {TENON_TAG_END, 0, 0, 0, 0}};                         \
  static const tenon_descriptor_t tenon_self_##name = {sizeof(tenon_descriptor_t), TENON_ABI, TENON_LAYOUT,            \
                                                       TENON_REQUIRED, #name, version, tenon_items_##name};            \
  TENON_C TENON_EXPORT const tenon_descriptor_t *TENON_ENTRY_(name);                                                   \
  const tenon_descriptor_t *TENON_ENTRY_(name) { return &tenon_self_##name; }
#define TENON_HAS(pointer, field)                                                                                      \
  ((pointer)->size >= (size_t)((const char *)(&(pointer)->field + 1) - (const char *)(pointer)))
#define tenon_fail(context, ...) ((context)->host->fail((context), __VA_ARGS__))
#define TENON_TRY(call) do { tenon_status_t tenon_s_ = (call); if (tenon_s_ != TENON_OK) return tenon_s_; } while (0)
/* clang-format on */

/* ---- conveniences ----------------------------------------------------------------------------------------------- */

static inline uint32_t tenon_dtype_id(tenon_dtype_t d) {
  return (uint32_t)d.code | (uint32_t)d.bits << 8 | (uint32_t)d.lanes << 16;
}
static inline tenon_dtype_t tenon_dtype(uint32_t id) {
  tenon_dtype_t d = {(uint8_t)id, (uint8_t)(id >> 8), (uint16_t)(id >> 16)};
  return d;
}
static inline int64_t tenon_count(const tenon_tensor_t *t) { /* elements */
  int64_t n = 1;
  for (int32_t i = 0; i < t->ndim; i++) n *= t->shape[i];
  return n;
}
static inline tenon_tensor_t *tenon_item(const tenon_tensor_t *list, int64_t i) { /* of list->shape[0] */
  return ((tenon_tensor_t *const *)list->data)[i];
}
static inline tenon_dim_t tenon_extent(int64_t known) {
  tenon_dim_t d = {known};
  return d;
}
static inline int tenon_is_known(tenon_dim_t d) { return d.value >= TENON_DIM_LEAST; }
static inline tenon_dim_t tenon_dim(tenon_infer_t *infer, uint32_t operation, tenon_dim_t a, tenon_dim_t b) {
  return infer->host->dim(infer, operation, a, b);
}
static inline tenon_dim_t tenon_stride(tenon_infer_t *infer, const tenon_meta_t *meta, int32_t axis) { /* in elements */
  tenon_dim_t s = tenon_extent(1);
  if (meta->strides) return meta->strides[axis];
  for (int32_t i = meta->ndim - 1; i > axis; i--) s = tenon_dim(infer, TENON_DIM_MUL, s, meta->dims[i]);
  return s;
}
/* Number `index` of the stream with `seed`: Philox 4x32-10 (Salmon et al. 2011), key seed, counter index / 4. */
static inline uint32_t tenon_random(uint64_t seed, uint64_t index) {
  uint32_t c[4] = {(uint32_t)(index >> 2), (uint32_t)(index >> 34), 0, 0}, k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int r = 0; r < 10; r++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    uint64_t p = (uint64_t)0xD2511F53u * c[0], q = (uint64_t)0xCD9E8D57u * c[2];
    c[0] = (uint32_t)(q >> 32) ^ c[1] ^ k0, c[1] = (uint32_t)q;
    c[2] = (uint32_t)(p >> 32) ^ c[3] ^ k1, c[3] = (uint32_t)p;
  }
  return c[index & 3];
}

#endif
