/* Lowering: what an ONNX operator becomes. Most lowerings are a text such as "Gemm(a, b, c?) =
 * gemm(a, b, c, alpha=alpha?1.0, trans_a=transA?0)", whose left side names the node's inputs and
 * whose right side is one call or several; the others are functions. Failures are sticky: after the
 * first failure, or if is_missing is set, the functions that build values do nothing and return
 * NULL, and those that read a property return a harmless value. */
#ifndef TN_ONNX_LOWER_H
#define TN_ONNX_LOWER_H

#include "import/onnx/import.h"

/* A node that is being imported. */
typedef struct tn_lower_t {
  tn_import_t *import;
  tn_scope_t *scope;
  const tn_onnx_node_t *node;
  const char *name; /* for dumps and messages */
  int64_t version;  /* of the operator set of its domain */
  tn_attrs_list_t attrs;
  tn_ref_t **inputs; /* NULL: absent */
  int32_t input_count;
  tn_ref_t **outputs; /* set by the lowering */
  int32_t output_count;
  /* For a node of a custom domain: number of items of a list of results whose length the schema
   * does not state; -1: none. */
  int32_t rest;
  /* The node, or a body of it, needs an unsupported operator: nothing more is built. */
  bool is_missing;
  tenon_status_t status;
} tn_lower_t;

/* The lowerings of one operator differ in `since`: the one with the greatest `since` that the
 * model's operator set has reached is used. The language of the texts:
 *   text      = Operator "(" [parameter {"," parameter}] ")" ["=" {names "=" call ";"} results]
 *   parameter = name ["?"]                an input; "?": it may be absent
 *             | "*" name                  the remaining inputs, as a list
 *             | "-" name                  an attribute that has no meaning here
 *   results   = value                     of a call: all its results, in order
 *   value     = call | name | "_" (absent) | "[" value {"," value} "]" | constant
 *   call      = operator of core "(" [argument {"," argument}] ")"
 *   argument  = value | attribute "=" source
 *   source    = literal
 *             | ":" name                  the dtype of a value
 *             | name ["?" literal]        an attribute of the node, and its default
 *             | name "?:" name            an attribute of the node, else the dtype of a value
 *             | name "{" from ":" to {"," from ":" to} "}"
 *                                         an attribute of the node, its values under other names
 *             | "#"                       the number of outputs of the node
 *   constant  = number ":" (name | dtype) a scalar of the dtype of a value, or of a named dtype
 *             | "[" number {"," number} "]" ":i64"
 *                                         a list
 *             | "@" name ["?" literal] [":" (name | dtype)]
 *                                         an attribute as a tensor; with a dtype, as a scalar
 * A text without "=" belongs to a function. One without "(" belongs to a function that refuses the
 * operator. */
typedef struct tn_lowering_t {
  const char *text;
  int64_t since;
  void (*lower)(tn_lower_t *lower);
} tn_lowering_t;

/* The lowerings of one family. */
typedef struct tn_lowerings_t {
  const char *domain;
  const tn_lowering_t *items;
  size_t count;
} tn_lowerings_t;
#define TN_LOWERINGS(name, domain_)                                                                \
  const tn_lowerings_t name = {domain_, lowerings, sizeof lowerings / sizeof *lowerings}

/* lowering.c: the texts */

void tn_lowering_run(const tn_lowering_t *lowering, tn_lower_t *lower);
/* Runs the right side of a lowering whose parameters a, b, c, ... are these values. Returns the
 * first result, or NULL on failure. */
tn_ref_t *tn_lower_run(tn_lower_t *lower, tn_ref_t *const *edges, size_t count, const char *format,
                       ...) TENON_FORMAT(4, 5);
/* The same; returns all results, which are in the arena, or NULL on failure. */
tn_ref_t *const *tn_lower_run_all(tn_lower_t *lower, tn_ref_t *const *edges, size_t count,
                                  int32_t *out_count, const char *format, ...) TENON_FORMAT(5, 6);
/* Values for tn_lower_run: the array and its length. */
#define TN_REFS(...)                                                                               \
  (tn_ref_t *[]){__VA_ARGS__}, sizeof((tn_ref_t *[]){__VA_ARGS__}) / sizeof(tn_ref_t *)

/* lower.c: failures, calls and constants */

