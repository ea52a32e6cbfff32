/* tenon/api/operators.h: finding operators, and what they declare: arguments, kernels, example
 * inputs, stubs; setting attributes.  Part of tenon/tenon.h. */
#ifndef TENON_API_OPERATORS_H
#define TENON_API_OPERATORS_H

#include <tenon/api/export.h>
#include <tenon/graph.h>
#include <tenon/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- finding --------------------------------------------------------------------------------- */

/* Finds an operator by "ns::name" or "ns::name.overload".
 *
 * Errors: TENON_NOT_FOUND, with the loaded libraries and the nearest names in the message.
 * Ownership: the handle is valid while its library is loaded. */
TENON_API tenon_status_t tenon_op_find(const char *name, const tenon_op_t **out_op);

/* Lists all operators, sorted by name.
 *
 * Ownership: the caller frees the array with tenon_ops_release. */
TENON_API tenon_status_t tenon_ops_list(const tenon_op_t *const **out_ops, int32_t *out_count);
TENON_API void tenon_ops_release(const tenon_op_t *const *ops);

/* ---- declarations ---------------------------------------------------------------------------- */

/* What an operator declares.
 * Ownership: strings are valid as long as the operator.  NULL: not declared. */
typedef struct tenon_op_info_t {
  uint32_t size;
  uint32_t traits;  /* TENON_PURE | ... */
  const char *name; /* "ns::name" */
  const char *schema;
  const char *doc;
  const char *types;
  const char *shapes;
  const char *where;
  const char *gradient;
  const char *batching;
  const char *sharding;
  const char *reuse;
  const char *library;
  const char *library_version;
  const char *library_path;
  int64_t version;
  int32_t input_count;
  int32_t attr_count;
  int32_t output_count;
  int32_t kernel_count;
  uint32_t is_stateful;   /* 1: it has a state (TENON_STATE), which tenon_bound_t keeps. */
  uint32_t has_reference; /* 1: it has a reference function; see tenon/check.h. */
  const char *samples;    /* Example inputs; see tenon/check.h. */
} tenon_op_info_t;

/* Fills in `info`.  The caller sets info->size. */
TENON_API void tenon_op_info(const tenon_op_t *op, tenon_op_info_t *info);

/* Roles of an argument. */
enum {
  TENON_ARGUMENT_INPUT = 0,
  TENON_ARGUMENT_ATTR = 1,
  TENON_ARGUMENT_OUTPUT = 2
};

/* An argument or a result of a schema. */
typedef struct tenon_argument_t {
  uint32_t size;
  uint32_t role; /* TENON_ARGUMENT_... */
  uint32_t kind; /* TENON_KIND_...; of inputs and results, TENSOR or TENSORS. */
  uint32_t is_optional;
  uint32_t is_keyword; /* It can only be passed by name. */
  uint32_t is_host;    /* It is marked @host. */
  uint32_t is_written; /* The operator writes to it. */
  uint32_t has_default;
  int32_t index; /* Among the inputs, the attributes or the results. */
  uint32_t choice_count;
  const char *const *choices;
  const char *name;
  tenon_value_t value; /* The default. */
  uint32_t place;      /* Position among all arguments of the schema, or among the results. */
  /* The letter of its alias mark: arguments and results with the same letter share memory.  0:
   * none. */
  uint32_t mark;
  uint32_t is_scalar; /* An attribute that accepts bool, int or float; its kind is FLOAT. */
  int32_t count;      /* Lists: the length that the schema states; -1: any. */
  int32_t count_attr; /* Lists of tensors: the int attribute that states the length; -1: none. */
  /* A list of strings "name=value", for arguments that the schema does not name. */
  uint32_t is_open;
} tenon_argument_t;

/* Describes the i-th argument of a role.
 *
 * Errors: TENON_INVALID if `index` is out of range. */
TENON_API tenon_status_t tenon_op_argument(const tenon_op_t *op, uint32_t role, int32_t index,
                                           tenon_argument_t *argument);

/* Describes the i-th kernel: "cpu avx512 loop f32 -> f32", followed by "(chosen)" for the kernel in
 * use.
 *
 * Returns: NULL if `index` is out of range.
 * Ownership: the caller frees the text. */
TENON_API char *tenon_op_kernel(const tenon_op_t *op, int32_t index);

/* ---- example inputs -------------------------------------------------------------------------- */

/* Options for example inputs, which tests, benchmarks and fuzzers use.  They come from the
 * operator's TENON_SAMPLES (tenon/check.h).  Without this declaration there is one example, which
 * satisfies the schema, TYPES and SHAPES. */
