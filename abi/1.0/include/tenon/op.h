/* tenon/op.h: the binary contract between an operator library and its host.  Contract version 1.0.
 *
 * An operator library is a shared object that exports one function, tenon_library().  This function
 * returns a constant descriptor with a list of items.  An operator is an item that holds a schema,
 * followed by the items that describe this operator.  A library has no link-time dependency on the
 * host: it calls the host through the table `host`, which every structure passed to its functions
 * carries.
 *
 * Growth.  Every structure that crosses the boundary starts with its size and grows only at its
 * end.  Tensors, values, strings, dtypes, devices, extents and items never change.  A field beyond
 * the size recorded by the writer reads as zero; zero means "absent".  A library that uses a field
 * or a service newer than contract 1.0 must check TENON_HAS first.
 *
 * Indices.  `inputs[i]` is the i-th tensor argument of the schema, `attrs[i]` the i-th argument
 * that is not a tensor, and `outputs[i]` the i-th result.  Positions follow the schema, even when
 * optional arguments are omitted.
 *
 * docs/contract.md defines the languages of the declarations (schemas, TENON_TYPES, TENON_SHAPES,
 * TENON_GRADIENT and so on). */
#ifndef TENON_OP_H
#define TENON_OP_H

#include <stddef.h>
#include <stdint.h>

#define TENON_ABI 0x10000u /* Version of the contract: major << 16 | minor. */
#define TENON_RANK_MAX 64  /* Largest number of dimensions of a tensor. */

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
/* ---- constants ------------------------------------------------------------------------------- */

/* Status codes, of type tenon_status_t.
 * Source: the numbers and meanings are those of absl::StatusCode, which XLA and TensorFlow
 * share. */
enum {
  TENON_OK = 0,
  TENON_CANCELLED = 1,
  TENON_UNKNOWN = 2,
  TENON_INVALID = 3,       /* An argument is invalid. */
  TENON_DEADLINE = 4,      /* The deadline expired. */
  TENON_NOT_FOUND = 5,
  TENON_EXISTS = 6,
  TENON_DENIED = 7,        /* Permission was denied. */
  TENON_MEMORY = 8,        /* Memory or another resource is exhausted. */
  TENON_PRECONDITION = 9,  /* The state of the system does not allow the operation. */
  TENON_ABORTED = 10,
  TENON_RANGE = 11,        /* A value or an index is out of range. */
  TENON_UNIMPLEMENTED = 12,
  TENON_INTERNAL = 13,     /* An invariant does not hold. */
  TENON_UNAVAILABLE = 14   /* A service, a device or a result is not available now. */
};

/* Kinds of an attribute; see tenon_value_t. */
enum {
  TENON_KIND_NONE = 0,
  TENON_KIND_BOOL = 1,
  TENON_KIND_INT = 2,
  TENON_KIND_DIM = 3,
  TENON_KIND_FLOAT = 4,
  TENON_KIND_STR = 5,
  TENON_KIND_CHOICE = 6,
  TENON_KIND_DTYPE = 7,
  TENON_KIND_DEVICE = 8,
  TENON_KIND_TENSOR = 9,
  TENON_KIND_GRAPH = 10,
  TENON_KIND_INTS = 11,
  TENON_KIND_DIMS = 12,
  TENON_KIND_FLOATS = 13,
  TENON_KIND_STRS = 14,
  TENON_KIND_TENSORS = 15
};

/* Operations of tenon_dim() on two extents a and b. */
enum {
  TENON_DIM_ADD = 0,
  TENON_DIM_SUB = 1,
  TENON_DIM_MUL = 2,
  TENON_DIM_DIV = 3,         /* Quotient, rounded down. */
  TENON_DIM_CEIL_DIV = 4,    /* Quotient, rounded up. */
  TENON_DIM_MOD = 5,
  TENON_DIM_MIN = 6,
  TENON_DIM_MAX = 7,
  TENON_DIM_BROADCAST = 8,   /* Broadcasts a and b by NumPy's rule. */
  /* Returns a new extent whose value only `run` finds out: at least b and at most a.  With a = -1
   * the extent has no upper bound. */
  TENON_DIM_BOUND = 9,
  TENON_DIM_EQUAL = 10,      /* Asserts a = b, and returns the one that is better known. */
  /* Returns 1 or 0, or a symbol if the host cannot decide whether a = b. */
  TENON_DIM_TEST_EQUAL = 11,
  /* Returns 1 or 0, or a symbol if the host cannot decide whether a < b. */
  TENON_DIM_TEST_LESS = 12
};

