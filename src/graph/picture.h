/* Pictures of an executable: its graph and its plan as DOT, the language of Graphviz, and the
 * memory of its plan as SVG. Blocks of nodes that repeat are drawn once. */
#ifndef TN_GRAPH_PICTURE_H
#define TN_GRAPH_PICTURE_H

#include "base/text.h"
#include "graph/executable.h"

/* Appends the graph that runs, in DOT: its nodes with what they were before they were rewritten,
 * their devices, and the types of values. `run`: a run state whose plan is drawn, with regions as
 * boxes around their nodes; NULL: the graph alone. `is_whole`: repeated blocks are drawn each time.
 */
tenon_status_t tn_picture_graph(const tenon_executable_t *executable, const tn_run_t *run,
                                bool is_whole, tn_text_t *text);
/* Appends the arenas of a plan, in SVG: time from left to right, addresses from bottom to top. */
void tn_picture_memory(const tn_run_t *run, tn_text_t *text);

/* Appends text with the characters that XML and labels of DOT reserve as entities. Bytes that are
 * not UTF-8, and control characters, become U+FFFD; of a long text the last `most` bytes are
 * kept. */
void tn_picture_escape(const char *string, size_t most, tn_text_t *text);

/* The operator of a node, without the library if it is a built-in one. */
const char *tn_picture_operator(const tn_node_t *node);

/* A block of nodes that follows itself: the nodes first .. first + size - 1, `count` times. */
typedef struct tn_repeat_t {
  int32_t first;
  int32_t size;
  int32_t count;
} tn_repeat_t;

/* A sequence of nodes in which blocks repeat. Two nodes are alike if their signs are equal and
 * `is_like` says so. A block begins only where `may_begin` allows it. */
typedef struct tn_sequence_t {
  int32_t count;
  const uint64_t *signs;
  const bool *may_begin;
  bool (*is_like)(const void *context, int32_t a, int32_t b);
  const void *context;
} tn_sequence_t;

/* Finds the blocks that repeat, in their order. The caller frees the array. */
tenon_status_t tn_picture_repeats(const tn_sequence_t *sequence, tn_repeat_t **out_repeats,
                                  size_t *out_count);

#endif
