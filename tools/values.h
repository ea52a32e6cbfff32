/* Each value of a graph, as files of one folder: what `tenon run --values` writes and `tenon
 * compare` reads.  values.txt lists them, a line each with tabs between: what it is (input, value,
 * output), file, dtype, name, node, operator. */
#ifndef TOOLS_VALUES_H
#define TOOLS_VALUES_H

#include <tenon/tenon.h>

#include "text.h"

typedef struct values_request_t {
  const tenon_graph_t *graph;
  const tenon_compile_t *options;
  tenon_tensor_t *const *inputs;
  tenon_tensor_t *const *outputs; /* of a run of the graph as it is */
  const char *folder;
  uint64_t seed;
  bool
      /* an executable for each value, so that what is fused stays so; else one that gives all of
       * them */
      each;
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
  texts_t lines; /* which the items point into */
} values_t;
bool values_load(const char *folder, values_t *values, text_t *why);
void values_free(values_t *values);
const value_t *values_find(const values_t *values, const char *kind,
                           const char *name); /* NULL: none */
/* Reads its file; NULL: `why` says why not. */
tenon_tensor_t *values_tensor(const values_t *values, const value_t *value, text_t *why);

#endif