/* Tags of items.  A host skips an item with an unknown tag, unless the tag includes TENON_MUST. */
enum {
  TENON_TAG_END = 0,          /* Ends the list. */
  TENON_TAG_OP = 1,           /* Starts an operator.  text: its schema. */
  TENON_TAG_DOC = 2,          /* text: one summary line; more may follow after a line break. */
  TENON_TAG_TYPES = 3,        /* text: dtypes of inputs and outputs. */
  TENON_TAG_SHAPES = 4,       /* text: shapes of outputs; replaces infer, or precedes it. */
  TENON_TAG_WHERE = 5,        /* text: words about inputs, such as known, deduced, strided. */
  TENON_TAG_TRAITS = 6,       /* number: TENON_PURE | ... */
  TENON_TAG_GRADIENT = 7,     /* text: gradient formulas. */
  TENON_TAG_BATCHING = 8,     /* text: how a batch axis passes through the operator. */
  TENON_TAG_SHARDING = 9,     /* text: how the operator is partitioned over devices. */
  /* text: outputs that may reuse an input's buffer, if the input is not used later and appears only
   * once in the call. */
  TENON_TAG_REUSE = 10,
  TENON_TAG_USES = 11,        /* text: operators that the kernels call. */
  TENON_TAG_INFER = 12,       /* function: tenon_infer_fn. */
  TENON_TAG_VALIDATE = 13,    /* function: tenon_node_fn. */
  TENON_TAG_CREATE = 14,      /* function: tenon_node_fn. */
  TENON_TAG_DESTROY = 15,     /* function: tenon_free_fn. */
  TENON_TAG_PREPARE = 16,     /* function: tenon_node_fn. */
  TENON_TAG_RELEASE = 17,     /* function: tenon_free_fn. */
  TENON_TAG_KERNEL = 18,      /* text: backend and words; function: tenon_run_fn. */
  TENON_TAG_COMPOSITE = 19,   /* text: words; function: tenon_run_fn. */
  TENON_TAG_LOOP = 20,        /* text: dtypes and words; function: tenon_loop_fn, over elements. */
  TENON_TAG_ROW = 21,         /* As LOOP; the function processes whole rows of the last axis. */
  /* text: words; function: tenon_run_fn, which launches kernels of source.h on any device. */
  TENON_TAG_SOURCE = 22,
  /* text: the attribute whose graph determines the results; see graph.h. */
  TENON_TAG_SUBGRAPH = 23,
  TENON_TAG_GROUP = 24,       /* text: the item list of another source file. */
  /* text: the name of an operator of any library, to which the kernels that follow are added. */
  TENON_TAG_EXTEND = 25,
  TENON_TAG_VERSION = 26,     /* number: version of the operator; 1 by default. */
  /* number: a version; text: converts its attributes to the next one. */
  TENON_TAG_UPGRADE = 27,
  TENON_TAG_OPEN = 28,        /* function: tenon_node_fn.  Precedes the first operator. */
  TENON_TAG_CLOSE = 29,       /* function: tenon_free_fn.  Precedes the first operator. */
  TENON_TAG_ABOUT = 30,       /* text: "author: ...\nlicence: ...".  Precedes the first operator. */
  /* text: backend and words; function: tenon_stub_fn; see iterator.h. */
  TENON_TAG_STUB = 31,
  TENON_TAG_REDUCES = 32,     /* text: the input that a reduction reads, and the axes it removes. */
  TENON_TAG_DEVICE = 33,      /* text: table of device.h.  Precedes the first operator. */
  TENON_TAG_BRIDGE = 34,      /* text: table of bridge.h.  Precedes the first operator. */
  TENON_TAG_PASS = 35,        /* text: tenon_pass_t of graph.h.  Precedes the first operator. */
  /* text: tenon_partitioner_t of graph.h.  Precedes the first operator. */
  TENON_TAG_PARTITIONER = 36,
  TENON_TAG_SAMPLES = 37,     /* text: example inputs; see check.h. */
  TENON_TAG_REFERENCE = 38,   /* function: tenon_run_fn; see check.h. */
  TENON_TAG_REWRITE = 39      /* text: a rule of graph.h.  Precedes the first operator. */
};

/* Phases.  The field `phase` of a structure says in which phase the host calls the function. */
enum {
  TENON_PHASE_OPEN = 1,
  TENON_PHASE_VALIDATE = 2,
  TENON_PHASE_CREATE = 3,
  TENON_PHASE_INFER = 4,
  TENON_PHASE_PREPARE = 5,
  TENON_PHASE_RUN = 6,
  TENON_PHASE_LOOP = 7,
  TENON_PHASE_DEVICE = 8,
  TENON_PHASE_BRIDGE = 9,
  TENON_PHASE_PASS = 10
};

#define TENON_DTYPE_(code, bits) ((code) | (bits) << 8 | 1 << 16)
/* Dtypes as numbers, for a switch over tenon_dtype_id().
 * Source: the type codes are DLPack's.  STRING and LIST are Tenon's own, and live in host
 * memory. */
