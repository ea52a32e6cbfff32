/* Finding, listing and describing operators, for people and tools: the public functions over
 * operator/op.h. */
#include <string.h>
#include <tenon/tenon.h>

#include "base/cpu.h"
#include "base/memory.h"
#include "base/status.h"
#include "core/value.h"
#include "drivers/iterator.h"
#include "registry/registry.h"
#include "registry/suggestion.h"

tenon_status_t tenon_op_find(const char *name, const tenon_op_t **out_op) {
  TN_TRY(tenon_start());
  *out_op = tn_registry_find(name);
  if (*out_op) return TENON_OK;
  tn_text_t hint = {0};
  tn_registry_suggest(name, &hint);
  tenon_status_t status = tn_fail(TENON_NOT_FOUND, "no operator '%s'%s", name, tn_text_get(&hint));
  tn_text_clear(&hint);
  return status;
}

void tenon_op_info(const tenon_op_t *op, tenon_op_info_t *info) {
  op = tn_op_now(op);
  uint32_t size = info->size < sizeof *info ? info->size : (uint32_t)sizeof *info;
  tenon_op_info_t full = {.size = size,
                          .traits = (uint32_t)op->traits,
                          .name = op->name,
                          .schema = op->schema.text,
                          .doc = op->doc,
                          .types = op->types.text,
                          .shapes = op->shapes.text,
                          .where = op->where_text,
                          .gradient = op->gradient.text,
                          .batching = op->batching.text,
                          .sharding = op->sharding.text,
                          .reuse = op->reuse_text,
                          .library = op->library->name,
                          .library_version = op->library->version,
                          .library_path = op->library->path,
                          .version = op->version,
                          .input_count = (int32_t)op->input_count,
                          .attr_count = (int32_t)op->schema.attr_count,
                          .output_count = (int32_t)op->output_count,
                          .is_stateful = op->create != NULL,
                          .has_reference = op->reference != NULL,
                          .samples = op->samples.text};
  tn_registry_lock();
  for (const tn_kernel_t *k = op->kernels; k; k = k->next)
    full.kernel_count++;
  tn_registry_unlock();
  memcpy(info, &full, size);
}

tenon_status_t tenon_op_argument(const tenon_op_t *op, uint32_t role, int32_t index,
                                 tenon_argument_t *argument) {
  const tn_schema_t *s = &op->schema;
  const tn_argument_t *lists[] = {s->inputs, s->attrs, s->outputs};
  const uint32_t counts[] = {s->input_count, s->attr_count, s->output_count};
  if (role > TENON_ARGUMENT_OUTPUT || index < 0 || (uint32_t)index >= counts[role])
    return tn_fail(TENON_INVALID, "%s has no argument %d of role %u", op->name, (int)index, role);
  const tn_argument_t *a = &lists[role][index];
  uint32_t size = argument->size < sizeof *argument ? argument->size : (uint32_t)sizeof *argument;
  tenon_argument_t full = {.size = size,
                           .role = role,
                           .kind = a->kind,
                           .is_optional = a->is_optional,
                           .is_keyword = a->is_keyword,
                           .is_host = a->is_host,
                           .is_written = a->is_written,
                           .has_default = a->has_default,
                           .index = index,
                           .choice_count = a->choice_count,
                           .choices = a->choices,
                           .name = a->name,
                           .value = a->value,
                           .place = (uint32_t)index,
                           .mark = (uint32_t)a->mark,
                           .is_scalar = a->is_scalar,
                           .count = a->count,
                           .count_attr = a->count_attr,
                           .is_open = a->is_open};
  for (uint32_t i = 0; i < s->argument_count && role != TENON_ARGUMENT_OUTPUT; i++)
    if (s->arguments[i] == a) full.place = i;
  memcpy(argument, &full, size);
  return TENON_OK;
}

tenon_status_t tenon_dangling(char **out_text) {
  tn_text_t text = {0};
  TN_TRY(tenon_start());
  tn_registry_dangling(&text);
  *out_text = tn_text_take(&text);
  return *out_text ? TENON_OK : TENON_MEMORY;
}

static bool is_chosen(const tenon_op_t *op, const tn_kernel_t *kernel) {
  const tn_table_entry_t *entry = __atomic_load_n(&op->cpu, __ATOMIC_ACQUIRE);
  if (!entry->by_dtype) return entry->only == kernel;
  for (int d = 0; d < TN_DTYPE_COUNT; d++)
    for (const tn_kernel_t *const *list = entry->by_dtype[d]; list && *list; list++)
      if (*list == kernel) return true;
  return false;
}

static void print_kernel(const tenon_op_t *op, int32_t index, tn_text_t *text) {
  const tn_kernel_t *kernel = op->kernels;
  while (kernel && index-- > 0)
    kernel = kernel->next;
  if (!kernel) return;
  tn_text_add(text, "%s", kernel->text ? kernel->text : "composite");
  if (kernel->library != op->library) tn_text_add(text, " from %s", kernel->library->name);
  if (is_chosen(op, kernel))
    tn_text_add(text, " (chosen)");
  else if (!tn_cpu_has(kernel->words.isa))
    tn_text_add(text, " (not on this processor)");
}

char *tenon_op_kernel(const tenon_op_t *op, int32_t index) {
  tn_text_t text = {0};
  op = tn_op_now(op);
  tn_registry_lock();
  print_kernel(op, index, &text);
  tn_registry_unlock();
  if (text.size) return tn_text_take(&text);
  tn_text_clear(&text);
  return NULL;
}

const char *tenon_op_stub(const tenon_op_t *op) {
  op = tn_op_now(op);
  if (!tn_op_has_stub(op)) return NULL;
  return op->reduces.text ? op->reduces.text : "pointwise";
}

tenon_status_t tenon_op_stub_slot(const tenon_op_t *op, int32_t index, tenon_stub_slot_t *entry) {
  uint32_t size = entry->size < sizeof *entry ? entry->size : (uint32_t)sizeof *entry;
  tenon_stub_slot_t full = {.size = size};
  op = tn_op_now(op);
  int32_t left = tn_op_has_stub(op) ? index : -1;
  tn_registry_lock();
  for (const tn_kernel_t *k = op->kernels; k && left >= 0; k = k->next) {
    if ((k->kind != TN_KIND_STUB && k->kind != TN_KIND_LOOP) || left-- > 0) continue;
    full.backend = k->backend->name;
    full.capability = tn_cpu_word(k->words.isa);
    full.kernel = k->text;
    full.library = k->library->name;
    full.number = k->number;
    full.is_usable = tn_cpu_has(k->words.isa);
  }
  tn_registry_unlock();
  if (!full.backend)
    return tn_fail(TENON_INVALID, "%s: no slot %d of its stub is filled", op->name, (int)index);
  memcpy(entry, &full, size);
  return TENON_OK;
}
