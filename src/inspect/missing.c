/* The message of a call that has no kernel: which kernels and keys the operator has, and its
 * table.  Calls reach it through the hook of operator/kernel.h. */
#include "inspect/missing.h"

#include <string.h>

#include "base/cpu.h"
#include "base/status.h"
#include "base/text.h"
#include "core/dtype.h"
#include "inspect/devices.h"
#include "inspect/query.h"
#include "operator/kernel.h"
#include "operator/names.h"

static void print_kernels(const tenon_op_t *op, tn_text_t *text) {
  const char *separator = "";
  for (const tn_kernel_t *k = op->kernels; k; k = k->next) {
    tn_text_add(text, "%s%s", separator, k->text ? k->text : "composite");
    if (!tn_cpu_has(k->words.isa)) tn_text_add(text, " (not on this processor)");
    separator = ", ";
  }
}

/* Names of the keys that kernels are registered for, each once. */
static void print_keys(const tenon_op_t *op, tn_text_t *text) {
  for (const tn_kernel_t *k = op->kernels; k; k = k->next) {
    const tn_kernel_t *newer = op->kernels;
    while (newer != k && (newer->words.at != k->words.at || newer->backend != k->backend))
      newer = newer->next;
    if (newer != k || k->words.flags & (TN_KERNEL_FALLTHROUGH | TN_KERNEL_NO_FALLBACK)) continue;
    const char *layer = tn_at_name(k->words.at);
    const char *separator = text->size ? ", " : "";
    const char *backend = k->backend ? k->backend->name : "";
    const char *space = *layer && *backend ? " " : "";
    tn_text_add(text, "%s%s%s%s", separator, layer, space, backend);
  }
}

static tenon_status_t report_missing(const tenon_op_t *op, const char *key,
                                     tenon_tensor_t *const *inputs) {
  tn_text_t has = {0};
  tn_text_t keys = {0};
  tn_text_t table = {0};
  /* Memory is the first thing that a device is asked for, so a misspelt name is noticed here. */
  const tn_backend_t *backend = key ? tn_backend_find(key) : NULL;
  if (backend && strcmp(op->name, "core::allocate") == 0 &&
      tn_device_check(backend) == TENON_NOT_FOUND)
    return tn_fail(TENON_UNIMPLEMENTED, "%s", tn_error());
  tn_registry_lock();
  print_kernels(op, &has);
  print_keys(op, &keys);
  tn_table_print(op, NULL, &table);
  tn_registry_unlock();
  /* Drops the last line break. */
  if (table.size) table.data[table.size - 1] = 0;
  const tenon_tensor_t *t = op->dispatch_input >= 0 ? inputs[op->dispatch_input] : NULL;
  const char *and_dtype = t ? " and dtype " : "";
  const char *dtype = t ? tn_dtype_name(t->dtype) : "";
  const char *kernels = has.size ? has.data : "none";
  const char *key_names = keys.size ? keys.data : "none";
  if (!key) key = "no key";
  tenon_status_t status =
      tn_fail(TENON_UNIMPLEMENTED,
              "%s: no kernel for %s%s%s; it has: %s; keys with kernels: %s; its table:\n%s",
              op->name, key, and_dtype, dtype, kernels, key_names, tn_text_get(&table));
  tn_text_clear(&has);
  tn_text_clear(&keys);
  tn_text_clear(&table);
  return status;
}

void tn_missing_install(void) { tn_op_missing = report_missing; }
