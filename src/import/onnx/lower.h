/* Lowering: what an ONNX operator becomes.  Most are a rule, a text such as
 *   "Gemm(a, b, c?) = gemm(a, b, c, alpha=alpha?1.0, trans_a=transA?0)" where the left side names
 *   the node's inputs and the right side is one call or several; the others are functions. Failures
 *   are sticky: after the first one, or after is_missing, every function below does nothing and
 *   gives NULL. */
#ifndef TN_ONNX_LOWER_H
#define TN_ONNX_LOWER_H

#include "import/onnx/import.h"

typedef struct tn_lower_t { /* a node on its way */
  tn_import_t *import;
  tn_scope_t *scope;
  const tn_onnx_node_t *node;
  const char *name; /* for dumps */
  int64_t version;  /* of its domain's operator set */
  tn_attrs_list_t attrs;
  tn_ref_t **inputs; /* NULL: absent */
  int32_t input_count;
  tn_ref_t **outputs; /* to be set */
  int32_t output_count;
  int32_t
      /* of a node of a custom domain: items of a list of results whose number its schema does not
       * state; -1 */
      rest;
  bool
      /* the node, or a body of it, needs an operator that is not supported: nothing more is
       * built */
      is_missing;
  tenon_status_t status;
} tn_lower_t;

/* clang-format off */
/* Rules of one operator: the one with the greatest `since` that the model's operator set has reached is taken.
 *   text      = Operator "(" [parameter {"," parameter}] ")" ["=" {names "=" call ";"} results]
 *   parameter = name ["?"]                          an input, "?": may be absent
 *             | "*" name                            the remaining inputs, as a list
 *             | "-" name                            an attribute without meaning here
 *   results   = value                               of a call all its results, in order
 *   value     = call | name | "_" (absent) | "[" value {"," value} "]" | constant
 *   call      = operator of core "(" [argument {"," argument}] ")"
 *   argument  = value | attribute "=" source
 *   source    = literal | ":" name                  the dtype of a value
 *             | name ["?" literal]                  an attribute of the node, and its default
 *             | name "?:" name                      an attribute of the node, else the dtype of a value
 *             | name "{" from ":" to {"," from ":" to} "}"   an attribute of the node under other names
 *             | "#"                                 how many outputs the node has
 *   constant  = number ":" (name | dtype)           a scalar of that value's dtype, or of that dtype
 *             | "[" number {"," number} "]" ":i64"  a list
 *             | "@" name ["?" literal] [":" (name | dtype)]   an attribute as a tensor; with a dtype, a scalar
 * Without "=" the rule is a function. */
/* clang-format on */
typedef struct tn_rule_t {
  const char *text;
  int64_t since;
  void (*lower)(tn_lower_t *lower);
} tn_rule_t;
typedef struct tn_choice_t { /* the rules of one operator */
  const tn_rule_t *rule;
  struct tn_choice_t *next;
} tn_choice_t;

typedef struct tn_rules_t { /* one family */
  const char *domain;
  const tn_rule_t *items;
  size_t count;
} tn_rules_t;
#define TN_RULES(name, domain_)                                                                    \
  const tn_rules_t name = {domain_, rules, sizeof rules / sizeof *rules}

/* rule.c */
const tn_rules_t *tn_rules_at(size_t index); /* all families; NULL past the last */
bool tn_rules_have(const char *domain);      /* is it one of ONNX's own? */
void tn_rule_run(const tn_rule_t *rule, tn_lower_t *lower);
/* Runs the right side of a rule whose parameters a, b, c, ... are these edges; the first result,
 * NULL on failure. */
tn_ref_t *tn_lower_run(tn_lower_t *lower, tn_ref_t *const *edges, size_t count, const char *format,
                       ...) TENON_FORMAT(4, 5);
/* Edges for tn_lower_run: the array and how many. */
#define TN_REFS(...)                                                                               \
  (tn_ref_t *[]){__VA_ARGS__}, sizeof((tn_ref_t *[]){__VA_ARGS__}) / sizeof(tn_ref_t *)

/* node.c */
typedef struct tn_operand_t { /* of a call */
  tn_ref_t *const *edges;
  int32_t count; /* 0: absent, unless is_list */
  bool is_list;
} tn_operand_t;
tenon_status_t tn_node_import(tn_import_t *import, tn_scope_t *scope, const tn_onnx_node_t *node);
void tn_lower_fail(tn_lower_t *lower, const char *format, ...) TENON_FORMAT(2, 3);
/* Notes that the operator of this node is not supported, and why; its outputs become missing. */
void tn_lower_missing(tn_lower_t *lower, const char *format, ...) TENON_FORMAT(2, 3);
/* The operator of a call; NULL: this build lacks it, which was noted. */
const tenon_op_t *tn_lower_op(tn_lower_t *lower, const char *name);
/* A call: gives *out_count edges in the arena, missing ones if an operand is missing. */
tn_ref_t **tn_lower_call(tn_lower_t *lower, const tenon_op_t *op, tenon_attrs_t *attrs,
                         const tn_operand_t *operands, int32_t operand_count, int32_t *out_count);
tn_ref_t *tn_lower_tensor(tn_lower_t *lower,
                          tenon_tensor_t *tensor); /* a constant; takes the tensor over */
tn_ref_t *tn_lower_ints(tn_lower_t *lower, const int64_t *values, size_t count);
tn_ref_t *tn_lower_scalar(tn_lower_t *lower, tenon_dtype_t dtype,
                          double value); /* integers exactly up to 2^53 */
/* Integers of a constant input; false (no failure) when it is none. */
bool tn_lower_known(tn_lower_t *lower, tn_ref_t *edge, int64_t *out_values, int32_t capacity,
                    int32_t *out_count);
/* The rank; fails when it is not known. */
int32_t tn_lower_rank(tn_lower_t *lower, const tn_ref_t *edge);
int64_t tn_lower_extent(tn_lower_t *lower, const tn_ref_t *edge,
                        int32_t axis); /* the same; axis from the end if < 0 */
tenon_dtype_t tn_lower_dtype(tn_lower_t *lower, const tn_ref_t *edge); /* the same */

/* custom.c */
void tn_lower_custom(tn_lower_t *lower); /* a node of a domain that is not ONNX's */

/* attribute.c */
tenon_status_t tn_attrs_resolve(tn_import_t *import, tn_scope_t *scope,
                                const tn_onnx_attribute_t *protos, size_t count,
                                tn_attrs_list_t *out_attrs);
tn_attr_t *tn_lower_attr(tn_lower_t *lower, const char *name); /* marks it as used; NULL: absent */
/* The attribute if it has this type; fails when it has another. */
const tn_onnx_attribute_t *tn_lower_typed(tn_lower_t *lower, const char *name, int64_t type);
int64_t tn_lower_int(tn_lower_t *lower, const char *name, int64_t otherwise);
const char *tn_lower_text(tn_lower_t *lower, const char *name, const char *otherwise);
/* The attribute as a tensor: lists of numbers and strings 1-D, an int as a list of one, a float as
 * a scalar. */
tn_ref_t *tn_lower_attr_tensor(tn_lower_t *lower, const char *name);
/* Gives an attribute of the node to the argument of an operator, converted; false on failure.
 * `name` is what `attrs` is told: another than the argument's when the node is of an older version
 * of the operator. */
bool tn_lower_set(tn_lower_t *lower, tn_attr_t *attr, const tenon_op_t *op, tenon_attrs_t *attrs,
                  const char *name, const char *argument);

#endif
