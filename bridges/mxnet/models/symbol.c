/* Reads a symbol file; see symbol.h. Called by model.c. Invariant: an entry refers only to nodes
 * that come before its own, and `out_symbol` is in the arena. */
#include "symbol.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

enum {
  COUNT_MAX = 1 << 24,
  HEADS_MAX = 4096,
};

const char *symbol_attr(const symbol_node_t *node, const char *name) {
  for (int32_t i = 0; i < node->attr_count; i++)
    if (strcmp(node->attrs[i].name, name) == 0) return node->attrs[i].value;
  return NULL;
}

static tenon_status_t expect(const tn_json_t *object, const char *name, tn_json_kind_t kind,
                             const tn_json_t **out) {
  *out = tn_json_find(object, name);
  if (!*out) return tn_json_fail(object, "member '%s' is missing", name);
  if ((*out)->kind != kind)
    return tn_json_fail(*out, "member '%s': expected %s, found %s", name, tn_json_kind_name(kind),
                        tn_json_kind_name((*out)->kind));
  if ((*out)->count > COUNT_MAX)
    return tn_json_fail(*out, "member '%s': %zu items or bytes are too many", name, (*out)->count);
  return TENON_OK;
}

/* Reads [node, index] or [node, index, version]. The node must be one of the first `before`
 * nodes. */
static tenon_status_t read_entry(const tn_json_t *json, int64_t before, symbol_entry_t *out) {
  int64_t numbers[3] = {0};
  if (json->kind != TN_JSON_LIST || json->count < 2 || json->count > 3)
    return tn_json_fail(json, "expected an entry [node, output, version], found %s",
                        tn_json_kind_name(json->kind));
  for (size_t i = 0; i < json->count; i++)
    if (!tn_json_integer(&json->items[i], &numbers[i]))
      return tn_json_fail(&json->items[i], "expected an integer in an entry");
  if (numbers[0] < 0 || numbers[0] >= before)
    return tn_json_fail(json, "node %lld: expected one of the %lld before", (long long)numbers[0],
                        (long long)before);
  if (numbers[1] < 0 || numbers[1] > COUNT_MAX)
    return tn_json_fail(json, "output %lld does not exist", (long long)numbers[1]);
  *out = (symbol_entry_t){(int32_t)numbers[0], (int32_t)numbers[1]};
  return TENON_OK;
}

static tenon_status_t read_entries(const tn_json_t *list, int64_t before, tn_arena_t *arena,
                                   const symbol_entry_t **out) {
  symbol_entry_t *entries = tn_arena_array(arena, list->count + 1, sizeof *entries);
  if (!entries) return tn_no_memory("a model", 0);
  for (size_t i = 0; i < list->count; i++)
    TENON_TRY(read_entry(&list->items[i], before, &entries[i]));
  *out = entries;
  return TENON_OK;
}

/* Files before 0.9 have the operator's attributes under `param` and the user's under `attr`; later
 * files have all of them in one object. */
static tenon_status_t read_attrs(const tn_json_t *json, tn_arena_t *arena, symbol_node_t *node) {
  static const char *const names[] = {"attrs", "attr", "param"};
  symbol_attr_t *attrs = NULL;
  size_t room = 1;
  for (size_t k = 0; k < 3; k++) {
    const tn_json_t *object = tn_json_find(json, names[k]);
    if (object && object->kind != TN_JSON_OBJECT)
      return tn_json_fail(object, "member '%s': expected an object, found %s", names[k],
                          tn_json_kind_name(object->kind));
    if (object) room += object->count;
  }
  if (!(attrs = tn_arena_array(arena, room, sizeof *attrs))) return tn_no_memory("a model", 0);
  node->attrs = attrs;
  for (size_t k = 0; k < 3; k++) {
    const tn_json_t *object = tn_json_find(json, names[k]);
    for (size_t i = 0; object && i < object->count; i++) {
      if (object->items[i].kind != TN_JSON_TEXT)
        return tn_json_fail(&object->items[i], "attribute '%.60s': expected a text, found %s",
                            object->names[i], tn_json_kind_name(object->items[i].kind));
      if (!symbol_attr(node, object->names[i]))
        attrs[node->attr_count++] = (symbol_attr_t){object->names[i], object->items[i].text};
    }
  }
  return TENON_OK;
}

