/* The values of a graph as files of one folder, written by `tenon run --values` and read by `tenon
 * compare`. The file values.txt lists them, one line each with tabs between the fields: kind
 * (input, value, output), file, dtype, name, node, operator. */
#ifndef TOOLS_VALUES_H
#define TOOLS_VALUES_H

#include <tenon/tenon.h>

#include "text.h"

typedef struct values_request_t {
  const tenon_graph_t *graph;
  const tenon_compile_t *options;
  tenon_tensor_t *const *inputs;
  tenon_tensor_t *const *outputs; /* of a run of the unmodified graph */
  const char *folder;
  uint64_t seed;
  /* One executable for each value, so that fused nodes stay fused; else one executable for all
   * values. */
  bool each;
} values_request_t;
bool values_save(const values_request_t *request, text_t *why);

typedef struct value_t {
  const char *kind;
  const char *file;
  const char *dtype;
  const char *name;
  const char *node;
  const char *op;
} value_t;
typedef struct values_t { /* in the order of the graph's nodes */
  value_t *items;
  int32_t count;
  int32_t capacity;
  char *folder;
  texts_t lines; /* owns the texts that the items point to */
} values_t;
bool values_load(const char *folder, values_t *values, text_t *why);
void values_free(values_t *values);
const value_t *values_find(const values_t *values, const char *kind,
                           const char *name); /* NULL: there is none */
/* Reads the file of a value. Returns NULL on failure, with the reason in `why`. */
tenon_tensor_t *values_tensor(const values_t *values, const value_t *value, text_t *why);

#endif
