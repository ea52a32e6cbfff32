/* A graph of MXNet in the form of `NAME-symbol.json`, of any version: attributes are under `attrs`,
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
  uint32_t line; /* the line in the file */
} symbol_node_t;

typedef struct symbol_t {
  const symbol_node_t *nodes;
  const symbol_entry_t *heads;
  int32_t node_count;
  int32_t head_count;
  bool is_np_shape; /* an extent of 0 means 0; otherwise it means unknown */
} symbol_t;

/* Returns the value of an attribute; NULL: the node does not have it. */
const char *symbol_attr(const symbol_node_t *node, const char *name);
/* Reads a symbol and checks all of it: types, the numbers of nodes (inputs come before the node
 * that uses them), and that the names of `null` nodes are unique. */
tenon_status_t symbol_read(const tn_json_t *root, tn_arena_t *arena, symbol_t *out_symbol);

#endif
