/* The texts of lowerings: every operator and attribute that they name exists in core. The models of
 * tests/acceptance show that their meaning is right. */
#include <ctype.h>
#include <stdbool.h>
#include <tenon/tenon.h>

#include "check.h"
#include "import/onnx/lowering_table.h"
#include "operator/op.h"

enum { DEPTH = 16 };

static size_t word_size(const char *at) {
  size_t size = 0;
  while (isalnum((unsigned char)at[size]) || at[size] == '_')
    size++;
  return size;
}

/* Walks the right side: a word before "(" is an operator, and a word before "=" inside its
 * parentheses is an attribute of that operator. */
static void check_lowering(const tn_lowering_t *lowering) {
  const tenon_op_t *ops[DEPTH] = {NULL};
  const char *at = strstr(lowering->text, ") = ");
  int depth = 0;
  for (at = at ? at + 4 : ""; *at; at++) {
    size_t size = isalpha((unsigned char)*at) ? word_size(at) : 0;
    if (*at == '\'') at = strchr(at + 1, '\'');
    if (size && at[size] == '(') {
      const tenon_op_t *op = NULL;
      char name[80];
      snprintf(name, sizeof name, "core::%.*s", (int)size, at);
      if (!CHECK(tenon_op_find(name, &op) == TENON_OK))
        fprintf(stderr, "  %s, in %s\n", name, lowering->text);
      CHECK(depth + 1 < DEPTH);
      ops[++depth] = op;
      at += size;
    } else if (size && at[size] == '=' && depth) {
      bool known = !ops[depth] || tn_schema_attr(&ops[depth]->schema, at, size) >= 0;
      if (!CHECK(known))
        fprintf(stderr, "  %.*s is no attribute of %s, in %s\n", (int)size, at, ops[depth]->name,
                lowering->text);
      at += size;
      at += strcspn(at, ",)[{") - 1;
      if (at[1] == '{') at += strcspn(at, "}");
      if (at[1] == '[') at += strcspn(at, "]");
    } else if (size) {
      at += size - 1;
    } else if (*at == '(') {
      CHECK(depth + 1 < DEPTH);
      ops[++depth] = NULL;
    } else if (*at == ')') {
      CHECK(depth-- > 0);
    }
  }
  if (!CHECK(depth == 0)) fprintf(stderr, "  in %s\n", lowering->text);
}

TEST("lowerings use only operators and attributes that core has") {
  CHECK_STATUS(tenon_start(), TENON_OK);
  for (size_t i = 0; tn_lowerings_at(i); i++)
    for (size_t j = 0; j < tn_lowerings_at(i)->count; j++)
      check_lowering(&tn_lowerings_at(i)->items[j]);
}

TEST("no operator has two lowerings for one operator set") {
  for (size_t i = 0; tn_lowerings_at(i); i++)
    for (size_t j = 0; j < tn_lowerings_at(i)->count; j++)
      for (size_t k = 0; tn_lowerings_at(k); k++)
        for (size_t l = 0; l < tn_lowerings_at(k)->count; l++) {
          const tn_lowering_t *a = &tn_lowerings_at(i)->items[j];
          const tn_lowering_t *b = &tn_lowerings_at(k)->items[l];
          size_t size = word_size(a->text);
          if (a == b || a->since != b->since ||
              strcmp(tn_lowerings_at(i)->domain, tn_lowerings_at(k)->domain) != 0)
            continue;
          if (!CHECK(size != word_size(b->text) || memcmp(a->text, b->text, size) != 0))
            fprintf(stderr, "  %s\n", a->text);
        }
}
