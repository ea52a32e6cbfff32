/* Checks that an operator's table follows from its registrations, for tests and tools. The table is
 * computed again and compared with the one that was in use. A difference is an error of the host,
 * and the new table corrects it. */
#include <stdio.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "operator/names.h"
#include "operator/table.h"

/* The entries that calls found before the check: of each backend, of the gradients on it, and of
 * each layer. The registry's mutex guards them. */
enum { SLOTS_MOST = 2 * TN_BACKENDS_MAX + TN_KEY_COUNT };
static const tn_table_entry_t *before[SLOTS_MOST];

static const tn_table_entry_t *entry_at(const tenon_op_t *op, int32_t i, const char **out_of,
                                        const char **out_name) {
  const tn_backend_t *backend = i < 2 * TN_BACKENDS_MAX ? tn_backend_at(i / 2) : NULL;
  int bit = i - 2 * TN_BACKENDS_MAX;
  *out_of = i % 2 && bit < 0 ? "autograd " : "";
  if (bit > TN_BIT_META)
    *out_name = tn_key_name(bit);
  else
    *out_name = backend ? backend->name : NULL;
  if (!*out_name) return NULL;
  if (bit > TN_BIT_META) return tn_table_entry(op, TN_KEY(bit));
  if (i % 2) return tn_table_autograd(op, backend);
  return backend->bit == TN_BIT_OTHERS ? tn_table_others(op, backend)
                                       : tn_table_entry(op, TN_KEY(backend->bit));
}

static const char *separator(const tn_text_t *text) { return text->size ? "; " : ""; }

static void compare_tables(const tenon_op_t *op, tn_text_t *wrong) {
  const char *of, *name;
  for (int32_t i = 0; i < SLOTS_MOST; i++) {
    const tn_table_entry_t *entry = entry_at(op, i, &of, &name);
    if (entry == before[i]) continue;
    tn_text_add(wrong, "%sthe entry of %s%s was %s, expected %s", separator(wrong), of, name,
                tn_resolution_name(before[i]->resolved), tn_resolution_name(entry->resolved));
  }
}

static bool has_gate(const tn_table_entry_t *entry, const tn_library_t *library) {
  return !library->gate || entry->gate == library->gate || entry->gate == TN_GATE_SEVERAL;
}

/* Checks that each entry that was made for this operator counts the calls of code that can be
 * unloaded. */
static void check_gates(const tenon_op_t *op, tn_text_t *wrong) {
  for (const tn_table_entry_t *entry = op->made; entry; entry = entry->next) {
    bool good = has_gate(entry, op->library) &&
                (!entry->only || has_gate(entry, entry->only->library)) &&
                (!entry->denial || has_gate(entry, entry->denial->library));
    for (int d = 0; d < TN_DTYPE_COUNT && entry->by_dtype; d++)
      for (const tn_kernel_t *const *list = entry->by_dtype[d]; list && *list; list++)
        good &= has_gate(entry, (*list)->library);
    if (!good)
      tn_text_add(wrong, "%scalls of an unloadable library are not counted", separator(wrong));
  }
}

static void check_kernels(const tenon_op_t *op, tn_text_t *wrong) {
  for (const tn_kernel_t *k = op->kernels; k && k->next; k = k->next)
    if (k->number <= k->next->number)
      tn_text_add(wrong, "%skernel number %llu stands before number %llu", separator(wrong),
                  (unsigned long long)k->number, (unsigned long long)k->next->number);
  for (int bit = 0; bit < TN_KEY_COUNT; bit++)
    if (op->index[bit] > op->entry_count)
      tn_text_add(wrong, "%sthe index of %s is %d of %u", separator(wrong), tn_key_name(bit),
                  op->index[bit], op->entry_count);
}

static tenon_status_t check_operator(tenon_op_t *op) {
  const char *of, *name;
  tn_text_t wrong = {0};
  tenon_status_t status = TENON_OK;
  /* The other checks rely on the order of the kernels and on the index. */
  check_kernels(op, &wrong);
  if (!wrong.size && !wrong.failed) {
    uint64_t mask = op->mask;
    for (int32_t i = 0; i < SLOTS_MOST; i++)
      before[i] = entry_at(op, i, &of, &name);
    status = tn_table_build(op);
    if (status == TENON_OK) {
      compare_tables(op, &wrong);
      check_gates(op, &wrong);
    }
    if (status == TENON_OK && mask != op->mask) {
      char keys[1024];
      tn_text_add(&wrong, "%sthe mask was wrong about %s", separator(&wrong),
                  tn_keys_print(mask ^ op->mask, keys, sizeof keys));
    }
  }
  if (wrong.failed)
    status = tn_no_memory("a message", wrong.size);
  else if (wrong.size)
    status = tn_fail(TENON_INTERNAL, "%s: its table was wrong: %s", op->name, tn_text_get(&wrong));
  tn_text_clear(&wrong);
  return status;
}

tenon_status_t tenon_op_check(const tenon_op_t *op) {
  op = tn_op_now(op);
  tn_registry_lock();
  tenon_status_t status = check_operator((tenon_op_t *)(uintptr_t)op);
  tn_registry_unlock();
  return status;
}