typedef struct tenon_sample_t {
  uint32_t size;
  uint32_t index; /* Index of the example in TENON_SAMPLES. */
  /* The dtype of the first type variable.  No bits: f32 if it is allowed, otherwise another
   * dtype. */
  tenon_dtype_t dtype;
  int64_t extent; /* Value of all extents that nothing determines; 0: small, different values. */
  uint64_t seed;  /* Seed of the elements; equal seeds give equal elements. */
  uint32_t name_count;
  uint32_t reserved;
  const char *const *names; /* Named extents of the declarations, and their values. */
  const int64_t *extents;
} tenon_sample_t;

/* Returns the number of examples; at least 1. */
TENON_API int32_t tenon_op_sample_count(const tenon_op_t *op);

/* Creates the arguments of an example.
 *
 * Arguments: `out_values` has room for all inputs followed by all attributes, as
 * tenon_op_call_values accepts them.
 * Errors: TENON_RANGE if the index is out of range; TENON_INVALID for a dtype that TYPES do not
 * allow, or if infer refuses arguments that come from the schema alone; TENON_UNIMPLEMENTED if
 * nothing is known about an attribute; the message then says to add TENON_SAMPLES.
 * Ownership: the tensors are dense, in host memory, and the caller's until
 * tenon_op_sample_release.  Strings and lists of attributes belong to the operator.
 * Threads: any thread. */
TENON_API tenon_status_t tenon_op_sample(const tenon_op_t *op, const tenon_sample_t *options,
                                         tenon_value_t *out_values);
TENON_API void tenon_op_sample_release(const tenon_op_t *op, tenon_value_t *values);

/* ---- stubs ----------------------------------------------------------------------------------- */

/* Describes the operator's stub (tenon/iterator.h): "pointwise", or, as declared by TENON_REDUCES,
 * "x over axes".
 *
 * Returns: NULL if it has no stub. */
TENON_API const char *tenon_op_stub(const tenon_op_t *op);

/* A function that implements a stub.
 * Ownership: strings are valid as long as the library that provides the function. */
typedef struct tenon_stub_slot_t {
  uint32_t size;
  uint32_t is_usable;     /* The processor has the instruction set. */
  const char *backend;    /* "npu" */
  const char *capability; /* CPU: the instruction set; "" for the baseline. */
  const char *kernel;
  const char *library;
  uint64_t number; /* Number of the registration. */
} tenon_stub_slot_t;

/* Describes the i-th function that implements the stub, the newest first: a stub or a loop.
 *
 * Errors: TENON_INVALID if `index` is out of range. */
TENON_API tenon_status_t tenon_op_stub_slot(const tenon_op_t *op, int32_t index,
                                            tenon_stub_slot_t *slot);

/* ---- attributes ------------------------------------------------------------------------------ */

/* Creates the attributes of one operator, which are then set by name.  The host checks each one
 * when it is set, and fills in defaults.
 *
 * Threads: one thread at a time, until all attributes are set. */
TENON_API tenon_status_t tenon_attrs_create(const tenon_op_t *op, tenon_attrs_t **out_attrs);
TENON_API void tenon_attrs_release(tenon_attrs_t *attrs);

/* Declares that names and values are those of an older version of the operator, as in an old
 * model.  The operator's TENON_UPGRADE declarations rename, drop or set attributes.
 *
 * Call it before setting any attribute.  A version newer than the operator's counts as the
 * operator's version. */
TENON_API tenon_status_t tenon_attrs_upgrade(tenon_attrs_t *attrs, int64_t version);

/* Sets an attribute.
 *
 * An INT is accepted for a FLOAT, a STR for a CHOICE, and INTS for DIMS.  If the schema has a `**`
 * argument, an attribute with an unknown name is kept there as a string "name=value"; otherwise it
 * is an error.
 *
 * Ownership: strings and lists are copied; tensors and graphs are retained. */
TENON_API tenon_status_t tenon_attrs_set(tenon_attrs_t *attrs, const char *name,
                                         const tenon_value_t *value);
TENON_API tenon_status_t tenon_attrs_int(tenon_attrs_t *attrs, const char *name, int64_t value);
TENON_API tenon_status_t tenon_attrs_float(tenon_attrs_t *attrs, const char *name, double value);
TENON_API tenon_status_t tenon_attrs_text(tenon_attrs_t *attrs, const char *name,
                                          const char *value);
TENON_API tenon_status_t tenon_attrs_ints(tenon_attrs_t *attrs, const char *name,
                                          const int64_t *values, uint32_t count);

/* Sets an attribute from a text in the schema's language: "0.5", "[1, 2]", "f32", "tanh". */
TENON_API tenon_status_t tenon_attrs_parse(tenon_attrs_t *attrs, const char *name,
                                           const char *text);

/* Returns the array of attributes that calls accept, in the schema's order.
 *
 * Errors: required attributes are missing (the message lists all of them), or the operator's
 * validate refuses them.
 * Ownership: the array is valid until `attrs` is changed or released. */
TENON_API tenon_status_t tenon_attrs_values(tenon_attrs_t *attrs, const tenon_value_t **out_values);

#ifdef __cplusplus
}
#endif
#endif
