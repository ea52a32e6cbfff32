/* Weights that kernels pack while they are prepared. An artifact holds them, so that they need not
 * be packed again: while a kernel is prepared, its thread has a tn_packing_t, from which it takes
 * blocks that were packed before, or to which it adds those that it packs (ops/packed.h).
 * Invariant: the blocks of a node come in the order in which its kernel asks for them. */
#ifndef TN_GRAPH_PACKING_H
#define TN_GRAPH_PACKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TN_BLOCK_NOTES = 2 };

/* Bytes that a kernel packed. The layout is that of packed_block_t in ops/packed.h. */
typedef struct tn_block_t {
  const void *data;
  uint64_t size;
  int64_t notes[TN_BLOCK_NOTES]; /* mean something to the kernel alone */
} tn_block_t;

typedef struct tn_block_list_t {
  tn_block_t *items;
  size_t count;
  size_t capacity;
  bool has_failed; /* memory was short, so that a block is missing */
} tn_block_list_t;

/* What is written while a graph is compiled for an artifact. */
typedef struct tn_collector_t {
  tn_block_list_t *nodes; /* for each node of the compiled graph */
  bool *is_consumed;      /* for each edge: no kernel reads this constant while the graph runs */
  size_t node_count;
} tn_collector_t;

typedef struct tn_packing_t {
  const tn_block_t *given;
  size_t given_count;
  size_t taken;
  bool is_refused;       /* the kernel could not use a block */
  tn_block_list_t *kept; /* NULL: nothing is kept */
} tn_packing_t;

/* Sets what kernels that are prepared on this thread find; NULL: nothing. */
void tn_packing_set(tn_packing_t *packing);
/* Connects the kernels. Called once, at the start. */
void tn_packing_install(void);
/* What the layout of packed weights depends on. */
void tn_packing_describe(char *out_text, size_t capacity);

#endif
