/* Rewriting rules as text: a name, what the compiler looks for, and what it puts in its place, such
 * as "silu: mul(x, sigmoid(x)) -> silu(x)" (docs/rewrites.md). */
#ifndef TN_CORE_RULE_H
#define TN_CORE_RULE_H

#include <stdbool.h>
#include <tenon/op.h>

#include "base/arena.h"

enum { TN_REWRITE_NAMES = 16 /* the most names of a rule */ };

enum {
  TN_TERM_VALUE,  /* x: any value, the same one wherever the name stands */
  TN_TERM_SCALAR, /* $e: a constant with one element, as a number */
  TN_TERM_NUMBER, /* 0.5: a constant with one element that is near it */
  TN_TERM_AXES,   /* [-1]: a constant list of axes */
  TN_TERM_ABSENT, /* None */
  TN_TERM_CALL,
  TN_TERM_CHOICE, /* (a | b): one of these */
};

/* An attribute of a call: a literal, or what a name stands for. */
typedef struct tn_term_attr_t {
  const char *name;
  int32_t index; /* of the name; -1: a literal */
  tenon_value_t literal;
} tn_term_attr_t;

typedef struct tn_term_t {
  uint8_t kind;
  bool is_optional; /* VALUE: "x?", which may be absent */
  int32_t index;    /* VALUE, SCALAR: of the name */
  tenon_value_t literal;
  const char *op; /* CALL: the full name */
  uint32_t count;
  const struct tn_term_t *terms; /* CALL: the operands; CHOICE: the alternatives */
  uint32_t attr_count;
  const tn_term_attr_t *attrs;
} tn_term_t;

typedef struct tn_rewrite_text_t {
  const char *name;
  tn_term_t before; /* a call, or a choice of calls */
  tn_term_t after;  /* a call, or a value */
  uint32_t name_count;
  const char *names[TN_REWRITE_NAMES];
} tn_rewrite_text_t;

/* Parses "name: before -> after". Operators without a namespace get `ns`. Whether operators and
 * attributes exist is not checked. Fails with the text, the column, what was expected and what was
 * found. */
tenon_status_t tn_rewrite_parse(const char *text, const char *ns, tn_arena_t *arena,
                                tn_rewrite_text_t *out_rule);

#endif
