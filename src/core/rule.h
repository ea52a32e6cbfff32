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
  const char *text; /* of which the rest was parsed */
  const char *name; /* with the library's name before it, unless it is a built-in rule */
  struct tn_rewrite_text_t *next; /* of the same list */
  tn_term_t before;               /* a call, or a choice of calls */
  tn_term_t after;                /* a call, or a value */
  uint32_t name_count;
  const char *names[TN_REWRITE_NAMES];
} tn_rewrite_text_t;

/* Parsed rules, in the order in which they were added. A compilation retains the lists that it
 * uses, because libraries may be unloaded meanwhile. */
typedef struct tn_rewrite_list_t {
  int64_t references; /* atomic */
  tn_arena_t arena;
  tn_rewrite_text_t *first;
  tn_rewrite_text_t *last;
  uint32_t count;
} tn_rewrite_list_t;

tenon_status_t tn_rewrite_list_create(tn_rewrite_list_t **out_list);
void tn_rewrite_list_retain(tn_rewrite_list_t *list);
void tn_rewrite_list_release(tn_rewrite_list_t *list); /* NULL: does nothing */
/* Parses "name: before -> after" and adds it. Operators without a namespace get `ns`, and so does
 * the name of the rule unless `ns` is "core". Whether operators and attributes exist is not
 * checked. Fails with the text, the column, what was expected and what was found. */
tenon_status_t tn_rewrite_list_add(tn_rewrite_list_t *list, const char *text, const char *ns);

#endif
