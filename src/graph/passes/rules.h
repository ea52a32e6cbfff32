/* The rules by which the compiler rewrites graphs. A rule has a name, by which it can be turned
 * off, and the compiler counts how often it applied each rule. A rule is either a text
 * (core/rule.h), or a function where a text cannot say what to do. */
#ifndef TN_GRAPH_PASSES_RULES_H
#define TN_GRAPH_PASSES_RULES_H

#include "core/rule.h"
#include "graph/passes/rewrite.h"

typedef struct tn_rewrite_rule_t {
  /* "name: before -> after", for readers only if there is a function; NULL: the end of a table. */
  const char *text;
  const char *condition; /* what the text does not say; NULL: nothing */
  /* The operators of the nodes that `apply` gets; all NULL: any node. */
  const char *ops[3];
  tenon_status_t (*apply)(tn_rewrite_t *r, tn_node_t *node); /* NULL: the rule is its text */
} tn_rewrite_rule_t;

/* The passes that consist of rules, in the order in which they run. */
enum {
  TN_RULES_LIBRARIES, /* those that libraries bring */
  TN_RULES_QUANTISE,
  TN_RULES_CONTROL,
  TN_RULES_SIMPLIFY,
  TN_RULES_FORMULAS,
  TN_RULES_BLOCKS,
  TN_RULES_ATTENTION,
  TN_RULES_SHARE,
  TN_RULES_CHANNELS,
  TN_RULES_FUSE,
  TN_RULES_CONCAT,
  TN_RULES_PASSES,
};

/* Operators between dequantize_linear and quantize_linear become operators of 8-bit numbers
 * (quantise.c). */
extern const tn_rewrite_rule_t tn_rules_quantise[];
/* Branches that are always taken, and loops of few iterations (control.c). */
extern const tn_rewrite_rule_t tn_rules_control[];
/* Nodes that do nothing, padding of convolutions, and transposed products (simplify.c). */
extern const tn_rewrite_rule_t tn_rules_simplify[];
/* Formulas that programs write out become one node (formulas.c). */
extern const tn_rewrite_rule_t tn_rules_formulas[];
/* Norms of channels, and rotary embeddings (blocks.c). */
extern const tn_rewrite_rule_t tn_rules_blocks[];
/* Attention that is written out as products and a softmax becomes one operator (attention.c). */
extern const tn_rewrite_rule_t tn_rules_attention[];
/* Of equal nodes one stays (share.c). */
extern const tn_rewrite_rule_t tn_rules_share[];
/* Constant scales and shifts of channels become part of the convolutions and products around them,
 * a sum of convolutions of one value becomes one, and a mean over all positions a pool
 * (channels.c). */
extern const tn_rewrite_rule_t tn_rules_channels[];
/* A bias, a residual and an activation become part of the product or convolution before them
 * (fuse.c). */
extern const tn_rewrite_rule_t tn_rules_fuse[];
/* A concat takes the result of another one as a part; and the rule by which plans place operands
 * in results, which concat_place.c applies (concat.c). */
extern const tn_rewrite_rule_t tn_rules_concat[];

/* A rule in one compilation. */
typedef struct tn_rewrite_use_t {
  const char *name;              /* with the library's name before it if a library brought it */
  const tn_rewrite_rule_t *rule; /* NULL: a library brought it */
  const tn_rewrite_text_t *text; /* NULL: the rule has a function */
  uint8_t pass;                  /* TN_RULES_... */
  bool is_off;
  int32_t count; /* how often it was applied */
} tn_rewrite_use_t;

typedef struct tn_rules_t {
  tn_rewrite_use_t *uses;
  size_t count;
  size_t capacity;
  tn_rewrite_list_t **lists; /* of the libraries, retained */
  size_t list_count;
  size_t list_capacity;
} tn_rules_t;

/* Lists all rules for a compilation, with those of loaded libraries. `without` names rules to leave
 * out, separated by commas; NULL: none. */
tenon_status_t tn_rules_open(tn_rules_t *rules, const char *without);
void tn_rules_close(tn_rules_t *rules);
/* Parse the built-in rules when the process starts, and free them at shutdown. */
tenon_status_t tn_rules_start(void);
void tn_rules_clear(void);
/* Applies the rules of a pass to each node, in the order of the nodes. */
tenon_status_t tn_rules_apply(tn_rules_t *rules, uint8_t pass, tenon_graph_t *graph);
/* Whether a rule of a pass was applied. */
bool tn_rules_changed(const tn_rules_t *rules, uint8_t pass);
/* Prints how often each rule was applied, without those that never were. */
void tn_rules_print(const tn_rules_t *rules, tn_text_t *text);

/* Replaces the node, and those that only it reads, if they are what the text of the rule says. */
tenon_status_t tn_rewrite_apply_text(tn_rewrite_t *r, tn_node_t *node,
                                     const tn_rewrite_text_t *text);

#endif