enum {
  TENON_BOOL = TENON_DTYPE_(6, 8),
  TENON_STRING = TENON_DTYPE_(200, 128),
  TENON_LIST = TENON_DTYPE_(201, 64),
  TENON_I2 = TENON_DTYPE_(0, 2),
  TENON_I4 = TENON_DTYPE_(0, 4),
  TENON_I8 = TENON_DTYPE_(0, 8),
  TENON_I16 = TENON_DTYPE_(0, 16),
  TENON_I32 = TENON_DTYPE_(0, 32),
  TENON_I64 = TENON_DTYPE_(0, 64),
  TENON_U2 = TENON_DTYPE_(1, 2),
  TENON_U4 = TENON_DTYPE_(1, 4),
  TENON_U8 = TENON_DTYPE_(1, 8),
  TENON_U16 = TENON_DTYPE_(1, 16),
  TENON_U32 = TENON_DTYPE_(1, 32),
  TENON_U64 = TENON_DTYPE_(1, 64),
  TENON_F16 = TENON_DTYPE_(2, 16),
  TENON_F32 = TENON_DTYPE_(2, 32),
  TENON_F64 = TENON_DTYPE_(2, 64),
  TENON_BF16 = TENON_DTYPE_(4, 16),
  TENON_C64 = TENON_DTYPE_(5, 64),
  TENON_C128 = TENON_DTYPE_(5, 128),
  TENON_F8E3M4 = TENON_DTYPE_(7, 8),
  TENON_F8E4M3 = TENON_DTYPE_(8, 8),
  TENON_F8E4M3B11FNUZ = TENON_DTYPE_(9, 8),
  TENON_F8E4M3FN = TENON_DTYPE_(10, 8),
  TENON_F8E4M3FNUZ = TENON_DTYPE_(11, 8),
  TENON_F8E5M2 = TENON_DTYPE_(12, 8),
  TENON_F8E5M2FNUZ = TENON_DTYPE_(13, 8),
  TENON_F8E8M0 = TENON_DTYPE_(14, 8),
  TENON_F6E2M3 = TENON_DTYPE_(15, 6),
  TENON_F6E3M2 = TENON_DTYPE_(16, 6),
  TENON_F4E2M1 = TENON_DTYPE_(17, 4)
};

/* Traits of an operator, combined with |. */
enum {
  /* The results depend only on inputs and attributes; every effect is visible in the schema. */
  TENON_PURE = 1,
  /* After broadcasting, element i of each output depends only on element i of each input. */
  TENON_POINTWISE = 2,
  /* The operator draws from call->random.  TENON_PURE then disregards the random numbers. */
  TENON_RANDOM = 4,
  /* A call returns within microseconds, so a host with an interpreter lock need not release it. */
  TENON_BRIEF = 8
};
/* Combine with TENON_RANDOM.  Every call draws exactly `count` numbers; infer->draws is ignored. */
#define TENON_DRAWS(count) (((int64_t)(count) + 1) << 32)
/* Combine with a tag.  A host that does not know the tag refuses the library. */
#define TENON_MUST 0x40000000u

/* Kinds of tenon_detail_t. */
enum {
  TENON_DETAIL_QUANTISED = 1,
  TENON_DETAIL_CSR = 2,
  TENON_DETAIL_ROW_SPARSE = 3
};
/* clang-format on */

/* ---- values ---------------------------------------------------------------------------------- */

typedef int32_t tenon_status_t;             /* TENON_OK, TENON_INVALID, ... */
typedef struct tenon_op_t tenon_op_t;       /* An operator that the host resolved; opaque. */
typedef struct tenon_graph_t tenon_graph_t; /* A graph of the host, used as an attribute; opaque. */
typedef struct tenon_host_t tenon_host_t;   /* The host's services, defined below. */

/* An element type.  Elements smaller than a byte are packed, low bits first.
 * Source: DLPack's DLDataType. */
typedef struct tenon_dtype_t {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} tenon_dtype_t;

/* A device.  Type 1 is the CPU.
 * Source: DLPack's DLDevice. */
typedef struct tenon_device_t {
  int32_t type;
  int32_t id;
} tenon_device_t;

/* A view of a tensor.  A `Tensor[]` argument is one view of dtype LIST; see tenon_item().
 *
 * Ownership: the host owns the structure and everything that it points to.  A kernel keeps no
 * pointer to it after the call, and creates further views only with host->temporary and host->view.
 * Source: DLPack's DLTensor, followed by two more words. */
typedef struct tenon_tensor_t {
  void *data;
  tenon_device_t device;
  int32_t ndim;
  tenon_dtype_t dtype;
  int64_t *shape;
  int64_t *strides;     /* In elements; never NULL if ndim > 0. */
  uint64_t byte_offset; /* 0 on devices whose memory has flat addresses. */
  uint64_t keys;        /* Reserved for the host. */
  /* NULL for a plain dense tensor.  Only kernels with the word "quantised" or "sparse" see
   * others. */
  const struct tenon_detail_t *detail;
} tenon_tensor_t;

/* Quantisation parameters, or the parts of a sparse tensor.
 *
 * Quantised: real value = (stored - zero_point) * scale.
 * Sparse: `data` of the tensor is NULL, and its shape is that of the whole tensor.  Elements that
 * are not stored are 0.  The parts are dense tensors:
 *   CSR of [rows, columns]: values [n]; indices i64 [n], the columns, ascending within each row;
 *   indptr i64 [rows + 1], where each row begins, from 0 to n.
 *   ROW_SPARSE of [rows, rest...]: values [n, rest...]; indices i64 [n], the rows, ascending. */