/* An operand of a call. */
typedef struct tn_operand_t {
  tn_ref_t *const *edges;
  int32_t count; /* 0: absent, unless is_list */
  bool is_list;
} tn_operand_t;
/* Keeps a failure unless the node has failed before. Returns whether the node has failed. */
bool tn_lower_has_failed(tn_lower_t *lower, tenon_status_t status);
/* Reports that the node is wrong. */
void tn_lower_fail(tn_lower_t *lower, const char *format, ...) TENON_FORMAT(2, 3);
/* Records that the operator of this node is not supported, and why. Its outputs are marked as
 * missing. */
void tn_lower_missing(tn_lower_t *lower, const char *format, ...) TENON_FORMAT(2, 3);
/* The same for an operator "ns::name" of a library, which is not loaded. */
void tn_lower_unloaded(tn_lower_t *lower, const char *op);
/* The operator of a call; NULL: this build does not have it, which was recorded. */
const tenon_op_t *tn_lower_op(tn_lower_t *lower, const char *name);
/* Adds a call to the graph. Returns *out_count values in the arena; they are marked as missing if
 * an operand is. */
tn_ref_t **tn_lower_call(tn_lower_t *lower, const tenon_op_t *op, tenon_attrs_t *attrs,
                         const tn_operand_t *operands, int32_t operand_count, int32_t *out_count);
/* lower_control.c: evaluates the body of a SequenceMap for the items of lists. */
void tn_lower_map(tn_lower_t *lower);
/* lower_gradient.c: the operator Gradient. */
void tn_lower_gradient(tn_lower_t *lower);
/* Creates a constant. Takes ownership of the tensor. */
tn_ref_t *tn_lower_tensor(tn_lower_t *lower, tenon_tensor_t *tensor);
tn_ref_t *tn_lower_ints(tn_lower_t *lower, const int64_t *values, size_t count);
/* Integers are exact up to 2^53. */
tn_ref_t *tn_lower_scalar(tn_lower_t *lower, tenon_dtype_t dtype, double value);
/* Reads the integers of a constant input. Returns false, without failing, if it is not a
 * constant. */
bool tn_lower_known(tn_lower_t *lower, tn_ref_t *edge, int64_t *out_values, int32_t capacity,
                    int32_t *out_count);
/* Returns the tensor of a constant input, which stays the importer's. Fails if the value is not a
 * constant; `name` is that of the input in messages. */
const tenon_tensor_t *tn_lower_constant(tn_lower_t *lower, tn_ref_t *edge, const char *name);
/* Returns an input of the node; NULL: it is absent. */
static inline tn_ref_t *tn_lower_input(const tn_lower_t *lower, int32_t index) {
  return index < lower->input_count ? lower->inputs[index] : NULL;
}
/* Returns the rank; fails if neither the file nor inference knows it. */
int32_t tn_lower_rank(tn_lower_t *lower, tn_ref_t *edge);
/* Returns an extent; fails if it is unknown. A negative axis counts from the end. */
int64_t tn_lower_extent(tn_lower_t *lower, tn_ref_t *edge, int32_t axis);
/* The same; -1: the extent is unknown. Fails if the rank is unknown or the axis does not exist. */
int64_t tn_lower_find_extent(tn_lower_t *lower, tn_ref_t *edge, int32_t axis);
/* Returns the dtype; fails if it is unknown. */
tenon_dtype_t tn_lower_dtype(tn_lower_t *lower, tn_ref_t *edge);

/* attribute.c: attributes of nodes */

tenon_status_t tn_attrs_resolve(tn_import_t *import, tn_scope_t *scope,
                                const tn_onnx_attribute_t *protos, size_t count,
                                tn_attrs_list_t *out_attrs);
/* Marks the attribute as used. Returns NULL if it is absent. */
tn_attr_t *tn_lower_attr(tn_lower_t *lower, const char *name);
/* The attribute if it has this type; fails if it has another type. */
const tn_onnx_attribute_t *tn_lower_typed(tn_lower_t *lower, const char *name, int64_t type);
int64_t tn_lower_int(tn_lower_t *lower, const char *name, int64_t otherwise);
const char *tn_lower_text(tn_lower_t *lower, const char *name, const char *otherwise);
/* The attribute as a tensor: lists of numbers and strings are 1-D, an int is a list of one item, a
 * float is a scalar. */
tn_ref_t *tn_lower_attr_tensor(tn_lower_t *lower, const char *name);
/* Converts an attribute of the node and sets it as `argument` of the operator; false on failure.
 * `name` is the name to set in `attrs`, which differs from the argument's if the node is of an
 * older version of the operator. */
bool tn_lower_set(tn_lower_t *lower, tn_attr_t *attr, const tenon_op_t *op, tenon_attrs_t *attrs,
                  const char *name, const char *argument);

#endif
