/* An operator of Tenon as ONNX Runtime sees it. A node is written as in the models that Tenon reads
 * and writes: the domain is the namespace, the type is the name.
 *
 *   a tensor              an input
 *   an optional tensor    an optional input
 *   a list of tensors     a variadic input. ONNX Runtime allows one, at the end: a list that other
 *                         inputs follow has them among its tensors, and takes all that they do not
 *                         need. The attribute `operand_counts` states the number of tensors of each
 *                         input of the schema where this is not so.
 *   a result              an output, in the same way
 *   an input that is      an output with the new contents, behind the results, unless a result has
 *   written to            them; the input stays as it is */
#ifndef BRIDGES_ONNXRUNTIME_OPERATORS_OPERATOR_H
#define BRIDGES_ONNXRUNTIME_OPERATORS_OPERATOR_H

#include "host.h"
#include "ort.h"

enum {
  SIDE_MOST = 64,               /* inputs, attributes or results of a schema */
  OUTPUTS_MOST = 2 * SIDE_MOST, /* results, and inputs that are written to */
  LISTS_MOST = 8,               /* inputs of a schema that are lists */
  TENSORS_MOST = 256,           /* inputs, or outputs, of a node */
  OVERLOADS_MOST = 256          /* sets of dtypes that are stated one by one */
};

#define COUNTS_ATTRIBUTE "operand_counts"

typedef struct operator_t operator_t;

/* The operator for one set of dtypes. Those that ONNX Runtime is not told are UNDEFINED. */
typedef struct overload_t {
  OrtCustomOp custom; /* first: the functions receive a pointer to it */
  const operator_t *of;
  unsigned char inputs[SIDE_MOST];
  unsigned char outputs[OUTPUTS_MOST];
} overload_t;

/* The inputs or the outputs as ONNX Runtime counts them. */
typedef struct formals_t {
  int32_t count;
  int32_t list;        /* the one that is variadic, which is the last; -1: none */
  int32_t least;       /* tensors that the variadic one has */
  bool is_homogeneous; /* the variadic one has tensors of one dtype */
} formals_t;

struct operator_t {
  const tenon_op_t *op;
  const char *name; /* "demo::gelu" */
  char *domain;     /* "demo" */
  const char *type; /* "gelu" */
  int version;
  int32_t input_count;
  int32_t attr_count;
  int32_t output_count;
  tenon_argument_t *inputs;
  tenon_argument_t *attrs;
  tenon_argument_t *outputs;
  /* For each output of a node, in the order of schema, lists counted as one: the input that it has
   * the new contents of; -1: none. From output_count on there are only such. */
  int32_t written[OUTPUTS_MOST];
  int32_t side_count; /* results, and inputs that are written to and not returned */
  formals_t in;
  formals_t out;
  bool is_random;
  bool has_own_counts; /* the operator has an attribute `operand_counts` itself */
  bool has_own_seed;   /* likewise `seed` */
  bool is_known;       /* each overload states the dtypes of all outputs */
  int32_t overload_count;
  overload_t *overloads;
};

/* Describes an operator.
 *
 * Returns: NULL with the reason in `why` if ONNX Runtime cannot have the operator.
 * Ownership: operators are never freed, because sessions use them at any time. */
const operator_t *operator_describe(const tenon_op_t *op, char *why, size_t capacity);
/* Writes why ONNX Runtime cannot have an operator; "": it can. */
void operator_explain(const tenon_op_t *op, char *why, size_t capacity);
/* Finds the sets of dtypes that the operator accepts, and fills in `in`, `out`, `is_known` and
 * `overloads`. Returns NULL, or why ONNX Runtime cannot have the operator. */
const char *types_find(operator_t *self);
/* Sets the functions of an overload. */
void custom_set(overload_t *overload);
/* Sets the functions that say which outputs may have the memory of an input. */
void inplace_set(const operator_t *self, OrtCustomOp *custom);

/* Assigns the tensors of a node to the inputs of the schema.
 *
 * Arguments: `stated`: the attribute `operand_counts`; NULL: it is absent. `out_counts`: for each
 * input its number of tensors.
 * Errors: TENON_INVALID if the numbers do not fit. */
tenon_status_t operator_count_inputs(const operator_t *self, int32_t total, const int64_t *stated,
                                     int32_t stated_count, int32_t *out_counts);
/* Assigns the outputs of a node to the results and the written inputs. */
tenon_status_t operator_count_outputs(const operator_t *self, int32_t total, int32_t *out_counts);

/* Infers types and shapes when a model is loaded. */
OrtStatus *custom_infer(const OrtCustomOp *custom, OrtShapeInferContext *context);
/* Creates, runs and deletes a kernel: an operator with the attributes of a node. */
OrtStatus *custom_create(const OrtCustomOp *custom, const OrtApi *api, const OrtKernelInfo *info,
                         void **out_kernel);
OrtStatus *kernel_compute(void *kernel, OrtKernelContext *context);
void kernel_delete(void *kernel);

#endif
