/* Finds groups of nodes; see provider.h. */
#include <string.h>

#include "base/status.h"
#include "provider.h"

/* ---- numbers --------------------------------------------------------------------------------- */

/* A node that is left has the greatest number of the groups that it depends on. A node that is
 * taken has a greater number than the nodes that are left among its inputs: a path that leaves a
 * group comes only to groups with greater numbers. */
static void raise_level(const nodes_t *nodes, const values_t *values, node_t *node) {
  for (size_t i = 0; i < values->count; i++) {
    const OrtNode *from = NULL;
    if (!values->items[i] || API(ValueInfo_GetValueProducer, values->items[i], &from, NULL))
      continue;
    const node_t *producer = nodes_find(nodes, from);
    if (!producer) continue;
    const int32_t level = producer->level + (producer->why && !node->why ? 1 : 0);
    if (level > node->level) node->level = level;
  }
}

int32_t groups_find(nodes_t *nodes) {
  int32_t count = 0;
  for (size_t i = 0; i < nodes->count; i++) {
    node_t *node = &nodes->items[i];
    node->level = node->why ? -1 : 0;
    raise_level(nodes, &node->inputs, node);
    raise_level(nodes, &node->implicit, node);
    if (node->level >= count) count = node->level + 1;
  }
  return count;
}

/* ---- inputs and outputs ---------------------------------------------------------------------- */

static bool is_member(const nodes_t *nodes, const OrtNode *node) {
  const node_t *found = nodes_find(nodes, node);
  return found && found->is_member;
}

static bool has_ep_value(const values_t *values, const OrtValueInfo *value) {
  const char *name = NULL;
  const char *other = NULL;
  if (API(GetValueInfoName, value, &name)) return false;
  for (size_t i = 0; i < values->count; i++)
    if (API(GetValueInfoName, values->items[i], &other) == TENON_OK && strcmp(name, other) == 0)
      return true;
  return false;
}

static tenon_status_t add_ep_inputs(const nodes_t *nodes, const values_t *from, values_t *inputs) {
  tenon_status_t status = TENON_OK;
  for (size_t i = 0; i < from->count && status == TENON_OK; i++) {
    const OrtValueInfo *value = from->items[i];
    const OrtNode *producer = NULL;
    bool is_constant = false;
    if (!value) continue;
    if (!nodes->is_detached) status = API(ValueInfo_GetValueProducer, value, &producer, NULL);
    if (!nodes->is_detached && status == TENON_OK) status = value_is_constant(value, &is_constant);
    if (status != TENON_OK || is_constant || is_member(nodes, producer) ||
        has_ep_value(inputs, value))
      continue;
    inputs->items[inputs->count++] = value;
  }
  return status;
}

static tenon_status_t is_used_outside(nodes_t *nodes, const OrtValueInfo *value, bool *out) {
  size_t count = 0;
  *out = false;
  tenon_status_t status = API(ValueInfo_IsGraphOutput, value, out);
  if (status == TENON_OK && !*out) status = API(ValueInfo_GetValueNumConsumers, value, &count);
  if (status != TENON_OK || *out || !count) return status;
  const OrtNode **users = tn_arena_array(&nodes->arena, count, sizeof *users);
  int64_t *places = tn_arena_array(&nodes->arena, count, sizeof *places);
  if (!users || !places) return tn_no_memory("a group", 0);
  status = API(ValueInfo_GetValueConsumers, value, users, places, count);
  for (size_t i = 0; i < count && status == TENON_OK && !*out; i++)
    *out = !is_member(nodes, users[i]);
  return status;
}

static tenon_status_t add_ep_outputs(nodes_t *nodes, const values_t *from, values_t *outputs) {
  tenon_status_t status = TENON_OK;
  for (size_t i = 0; i < from->count && status == TENON_OK; i++) {
    bool is_used = false;
    if (!from->items[i] || nodes->is_detached) continue;
    status = is_used_outside(nodes, from->items[i], &is_used);
    if (status == TENON_OK && is_used) outputs->items[outputs->count++] = from->items[i];
  }
  return status;
}

tenon_status_t groups_bound(nodes_t *nodes, node_t *const *items, size_t count,
                            values_t *out_inputs, values_t *out_outputs) {
  size_t in_most = 1;
  size_t out_most = 1;
  for (size_t i = 0; i < count; i++) {
    in_most += items[i]->inputs.count + items[i]->implicit.count;
    out_most += items[i]->outputs.count;
  }
  *out_inputs = (values_t){tn_arena_array(&nodes->arena, in_most, sizeof(void *)), 0};
  *out_outputs = (values_t){tn_arena_array(&nodes->arena, out_most, sizeof(void *)), 0};
  if (!out_inputs->items || !out_outputs->items) return tn_no_memory("a group", 0);
  tenon_status_t status = TENON_OK;
  for (size_t i = 0; i < count; i++)
    items[i]->is_member = true;
  for (size_t i = 0; i < count && status == TENON_OK; i++) {
    status = add_ep_inputs(nodes, &items[i]->inputs, out_inputs);
    if (status == TENON_OK) status = add_ep_inputs(nodes, &items[i]->implicit, out_inputs);
    if (status == TENON_OK) status = add_ep_outputs(nodes, &items[i]->outputs, out_outputs);
  }
  for (size_t i = 0; i < count; i++)
    items[i]->is_member = false;
  return status;
}
