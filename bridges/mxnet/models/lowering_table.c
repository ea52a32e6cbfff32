/* The table of all lowerings: lists the families of lower_*.c and finds the lowering of an operator
 * by its name. Called by model.c and nnvm_read.c before they lower nodes. Lowerings never call this
 * file, because it names all of them. */
#include "lowering_table.h"

#include <string.h>

#define FAMILIES(X)                                                                                \
  X(pointwise) X(shape) X(index) X(reduce) X(layer) X(matrix) X(recurrent) X(numpy)
#define DECLARE(name) extern const lowerings_t lowerings_##name;
#define LIST(name) &lowerings_##name,
FAMILIES(DECLARE)
static const lowerings_t *const families[] = {FAMILIES(LIST)};

static bool has_name(const char *text, const char *op) {
  const size_t size = strlen(op);
  for (;;) {
    size_t own = strcspn(text, "|(");
    if (own == size && memcmp(text, op, size) == 0) return true;
    if (text[own] != '|') return false;
    text += own + 1;
  }
}

const lowering_t *lowering_find(const char *op) {
  for (size_t i = 0; i < sizeof families / sizeof *families; i++)
    for (size_t j = 0; j < families[i]->count; j++)
      if (has_name(families[i]->items[j].text, op)) return &families[i]->items[j];
  return NULL;
}
