/* Lowerings translate MXNet's operators into core operators. Most lowerings are texts such as
 *   "LRN(x) = lrn(x, size=nsize, alpha=alpha?0.0001, beta=beta?0.75, bias=knorm?2.0)"
 * The left side names the node's inputs, and the right side calls core operators. Other lowerings
 * are functions. */
#ifndef BRIDGES_MXNET_MODELS_LOWERING_H
#define BRIDGES_MXNET_MODELS_LOWERING_H

#include "lower.h"

/* clang-format off: a grammar, aligned by hand */
/* clang-format off */
/* The language of lowerings. A text begins with the names of the operators that it serves.
 *   text      = name {"|" name} "(" [parameter {"," parameter}] ")" ["=" {names "=" call ";"} results]
 *   parameter = name {mark}         an input
 *   mark      = "?"  may be absent              | "!"  a parameter, never an input of the model
 *             | "~"  never read                 | "#"  its dtype is independent of the others
 *             | "="  has the result's rank      | "+"  has one axis less than the result
 *             | "%"  has three axes             | "^"  has two axes more than `kernel` has items
 *             | "*" name {mark}     the remaining inputs, as a list
 *             | "-" name            an attribute that is ignored
 *   results   = value | "(" value {"," value} ")"
 *   value     = call | name | "_" (absent) | "[" value {"," value} "]" | constant
 *   call      = core operator "(" [argument {"," argument}] ")"       all of its results
 *   argument  = value | attribute "=" source
 *   source    = literal | ":" name          the dtype of a value
 *             | name ["?" literal]          an attribute of the node, and its default
 *   constant  = (number | "@" name ["?" number]) ":" (name | dtype)   a scalar; "@": an attribute of the node
 *             | "[" integer {"," integer} "]:i64"
 * A text without "=" belongs to a lowering that is a function. */
/* clang-format on */
typedef struct lowering_t {
  const char *text;
  void (*lower)(lower_t *lower);
} lowering_t;
typedef struct lowerings_t { /* the lowerings of one family */
  const lowering_t *items;
  size_t count;
} lowerings_t;
#define LOWERINGS(name) const lowerings_t name = {lowerings, sizeof lowerings / sizeof *lowerings}

/* Returns whether the index-th input has this mark. */
bool lowering_has_mark(const lowering_t *lowering, int32_t index, char mark);
void lowering_run(const lowering_t *lowering, lower_t *lower);
/* Runs the right side of a lowering; the edges are its parameters a, b, c, and so on. lower_run_all
 * returns all results, lower_run the first one. */
values_t lower_run_all(lower_t *lower, const tenon_edge_t *edges, size_t count, const char *format,
                       ...) TENON_FORMAT(4, 5);
tenon_edge_t lower_run(lower_t *lower, const tenon_edge_t *edges, size_t count, const char *format,
                       ...) TENON_FORMAT(4, 5);
#define EDGES(...)                                                                                 \
  (tenon_edge_t[]){__VA_ARGS__}, sizeof((tenon_edge_t[]){__VA_ARGS__}) / sizeof(tenon_edge_t)

#endif
