/* Everything that is registered for one operator or one key, whether or not a table took it, for
 * people, tools and tests. */
#include <tenon/tenon.h>

#include "base/cpu.h"
#include "base/memory.h"
#include "base/status.h"
#include "inspect/query.h"
#include "operator/names.h"

static void add_kernel(const tn_kernel_t *kernel, tn_text_t *text) {
  const tn_library_t *library = kernel->library;
  const char *at = *library->path ? " at " : "";
  const char *availability = tn_cpu_has(kernel->words.isa) ? "" : ", not on this processor";
  tn_text_add(text, "%s [%s%s%s%s, number %llu]", kernel->text, library->name, at, library->path,
              availability, (unsigned long long)kernel->number);
}

static tenon_status_t give(tn_text_t *text, char **out_text) {
  *out_text = tn_text_take(text);
  return *out_text ? TENON_OK : TENON_MEMORY;
}

tenon_status_t tenon_op_dump(const tenon_op_t *op, char **out_text) {
  tn_text_t text = {0};
  char keys[1024];
  op = tn_op_now(op);
  tn_registry_lock();
  tn_text_add(&text, "%s\n  library: %s%s%s\n", op->schema.text, op->library->name,
              *op->library->path ? " at " : "", op->library->path);
  for (const tn_kernel_t *k = op->kernels; k; k = k->next) {
    tn_text_add(&text, "  kernel: ");
    add_kernel(k, &text);
    tn_text_add(&text, "\n");
  }
  if (op->gradient.text) tn_text_add(&text, "  gradient: %s\n", op->gradient.text);
  tn_text_add(&text, "  passed by: %s\n", tn_keys_print(~tn_op_mask(op), keys, sizeof keys));
  tn_registry_unlock();
  return give(&text, out_text);
}

tenon_status_t tenon_registrations(const char *key, char **out_text) {
  tn_named_key_t named;
  tn_text_t text = {0};
  const tenon_op_t *const *ops;
  int32_t count;
  TN_TRY(tenon_start());
  TN_TRY(tn_key_parse(key, &named));
  TN_TRY(tn_registry_list(&ops, &count));
  tn_registry_lock();
  for (int32_t i = 0; i < count; i++)
    for (const tn_kernel_t *k = ops[i]->kernels; k; k = k->next) {
      if (!tn_kernel_is_under(k, &named)) continue;
      tn_text_add(&text, "%s: ", ops[i]->name);
      add_kernel(k, &text);
      tn_text_add(&text, "\n");
    }
  tn_registry_unlock();
  tenon_ops_release(ops);
  return give(&text, out_text);
}
