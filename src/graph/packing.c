/* Connects kernels that pack weights with the compiler; see packing.h. Called by compile.c, and by
 * the built-in kernels while they are prepared. */
#include "graph/packing.h"

#include <tenon/op.h>

#include "base/memory.h"

/* The built-in operators, whose headers libtenon does not include: see ops/packed.h. */
typedef struct packed_host_t {
  int (*take)(tn_block_t *out_block);
  void (*refuse)(void);
  void (*keep)(const tn_block_t *block);
} packed_host_t;
TENON_C void core_packed_connect(const packed_host_t *host);
TENON_C void core_packed_describe(char *out_text, size_t capacity);

static _Thread_local tn_packing_t *here;

static int take_block(tn_block_t *out_block) {
  if (!here || here->taken == here->given_count) return 0;
  *out_block = here->given[here->taken++];
  return 1;
}

static void refuse_block(void) { here->is_refused = true; }

static void keep_block(const tn_block_t *block) {
  tn_block_list_t *list = here ? here->kept : NULL;
  if (!list) return;
  if (tn_grow((void **)&list->items, &list->capacity, list->count, sizeof *list->items))
    list->items[list->count++] = *block;
  else
    list->has_failed = true;
}

void tn_packing_set(tn_packing_t *packing) { here = packing; }

void tn_packing_install(void) {
  const packed_host_t host = {take_block, refuse_block, keep_block};
  core_packed_connect(&host);
}

void tn_packing_describe(char *out_text, size_t capacity) {
  core_packed_describe(out_text, capacity);
}
