/* Graphs as text: NAME.graph, a file that people can read and compare line by line, with large
 * constants beside it in NAME.safetensors. docs/graph_text.md describes the language. */
#ifndef TN_IMPORT_TEXT_H
#define TN_IMPORT_TEXT_H

#include "graph/graph.h"
#include "import/weights.h"

/* The ending of the text, and that of the file with its weights. */
#define TN_TEXT_ENDING ".graph"
#define TN_WEIGHTS_ENDING ".safetensors"
#define TN_TEXT_HEADING "tenon graph 1" /* the first line: the language and its version */

bool tn_text_is(const void *data, size_t size); /* whether the bytes are a graph as text */
/* Writes the text to `path`, which ends with TN_TEXT_ENDING, and the file of weights if the graph
 * needs one. Errors: UNIMPLEMENTED, for constants that are sparse or quantised. */
tenon_status_t tn_text_save(const tenon_graph_t *graph, const char *path);
/* Reads the text in `file`. `folder` is where its weights are; NULL: a text in memory, which can
 * have no weights. Messages give the line. */
tenon_status_t tn_text_read(tn_storage_t *file, const char *folder, tenon_graph_t **out_graph);

/* Texts within another file, which holds the weights itself. */

typedef struct tn_text_source_t {
  /* Makes the tensor of weights('key'). */
  tenon_status_t (*get)(void *context, const char *key, tenon_dtype_t dtype, int32_t ndim,
                        const int64_t *shape, tenon_tensor_t **out_tensor);
  void *context;
} tn_text_source_t;

struct tn_weight_list_t;
/* Prints a graph. Weights are added to `weights`, which borrows them from the graph. `only_used`
 * leaves out constants that nothing reads, of which a compiled graph has many. */
tenon_status_t tn_text_print(const tenon_graph_t *graph, bool only_used,
                             struct tn_weight_list_t *weights, tn_text_t *out_text);
/* Reads a text that ends with a byte 0. */
tenon_status_t tn_text_parse(const char *text, size_t size, const tn_text_source_t *source,
                             tenon_graph_t **out_graph);

/* Weights in a file of the format safetensors, which many programs read. */

/* The weights that are to be written, in order. */
typedef struct tn_weight_list_t {
  struct tn_weight_t *items;
  size_t count;
  size_t capacity;
  uint64_t size;    /* bytes of all elements */
  tn_map_t keys;    /* the keys in use */
  bool is_numbered; /* the keys are "0", "1", ... in place of names */
  tn_map_t data;    /* 1 + index of the first weight with these elements, by their address */
  tn_arena_t arena;
} tn_weight_list_t;

/* Adds a tensor in host memory and returns its key, which is `name`, or `name` with a number if
 * another tensor has that key. A tensor that is in the list already keeps its key. The list borrows
 * the tensor. */
tenon_status_t tn_weight_list_add(tn_weight_list_t *list, const char *name,
                                  const tenon_tensor_t *tensor, const char **out_key);
/* The tensor of a list, dense: a new reference. Errors: MEMORY. */
tenon_status_t tn_weight_list_get(const tn_weight_list_t *list, size_t index,
                                  tenon_tensor_t **out_tensor);
/* The index of a tensor; -1: the list does not have it. */
int64_t tn_weight_list_find(const tn_weight_list_t *list, const tenon_tensor_t *tensor);
/* Makes the contents of the file, which the caller frees with tn_release_memory, also after a
 * failure. */
tenon_status_t tn_weight_list_write(tn_weight_list_t *list, unsigned char **out_file,
                                    size_t *out_size);
void tn_weight_list_clear(tn_weight_list_t *list);

/* The weights of a file that is being read. */
typedef struct tn_weight_file_t {
  tn_storage_t *storage; /* the mapped file; NULL: none */
  const char *name;      /* for messages */
  tn_map_t entries;      /* of the header, by key */
  uint64_t begin;        /* of the elements */
  tn_arena_t arena;
} tn_weight_file_t;

tenon_status_t tn_weight_file_open(tn_weights_t *weights, const char *name,
                                   tn_weight_file_t *out_file);
/* Makes a tensor that shares the mapped file, if the elements are aligned. */
tenon_status_t tn_weight_file_get(const tn_weight_file_t *file, const char *key,
                                  tenon_dtype_t dtype, int32_t ndim, const int64_t *shape,
                                  tenon_tensor_t **out_tensor);
void tn_weight_file_close(tn_weight_file_t *file);

#endif
