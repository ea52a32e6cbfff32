/* An operator of Tenon as TensorFlow sees it: its name, and how its inputs, attributes and results
 * are written in the definition of a TensorFlow operator.
 *
 *   a tensor             x: T
 *   an optional tensor   bias: N_bias * T          a list of no tensor or of one
 *   a list of tensors    xs: N_xs * T, or xs: T_xs where each item has a dtype of its own
 *   random operators     the last input `seed` has two numbers
 *   an input that is     a result x_new follows, with its new contents; the input keeps the old
 *   written to           ones
 *   an attribute         int, bool, string, type, list(int) or list(string); floats, lists of
 *                        floats and optional attributes are strings in the language of schemas, so
 *                        that no float is rounded to 32 bits and None can be told
 */
#ifndef BRIDGES_TENSORFLOW_OPERATOR_H
#define BRIDGES_TENSORFLOW_OPERATOR_H

#include <stdbool.h>
#include <tenon/tenon.h>

#include "tf.h"

enum {
  OPERATOR_MOST = 64,          /* inputs, attributes, and results */
  OPERATOR_TENSORS_MOST = 256, /* inputs, and outputs, of a node in TensorFlow */
  OPERATORS_MOST = 4096,
  NAME_MOST = 72
};

/* How an attribute is written in TensorFlow. */
typedef enum encoding_t {
  ENCODING_LEFT_OUT, /* It is optional, and TensorFlow cannot have it. */
  ENCODING_BOOL,
  ENCODING_INT,
  ENCODING_TEXT, /* texts, choices and devices */
  ENCODING_TYPE,
  ENCODING_INTS,
  ENCODING_TEXTS,
  ENCODING_LITERAL /* a string in the language of schemas */
} encoding_t;

/* An input or a result. */
typedef struct side_t {
  tenon_argument_t of;
  char name[NAME_MOST];  /* in TensorFlow */
  char count[NAME_MOST]; /* the attribute with the number of items; "": it is a single tensor, or
                          * `type` is a list */
  char type[NAME_MOST];  /* the attribute with the dtype; "": the dtype is `dtype` */
  char set[400];         /* the dtypes that `type` may have, as "{float, double}"; "": any */
  int dtype;
  bool is_types;     /* `type` is a list with the dtype of each item */
  bool defines_type; /* The definition of `type` belongs to this argument. */
} side_t;

typedef struct attribute_t {
  tenon_argument_t of;
  char name[NAME_MOST]; /* in TensorFlow */
  encoding_t encoding;
} attribute_t;

typedef struct operator_t {
  const tenon_op_t *op;
  const char *name; /* "demo::gelu" */
  char own[160];    /* "Tenon>Demo>Gelu" */
  uint32_t index;   /* the number of the operator, from 0 on */
  uint32_t input_count;
  uint32_t attr_count;
  uint32_t output_count;
  side_t *inputs;
  attribute_t *attrs;
  side_t *outputs;
  uint64_t written; /* bit i: the operator writes to input i */
  bool is_random;
  bool is_stateful; /* Two calls with the same arguments need not be one. */
  /* Shapes and dtypes of the inputs, with the attributes of a call, determine those of the
   * results. */
  bool has_fixed_shapes;
  /* Shapes of the inputs alone determine those of the results. */
  bool has_plain_shapes;
} operator_t;

/* Describes an operator.
 *
 * Returns: NULL with the reason in `why` if TensorFlow cannot have the operator.
 * Ownership: operators are never freed, because TensorFlow keeps their definitions. */
const operator_t *operator_describe(const tenon_op_t *op, char *why, size_t capacity);
/* Whether an output of the node exists for this result: it is no input that is written to. */
bool operator_has_output(const operator_t *self, uint32_t output);
/* Registers the definition and the kernel with TensorFlow. Returns false with the reason. */
bool operator_define(const operator_t *self, char *why, size_t capacity);
/* Registers one of the bridge's own operators, whose outputs have unknown shapes. `add_parts` adds
 * inputs, outputs and attributes. Returns false with the reason. */
bool operator_define_own(const char *own, void (*add_parts)(tf_op_builder_t *builder),
                         tf_create_fn create, char *why, size_t capacity);
/* Writes the name in TensorFlow. Returns false if the name has letters that TensorFlow does not
 * allow. */
bool operator_name(const char *name, char *out_name, size_t capacity);

/* Functions without a context, one pair for each operator, since TensorFlow passes none. */
typedef struct thunk_t {
  tf_create_fn create;
  tf_shape_fn shape;
} thunk_t;
/* Returns false if all functions are in use. */
bool thunk_new(const operator_t *self, thunk_t *out_thunk);
/* Whether an operator with this name in TensorFlow has functions. */
bool thunk_has(const char *own);

/* Registers kernels of an operator for the devices of other libraries, now and whenever one comes
 * (place.c). Threads: one at a time. */
void place_operator_everywhere(const operator_t *self, tf_create_fn create);

/* Infers shapes when a graph is built. */
void infer_shapes(const operator_t *self, tf_inference_t *inference, tf_status_t *status);
/* Creates, runs and deletes a kernel: an operator with the attributes of a node. */
void *kernel_create(const operator_t *self, tf_construction_t *construction);
void kernel_compute(void *kernel, tf_context_t *context);
void kernel_delete(void *kernel);

#endif