typedef struct tenon_detail_t {
  uint32_t size;
  uint32_t kind;                    /* TENON_DETAIL_... */
  int32_t axis;                     /* Quantised: axis of the scales; -1: one scale in all. */
  int32_t block;                    /* Elements along `axis` per scale; 0: one scale per index. */
  const tenon_tensor_t *scale;      /* Quantised. */
  const tenon_tensor_t *zero_point; /* Quantised; NULL: the zero point is 0. */
  const tenon_tensor_t *values;     /* Sparse. */
  const tenon_tensor_t *indices;    /* Sparse. */
  const tenon_tensor_t *indptr;     /* CSR. */
} tenon_detail_t;

/* An element of a string tensor.  It is not terminated by a zero byte. */
typedef struct tenon_string_t {
  const char *data;
  uint64_t size;
} tenon_string_t;

/* An extent, or an integer that extents are computed from; its value may be unknown.  A structure,
 * so that plain arithmetic does not compile: use tenon_dim(). */
typedef struct tenon_dim_t {
  int64_t value; /* A number; below TENON_DIM_LEAST, a symbol of the host. */
} tenon_dim_t;
#define TENON_DIM_LEAST (-((int64_t)1 << 62))

/* The value of an attribute. */
typedef struct tenon_value_t {
  uint32_t kind;  /* TENON_KIND_...; NONE: an optional attribute was omitted. */
  uint32_t count; /* Elements of a list, or bytes of a string. */
  union {
    int64_t i;       /* BOOL, INT; CHOICE: index among the choices of the schema. */
    double f;        /* FLOAT */
    tenon_dim_t dim; /* DIM; symbolic only in infer. */
    const char *s;   /* STR; also terminated by a zero byte. */
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

/* ---- what the host passes to a library's functions ------------------------------------------- */

/* tenon_infer_t, tenon_node_t, tenon_call_t and tenon_loop_t start with the same fields, so that
 * tenon_fail() accepts any of them: `size`, `phase` (TENON_PHASE_...), `host`, `op`. */

/* The description of a tensor without its data. */
typedef struct tenon_meta_t {
  uint32_t size;
  tenon_dtype_t dtype;
  int32_t ndim;   /* -1: unknown, for "deduced" inputs and for outputs that only run determines. */
  uint32_t count; /* LIST: number of items. */
  tenon_device_t device;
  tenon_dim_t *dims; /* Outputs and "deduced" inputs: an array of TENON_RANK_MAX to write to. */
  /* Inputs: NULL if row-major, see tenon_stride().  Outputs: an array to write to, see strided. */
  tenon_dim_t *strides;
  struct tenon_meta_t *const *items; /* LIST */
  const tenon_tensor_t *value; /* "Known" inputs: the tensor in host memory; NULL: not known yet. */
  /* The elements of a "known" input of at most 64 integers, possibly symbolic.  Outputs: an array
   * to write to. */
  tenon_dim_t *values;
  uint32_t value_count; /* Outputs: number of elements set in `values`. */
  uint32_t alias;       /* Outputs: set to 1 + i if the output is a view of inputs[i]. */
  uint32_t strided;     /* Outputs: set to 1 if `strides` is set; otherwise row-major. */
  /* TENON_DETAIL_CSR or TENON_DETAIL_ROW_SPARSE of a sparse tensor, otherwise 0.  Outputs: set it,
   * and call host->sparse in run. */
  uint32_t layout;
  tenon_dim_t offset; /* Views: elements from the first element of the input. */
  /* Quantised inputs only: the contents of sparse inputs are not known before run. */
  const tenon_detail_t *detail;
} tenon_meta_t;

/* Argument of infer, which computes the metas of the outputs.
 *
 * Ownership: infer keeps no pointer to anything it received.
 * Threads: the host may call infer at any time and on any thread, without data and without a
 * device. */
typedef struct tenon_infer_t {
  uint32_t size;
  uint32_t phase;
  const tenon_host_t *host;
  const tenon_op_t *op;
  const tenon_value_t *attrs;
  void *context;
  void *state;
  tenon_meta_t *const *inputs; /* NULL: the argument was omitted. */
  /* NULL: the output is not wanted.  The dtype is already set, and so are the dims if TENON_SHAPES
   * determines them. */
  tenon_meta_t *const *outputs;
  tenon_dim_t workspace; /* Set by infer: bytes of workspace that run needs, 64-byte aligned. */
  tenon_dim_t draws;     /* Set by infer with TENON_RANDOM: most 32-bit numbers that run draws. */
} tenon_infer_t;

/* Argument of open, validate, create and prepare.  In open, `op` is NULL.  In validate and create,
 * only attributes are known.  In prepare, one device and the metas of the inputs are known. */
typedef struct tenon_node_t {
  uint32_t size;
  uint32_t phase;
  const tenon_host_t *host;
  const tenon_op_t *op;
  const tenon_value_t *attrs; /* Valid as long as the state. */
  void *context;
  void *state; /* open, create: set it.  prepare: the state that create set. */
  void *plan;  /* prepare: set it; run receives it. */
  tenon_meta_t *const *inputs;
  tenon_device_t device;
  uint64_t constant; /* prepare: bit i: inputs[i]->value is a constant. */
  /* prepare: set bit i if run will not read the elements of constant input i, so that the host may
   * free them. */
  uint64_t consumed;
} tenon_node_t;

/* The random numbers of a call.  Number i is tenon_random(seed, offset + i). */
typedef struct tenon_random_t {
  uint32_t size;
  uint32_t reserved;
  uint64_t seed;
  uint64_t offset;
  /* If not NULL, two numbers in device memory: the seed, and an addend to `offset`. */
  const uint64_t *device;
} tenon_random_t;

/* Argument of run.
 * Threads: several calls may run at the same time with the same state. */
typedef struct tenon_call_t {
  uint32_t size;
  uint32_t phase;
  const tenon_host_t *host;
  const tenon_op_t *op;
  const tenon_value_t *attrs; /* All attributes, with defaults filled in. */
  void *context;
  void *state;
  tenon_tensor_t *const *inputs;  /* NULL: an optional argument was omitted. */
  tenon_tensor_t *const *outputs; /* NULL: an optional result is not wanted. */
  void *plan;
  void *stream;                  /* From the device's stream_create or stream_import; or NULL. */
  void *workspace;               /* As many bytes as infer requested. */
  const tenon_op_t *const *uses; /* The operators named by TENON_USES, in order. */
  const tenon_random_t *random;
  /* Bit i: add to outputs[i].  Only kernels registered as "accumulates" see a bit set. */
  uint64_t accumulate;
  uint64_t ticket; /* device.h: the ticket of the work that the kernel enqueues. */
  /* device.h: the device on which the call runs; NULL if no plug-in serves it. */
  const struct tenon_device_context_t *device;
} tenon_call_t;

/* Argument of a loop or row function: operands that are dense.  In a loop, no output overlaps an
 * input, because the driver passes a copy of such an input.  In a row function, an input that
 * TENON_REUSE names may be the memory of the output.  tenon_op_run does not check its outputs: a
 * row function may then see any overlap, and two outputs may overlap. */
typedef struct tenon_loop_t {
  uint32_t size;
  uint32_t phase;
  const tenon_host_t *host;
  const tenon_op_t *op;
  const tenon_value_t *attrs;
  void *context;
  void *state;
  int64_t count;     /* Elements to process.  ROW: elements in a row of the first input. */
  void *const *data; /* The inputs, then the outputs; NULL: the operand was omitted. */
  /* Bytes to the next element, which is the element's size.  ROW: bytes to the next row; 0 if all
   * rows share one. */
  const int64_t *stride;
  /* Row-major index in the output of the first element; ROW: of the first row. */
  uint64_t first;
  uint64_t seed;         /* TENON_RANDOM */
  uint64_t offset;       /* TENON_RANDOM */
  int64_t rows;          /* ROW: number of rows. */
  const int64_t *widths; /* ROW: elements in a row of each operand. */
} tenon_loop_t;

typedef struct tenon_iterator_t tenon_iterator_t; /* Argument of a stub; see iterator.h. */
typedef struct tenon_grid_t tenon_grid_t;         /* Argument of host->launch; see source.h. */

typedef tenon_status_t (*tenon_infer_fn)(tenon_infer_t *infer);
typedef tenon_status_t (*tenon_node_fn)(tenon_node_t *node);
typedef tenon_status_t (*tenon_run_fn)(tenon_call_t *call);
typedef tenon_status_t (*tenon_loop_fn)(const tenon_loop_t *loop);
typedef tenon_status_t (*tenon_stub_fn)(const tenon_iterator_t *iterator);
typedef tenon_status_t (*tenon_part_fn)(tenon_call_t *call, void *argument, int64_t begin,
                                        int64_t end);
typedef void (*tenon_free_fn)(void *pointer);
typedef void (*tenon_any_fn)(void);

/* The services of the host.  The first words of each comment name the phases in which a library may
 * call the service. */
struct tenon_host_t {
  uint32_t size;
  uint32_t abi;

  /* Any phase.  Records an error message, which the host copies.
   * Arguments: `context`: any structure that starts with size, phase, host, op.
   * Returns: `code`; TENON_INTERNAL if `code` is TENON_OK.
   * Threads: any thread. */
  tenon_status_t (*fail)(const void *context, tenon_status_t code, const char *format, ...)
      TENON_FORMAT(3, 4);

  /* infer.  Combines two extents.
   * Arguments: `operation`: TENON_DIM_...
   * Returns: a known extent if both operands are known.
   * Errors: an impossible operation makes this infer fail; infer need not check the result. */
  tenon_dim_t (*dim)(tenon_infer_t *infer, uint32_t operation, tenon_dim_t a, tenon_dim_t b);

  /* infer.  Sets the number of items of an output of dtype LIST, and creates their metas. */
  tenon_status_t (*list)(tenon_infer_t *infer, uint32_t output, uint32_t count);

  /* run.  Allocates temporary memory, a temporary tensor, or a view.  The memory is on the call's
   * device; for a composite, it is in host memory.
   * Arguments: `size` in bytes; `offset` and `strides` in elements.
   * Returns: NULL on failure, with the message recorded.
   * Ownership: the host frees the result after the call, in order with the call's stream. */
  void *(*allocate)(tenon_call_t *call, uint64_t size);
  tenon_tensor_t *(*temporary)(tenon_call_t *call, tenon_dtype_t dtype, int32_t ndim,
                               const int64_t *shape);
  tenon_tensor_t *(*view)(tenon_call_t *call, const tenon_tensor_t *of, int64_t offset,
                          int32_t ndim, const int64_t *shape, const int64_t *strides);

  /* run.  Sets the actual shape of an output for which infer stated bounds, and allocates its
   * buffer if infer stated no upper bound.  The data pointer of the output may change. */
  tenon_status_t (*resize)(tenon_call_t *call, uint32_t output, int32_t ndim, const int64_t *shape);

  /* run, composite.  Makes outputs[output] equal to `tensor`: an input, a temporary or a result of
   * invoke.  For dtype LIST, the whole list.  Shares storage where possible, otherwise copies. */
  tenon_status_t (*assign)(tenon_call_t *call, uint32_t output, tenon_tensor_t *tensor);

  /* run.  Copies a string into element `index` of a string output. */
  tenon_status_t (*set_string)(tenon_call_t *call, tenon_tensor_t *output, int64_t index,
                               const char *data, uint64_t size);

  /* run.  Calls an operator through dispatch, on the device and stream of this call.
   * Arguments: `attrs`: NULL for defaults.  An output that is NULL is inferred, and becomes a
   * temporary of this call. */
  tenon_status_t (*invoke)(tenon_call_t *call, const tenon_op_t *op, const tenon_value_t *attrs,
                           tenon_tensor_t *const *inputs, tenon_tensor_t **outputs);

  /* run.  Executes a graph as invoke executes an operator.
   * Arguments: all inputs and all outputs of the graph, in order.
   * Errors: a count that differs from the graph's own. */
  tenon_status_t (*evaluate)(tenon_call_t *call, const tenon_graph_t *graph, uint32_t input_count,
                             tenon_tensor_t *const *inputs, uint32_t output_count,
                             tenon_tensor_t **outputs);

  /* run, CPU.  Splits [0, count) into parts of at least `grain`, and runs them on the host's
   * threads and on the calling thread.  A part may call only fail, zone and set_string, and throws
   * nothing.
   * Returns: once all parts have finished, the first failure, if any. */
  tenon_status_t (*parallel)(tenon_call_t *call, int64_t count, int64_t grain, tenon_part_fn part,
                             void *argument);

  /* Any phase.  Opens a named span in the profile; with NULL, closes the span opened last.
   * Ownership: `name` must remain valid. */
  void (*zone)(const void *context, const char *name);

  /* Any phase.  Returns a native object of the device by name ("cl_context", "cublas"), or NULL. */
  void *(*native)(const void *context, const char *name);

  /* run.  As resize, for an output without a buffer, with memory that the library allocated on the
   * call's device.
   * Ownership: the host calls release(context), on any thread, when the last tensor over this
   * memory is gone. */
  tenon_status_t (*adopt)(tenon_call_t *call, uint32_t output, int32_t ndim, const int64_t *shape,
                          void *data, tenon_free_fn release, void *context);

  /* run, CPU, in a stub.  As parallel, over the range of an iterator.  Each part is an iterator
   * with `context` as its context.
   * Arguments: `grain`: least number of elements that a part reads. */
  tenon_status_t (*split)(const tenon_iterator_t *iterator, int64_t grain, tenon_stub_fn part,
                          void *context);

  /* run, in a SOURCE function.  Enqueues a kernel on the call's device; on the CPU, executes it. */
  tenon_status_t (*launch)(tenon_call_t *call, const tenon_grid_t *grid);

  /* run, CPU. Sets the shape of a sparse output and allocates its parts, replacing previous ones.
   * The kernel then writes `values` and `indices` of outputs[output]->detail; `indptr` is all 0.
   * Every sparse output needs this call, unless the kernel assigns the output.
   * Arguments: `shape`: must agree with infer, where -1 stands for an unknown extent; `count`:
   * number of stored elements (CSR) or rows (ROW_SPARSE). */
  tenon_status_t (*sparse)(tenon_call_t *call, uint32_t output, int32_t ndim, const int64_t *shape,
                           int64_t count);

  /* run.  Frees a tensor of temporary, view, invoke or evaluate before the call ends, in order with
   * the call's stream.  A composite that iterates frees what it no longer needs; otherwise its
   * memory grows with every iteration.  A tensor that came several times is freed once for each. */
  void (*release)(tenon_call_t *call, tenon_tensor_t *tensor);
};

/* ---- what a library declares ----------------------------------------------------------------- */

typedef struct tenon_item_t {
  uint32_t tag; /* TENON_TAG_... */
  uint32_t reserved;
  int64_t number;
  const void *text;
  tenon_any_fn function;
} tenon_item_t;

typedef struct tenon_descriptor_t {
  uint32_t size;
  uint32_t abi;
  uint32_t layout;   /* TENON_LAYOUT.  The host refuses a library with another layout. */
  /* Features that the library needs from the host.  Contract 1.0 defines none. */
  uint32_t required;
  const char *name;
  const char *version;
  const tenon_item_t *items; /* Ends with TENON_TAG_END. */
} tenon_descriptor_t;

#ifndef TENON_REQUIRED
#define TENON_REQUIRED 0u
#endif
/* clang-format off */
/* The sizes of structures that never change. */
#define TENON_LAYOUT \
  ((uint32_t)sizeof(tenon_tensor_t)     | (uint32_t)sizeof(tenon_value_t) << 8 | \
   (uint32_t)sizeof(tenon_item_t) << 16 | (uint32_t)sizeof(tenon_string_t) << 24)
/* Contract 1 does not support 32-bit machines. */
typedef char tenon_layout_t[sizeof(void *) == 8 &&
                                    (sizeof(tenon_tensor_t) == 64 &&
                                     offsetof(tenon_tensor_t, keys) == 48 &&
                                     sizeof(tenon_value_t) == 16 &&
                                     sizeof(tenon_item_t) == 32 &&
                                     sizeof(tenon_meta_t) == 96 &&
                                     offsetof(tenon_call_t, accumulate) == 104 &&
                                     offsetof(tenon_loop_t, widths) == 104 &&
                                     sizeof(tenon_detail_t) == 56 &&
                                     sizeof(tenon_host_t) == 160)
                                ? 1 : -1];
/* clang-format on */
#ifdef __cplusplus
} /* extern "C" */
#if defined(__cpp_exceptions) || defined(__EXCEPTIONS) || defined(_CPPUNWIND)
#include <exception>
/* Calls F and turns an exception into a failure, since no exception may leave a library. */
template <class C, tenon_status_t (*F)(C *)>
tenon_status_t tenon_guard(C *context) noexcept {
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
/* The sizeof makes sure that a function of another type does not compile. */
#define TENON_FN_(tag, text, C, f) \
  { TENON_TAG_##tag, 0, 0 * (int64_t)sizeof((f)((C *)0)), text, (tenon_any_fn)TENON_GUARD(C, f) }
#define TENON_FREE_(tag, f) \
  { TENON_TAG_##tag, 0, 0 * (int64_t)sizeof((f) == (tenon_free_fn)0), 0, (tenon_any_fn)(f) }

/* An operator, and the items that may follow its schema. */
#define TENON_OP(schema, ...)     TENON_TEXT_(OP, schema), __VA_ARGS__
#define TENON_DOC(text)           TENON_TEXT_(DOC, text)
#define TENON_TYPES(text)         TENON_TEXT_(TYPES, text)
#define TENON_SHAPES(text)        TENON_TEXT_(SHAPES, text)
#define TENON_WHERE(text)         TENON_TEXT_(WHERE, text)
#define TENON_TRAITS(bits)        { TENON_TAG_TRAITS, 0, (bits), 0, 0 }
#define TENON_GRADIENT(text)      TENON_TEXT_(GRADIENT, text)
#define TENON_BATCHING(text)      TENON_TEXT_(BATCHING, text)
#define TENON_SHARDING(text)      TENON_TEXT_(SHARDING, text)
#define TENON_REUSE(text)         TENON_TEXT_(REUSE, text)
#define TENON_USES(text)          TENON_TEXT_(USES, text)
#define TENON_VERSION(number)     { TENON_TAG_VERSION, 0, (number), 0, 0 }
#define TENON_UPGRADE(from, text) { TENON_TAG_UPGRADE, 0, (from), "" text, 0 }
#define TENON_INFER(f)            TENON_FN_(INFER, 0, tenon_infer_t, f)
#define TENON_VALIDATE(f)         TENON_FN_(VALIDATE, 0, tenon_node_t, f)
#define TENON_STATE(create, destroy) \
  TENON_FN_(CREATE, 0, tenon_node_t, create), TENON_FREE_(DESTROY, destroy)
#define TENON_PREPARE(prepare, release) \
  TENON_FN_(PREPARE, 0, tenon_node_t, prepare), TENON_FREE_(RELEASE, release)
#define TENON_KERNEL(where, f)    TENON_FN_(KERNEL, where, tenon_call_t, f)
/* A kernel registration without a function: "npu fallback", "autocast f32". */
#define TENON_RULE(where)         TENON_TEXT_(KERNEL, where)
#define TENON_COMPOSITE(f)        TENON_FN_(COMPOSITE, 0, tenon_call_t, f)
#define TENON_LOOP(types, f)      TENON_FN_(LOOP, types, const tenon_loop_t, f)
#define TENON_ROW(types, f)       TENON_FN_(ROW, types, const tenon_loop_t, f)

/* Kernels for an operator that another item or another library defines. */
#define TENON_EXTEND(name, ...) TENON_TEXT_(EXTEND, name), __VA_ARGS__

/* Items of the library itself, which precede its first operator. */
#define TENON_OPEN(open, close) TENON_FN_(OPEN, 0, tenon_node_t, open), TENON_FREE_(CLOSE, close)
#define TENON_ABOUT(text)       TENON_TEXT_(ABOUT, text)

/* The operators of one source file of a library with several.  Each such file defines a list with
 * TENON_ITEMS; the file with TENON_LIBRARY names these lists with TENON_GROUP. */
#define TENON_GROUP(items) { TENON_TAG_GROUP, 0, 0, (items), 0 }
#define TENON_ITEMS(name, ...) \
  TENON_C const tenon_item_t name[]; \
  const tenon_item_t name[] = {__VA_ARGS__, {TENON_TAG_END, 0, 0, 0, 0}};

/* The library.  Exports tenon_library(); with TENON_STATIC, defines tenon_library_<name>()
 * instead. */
#ifdef TENON_STATIC
#define TENON_ENTRY_(name) tenon_library_##name(void)
#else
#define TENON_ENTRY_(name) tenon_library(void)
#endif
#define TENON_LIBRARY(name, version, ...) \
  static const tenon_item_t tenon_items_##name[] = {__VA_ARGS__, {TENON_TAG_END, 0, 0, 0, 0}}; \
  static const tenon_descriptor_t tenon_self_##name = { \
      sizeof(tenon_descriptor_t), TENON_ABI, TENON_LAYOUT, TENON_REQUIRED, #name, version, \
      tenon_items_##name}; \
  TENON_C TENON_EXPORT const tenon_descriptor_t *TENON_ENTRY_(name); \
  const tenon_descriptor_t *TENON_ENTRY_(name) { return &tenon_self_##name; }

/* Whether the structure at `pointer` is large enough to hold `field`. */
#define TENON_HAS(pointer, field) \
  ((pointer)->size >= (size_t)((const char *)(&(pointer)->field + 1) - (const char *)(pointer)))
/* Records a message and returns its code: return tenon_fail(call, TENON_INVALID, "...", ...). */
#define tenon_fail(context, ...) ((context)->host->fail((context), __VA_ARGS__))
/* Returns from the enclosing function if `call` fails. */
#define TENON_TRY(call) \
  do { \
    tenon_status_t tenon_s_ = (call); \
    if (tenon_s_ != TENON_OK) return tenon_s_; \
  } while (0)
/* clang-format on */

/* ---- conveniences ---------------------------------------------------------------------------- */

/* The number of a dtype: TENON_F32, ... */
static inline uint32_t tenon_dtype_id(tenon_dtype_t d) {
  return (uint32_t)d.code | (uint32_t)d.bits << 8 | (uint32_t)d.lanes << 16;
}

/* The dtype with that number. */
static inline tenon_dtype_t tenon_dtype(uint32_t id) {
  tenon_dtype_t d = {(uint8_t)id, (uint8_t)(id >> 8), (uint16_t)(id >> 16)};
  return d;
}

/* The number of elements of a tensor. */
static inline int64_t tenon_count(const tenon_tensor_t *t) {
  int64_t n = 1;
  for (int32_t i = 0; i < t->ndim; i++) n *= t->shape[i];
  return n;
}

/* Item i of a tensor of dtype LIST, which has list->shape[0] items. */
static inline tenon_tensor_t *tenon_item(const tenon_tensor_t *list, int64_t i) {
  return ((tenon_tensor_t *const *)list->data)[i];
}

/* A known extent. */
static inline tenon_dim_t tenon_extent(int64_t known) {
  tenon_dim_t d = {known};
  return d;
}

/* Whether an extent is a number, rather than a symbol. */
static inline int tenon_is_known(tenon_dim_t d) { return d.value >= TENON_DIM_LEAST; }

/* Combines two extents; see host->dim. */
static inline tenon_dim_t tenon_dim(tenon_infer_t *infer, uint32_t operation, tenon_dim_t a,
                                    tenon_dim_t b) {
  return infer->host->dim(infer, operation, a, b);
}

/* The stride of an axis, in elements. */
static inline tenon_dim_t tenon_stride(tenon_infer_t *infer, const tenon_meta_t *meta,
                                       int32_t axis) {
  tenon_dim_t s = tenon_extent(1);
  if (meta->strides) return meta->strides[axis];
  for (int32_t i = meta->ndim - 1; i > axis; i--)
    s = tenon_dim(infer, TENON_DIM_MUL, s, meta->dims[i]);
  return s;
}

/* Number `index` of the random stream with `seed`.
 *
 * Returns: 32 random bits.  The key is the seed, and the counter is index / 4.
 * Source: Philox 4x32-10; Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011. */
static inline uint32_t tenon_random(uint64_t seed, uint64_t index) {
  uint32_t c[4] = {(uint32_t)(index >> 2), (uint32_t)(index >> 34), 0, 0};
  uint32_t k0 = (uint32_t)seed;
  uint32_t k1 = (uint32_t)(seed >> 32);
  for (int r = 0; r < 10; r++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    uint64_t p = (uint64_t)0xD2511F53u * c[0];
    uint64_t q = (uint64_t)0xCD9E8D57u * c[2];
    c[0] = (uint32_t)(q >> 32) ^ c[1] ^ k0;
    c[1] = (uint32_t)q;
    c[2] = (uint32_t)(p >> 32) ^ c[3] ^ k1;
    c[3] = (uint32_t)p;
  }
  return c[index & 3];
}

#endif
