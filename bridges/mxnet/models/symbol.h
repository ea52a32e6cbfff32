/* A graph of MXNet's, as `NAME-symbol.json` has it: of any version, its attributes under `attrs`,
 * `attr` or `param`. */
#ifndef BRIDGES_MXNET_MODELS_SYMBOL_H
#define BRIDGES_MXNET_MODELS_SYMBOL_H

#include "base/json.h"

typedef struct symbol_attr_t {
  const char *name;
  const char *value;
} symbol_attr_t;

typedef struct symbol_entry_t { /* the index-th result of a node */
  int32_t node;
  int32_t index;
} symbol_entry_t;

typedef struct symbol_node_t {
  const char *op; /* "null": an input or a parameter */
  const char *name;
  const symbol_attr_t *attrs;
  const symbol_entry_t *inputs;
  int32_t attr_count;
  int32_t input_count;
  uint32_t line; /* of the file */
} symbol_node_t;

typedef struct symbol_t {
  const symbol_node_t *nodes;
  const symbol_entry_t *heads;
  int32_t node_count;
  int32_t head_count;
  bool is_np_shape; /* extents 0 are that, not unknown */
} symbol_t;

/* The attribute's value; NULL: there is none. */
const char *symbol_attr(const symbol_node_t *node, const char *name);
/* Checks all of it: types, numbers of nodes (inputs come before the node that takes them), unique
 * names of `null` nodes. */
tenon_status_t symbol_read(const tn_json_t *root, tn_arena_t *arena, symbol_t *out_symbol);

#endif