static tenon_status_t read_node(const tn_json_t *json, int32_t index, tn_arena_t *arena,
                                symbol_node_t *out) {
  const tn_json_t *op, *name, *inputs;
  if (json->kind != TN_JSON_OBJECT)
    return tn_json_fail(json, "expected an object, found %s", tn_json_kind_name(json->kind));
  TENON_TRY(expect(json, "op", TN_JSON_TEXT, &op));
  TENON_TRY(expect(json, "name", TN_JSON_TEXT, &name));
  TENON_TRY(expect(json, "inputs", TN_JSON_LIST, &inputs));
  *out = (symbol_node_t){.op = op->text, .name = name->text, .line = json->line};
  TENON_TRY(read_entries(inputs, index, arena, &out->inputs));
  out->input_count = (int32_t)inputs->count;
  if (strcmp(op->text, "null") == 0 && out->input_count)
    return tn_json_fail(inputs, "a node 'null' (a variable) must not have inputs");
  return read_attrs(json, arena, out);
}

static int compare_names(const void *a, const void *b) {
  return strcmp((*(const symbol_node_t *const *)a)->name, (*(const symbol_node_t *const *)b)->name);
}

/* Checks that no two variables have the same name, because parameters are found by name. */
static tenon_status_t check_names(const symbol_t *symbol) {
  const symbol_node_t **sorted = malloc(((size_t)symbol->node_count + 1) * sizeof(symbol_node_t *));
  tenon_status_t status = TENON_OK;
  size_t count = 0;
  if (!sorted) return tn_no_memory("a model", 0);
  for (int32_t i = 0; i < symbol->node_count; i++)
    if (strcmp(symbol->nodes[i].op, "null") == 0) sorted[count++] = &symbol->nodes[i];
  qsort(sorted, count, sizeof *sorted, compare_names);
  for (size_t i = 1; i < count && status == TENON_OK; i++)
    if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
      status =
          tn_fail(TENON_INVALID, "two inputs or parameters are named '%.100s' (lines %u and %u)",
                  sorted[i]->name, (unsigned)sorted[i - 1]->line, (unsigned)sorted[i]->line);
  free(sorted);
  return status;
}

static tenon_status_t read_graph_attrs(const tn_json_t *root, symbol_t *symbol) {
  const tn_json_t *attrs = tn_json_find(root, "attrs");
  const tn_json_t *flag = tn_json_find(attrs, "is_np_shape");
  int64_t value = 0;
  if (attrs && attrs->kind != TN_JSON_OBJECT)
    return tn_json_fail(attrs, "member 'attrs': expected an object, found %s",
                        tn_json_kind_name(attrs->kind));
  if (flag &&
      (flag->kind != TN_JSON_LIST || flag->count != 2 || !tn_json_integer(&flag->items[1], &value)))
    return tn_json_fail(flag, "member 'is_np_shape': expected [\"int\", 0 or 1]");
  symbol->is_np_shape = value != 0;
  return TENON_OK;
}

tenon_status_t symbol_read(const tn_json_t *root, tn_arena_t *arena, symbol_t *out_symbol) {
  const tn_json_t *nodes, *heads;
  if (root->kind != TN_JSON_OBJECT)
    return tn_json_fail(root, "expected an object, found %s", tn_json_kind_name(root->kind));
  TENON_TRY(expect(root, "nodes", TN_JSON_LIST, &nodes));
  TENON_TRY(expect(root, "heads", TN_JSON_LIST, &heads));
  symbol_node_t *made = tn_arena_array(arena, nodes->count + 1, sizeof *made);
  if (!made) return tn_no_memory("a model", 0);
  *out_symbol = (symbol_t){
      .nodes = made, .node_count = (int32_t)nodes->count, .head_count = (int32_t)heads->count};
  for (int32_t i = 0; i < out_symbol->node_count; i++) {
    const tn_json_t *name = tn_json_find(&nodes->items[i], "name");
    tenon_status_t status = read_node(&nodes->items[i], i, arena, &made[i]);
    if (status != TENON_OK)
      return tn_prefix(status, "node %d '%.100s': ", (int)i,
                       name && name->kind == TN_JSON_TEXT ? name->text : "");
  }
  if (heads->count > HEADS_MAX)
    return tn_json_fail(heads, "member 'heads': %zu outputs are not supported", heads->count);
  if (!heads->count)
    return tn_json_fail(heads, "member 'heads' is empty: the graph has no outputs");
  tenon_status_t status = read_entries(heads, out_symbol->node_count, arena, &out_symbol->heads);
  if (status != TENON_OK) return tn_prefix(status, "member 'heads': ");
  TENON_TRY(read_graph_attrs(root, out_symbol));
  return check_names(out_symbol);
}
