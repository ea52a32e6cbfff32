/* Names that resemble one that was not found, for messages.  Look-ups of operators and
 * definitions call it. */
#include "registry/suggestion.h"

#include <string.h>

#include "core/nearest.h"
#include "drivers/iterator.h"
#include "operator/names.h"

static size_t distance(const char *a, const char *b) {
  return tn_edits(a, strlen(a), b, strlen(b));
}

/* The registry's mutex must be held. */
static void suggest_nearest(const char *name, tn_text_t *text) {
  size_t position = 0;
  size_t best = strlen(name) / 3 + 1;
  const tenon_op_t *op;
  const tenon_op_t *nearest = NULL;
  while ((op = tn_registry_next(&position))) {
    size_t far = distance(name, op->name);
    const char *bare = strstr(name, "::") ? NULL : strstr(op->name, "::");
    if (bare && distance(name, bare + 2) < far) far = distance(name, bare + 2);
    if (far < best || (far == best && nearest && strcmp(op->name, nearest->name) < 0)) {
      best = far;
      nearest = op;
    }
  }
  if (nearest) tn_text_add(text, "; did you mean '%s'?", nearest->name);
}

void tn_registry_suggest_name(const char *name, tn_text_t *text) {
  tn_registry_lock();
  suggest_nearest(name, text);
  tn_registry_unlock();
}

void tn_registry_suggest(const char *name, tn_text_t *text) {
  tn_registry_lock();
  suggest_nearest(name, text);
  tn_text_add(text, " (libraries loaded:");
  tn_library_t **at;
  for (size_t i = 0; (at = tn_registry_at(i)); i++)
    tn_text_add(text, "%s %s", i ? "," : "", (*at)->name);
  tn_text_add(text, ")");
  tn_registry_unlock();
}

void tn_registry_name_stubs(const char *like, tn_text_t *text) {
  enum { SOME = 4 };
  const tenon_op_t *op;
  const tenon_op_t *nearest[SOME] = {NULL};
  size_t position = 0;
  while ((op = tn_registry_next(&position)))
    for (int i = 0; i < SOME && op && tn_op_has_stub(op); i++) {
      const tenon_op_t *at = nearest[i];
      size_t far = distance(like, op->name);
      size_t other = at ? distance(like, at->name) : SIZE_MAX;
      if (!at || far < other || (far == other && strcmp(op->name, at->name) < 0)) {
        nearest[i] = op;
        op = at;
      }
    }
  for (int i = 0; i < SOME && nearest[i]; i++)
    tn_text_add(text, "%s, ", nearest[i]->name);
  tn_text_add(text, "... (all by `tenon ops --stubs`)");
}
