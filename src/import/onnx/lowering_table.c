/* The table of all lowerings: lists the families of lower_*.c, indexes their lowerings by operator,
 * and finds the lowering of a node. Called by import.c and node.c. Lowerings themselves never call
 * this file, because it names all of them. */
#include "import/onnx/lowering_table.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"

enum { KEY_SIZE = 400 };

/* clang-format off */
#define FAMILIES(X)                                                                                \
  X(pointwise) X(shape) X(reduce) X(heavy) X(preview) X(text) X(random)                            \
  X(control) X(sequence) X(loss) X(ml) X(svm) X(trees) X(training)                                 \
  X(contrib) X(contrib_attention) X(contrib_group_query) X(contrib_quantised)                      \
  X(contrib_states) X(contrib_weights) X(contrib_windows) X(contrib_refused) X(contrib_layouts)
/* clang-format on */
#define DECLARE(name) extern const tn_lowerings_t tn_lowerings_##name;
#define LIST(name) &tn_lowerings_##name,
FAMILIES(DECLARE)
static const tn_lowerings_t *const families[] = {FAMILIES(LIST)};

/* The lowerings of one operator, one for each range of operator sets. */
typedef struct choice_t {
  const tn_lowering_t *lowering;
  struct choice_t *next;
} choice_t;

const tn_lowerings_t *tn_lowerings_at(size_t index) {
  return index < sizeof families / sizeof *families ? families[index] : NULL;
}

bool tn_lowerings_cover(const char *domain) {
  for (size_t i = 0; i < sizeof families / sizeof *families; i++)
    if (strcmp(families[i]->domain, domain) == 0) return true;
  return false;
}

/* Writes the key of an operator in import->lowerings and returns its length. Names that are longer
 * than those of any lowering are cut. */
static size_t operator_key(char out_key[KEY_SIZE], const char *domain, const char *type,
                           size_t type_size) {
  int type_length = type_size < 200 ? (int)type_size : 200;
  return (size_t)snprintf(out_key, KEY_SIZE, "%.150s\n%.*s", domain, type_length, type);
}

static tenon_status_t index_lowering(tn_import_t *import, const char *domain,
                                     const tn_lowering_t *lowering) {
  char key[KEY_SIZE];
  size_t size = operator_key(key, domain, lowering->text, strcspn(lowering->text, "("));
  choice_t *choice = tn_arena_allocate(&import->arena, sizeof *choice);
  if (!choice) return tn_no_memory("the table of operators", sizeof *choice);
  choice->lowering = lowering;
  choice->next = tn_map_get(&import->lowerings, key, size);
  return tn_map_put(&import->lowerings, key, size, choice)
             ? TENON_OK
             : tn_no_memory("the table of operators", 0);
}

tenon_status_t tn_lowerings_index(tn_import_t *import) {
  for (size_t i = 0; i < sizeof families / sizeof *families; i++)
    for (size_t j = 0; j < families[i]->count; j++)
      TN_TRY(index_lowering(import, families[i]->domain, &families[i]->items[j]));
  return TENON_OK;
}

const tn_lowering_t *tn_lowerings_find(const tn_import_t *import, const char *domain,
                                       const char *type, int64_t version, bool *out_exists) {
  char key[KEY_SIZE];
  size_t size = operator_key(key, domain, type, strlen(type));
  const choice_t *choice = tn_map_get(&import->lowerings, key, size);
  const tn_lowering_t *best = NULL;
  *out_exists = choice != NULL;
  for (; choice; choice = choice->next)
    if (choice->lowering->since <= version && (!best || choice->lowering->since > best->since))
      best = choice->lowering;
  return best;
}
