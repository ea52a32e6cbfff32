/* Dispatch keys by their public names, and the text of an operator's table. */
#ifndef TN_INSPECT_QUERY_H
#define TN_INSPECT_QUERY_H

#include "base/source.h"
#include "base/text.h"
#include "operator/op.h"

/* What the name of a key stands for. */
typedef struct tn_named_key_t {
  int bit; /* -1: an alias, which stands for other keys */
  /* The backend of the key, or whose gradients it serves ("autograd npu"); NULL: neither. */
  const tn_backend_t *backend;
  /* TN_AT_... of the kernels that are registered for the key. */
  uint8_t at;
} tn_named_key_t;
/* In `at`: no kernel can be registered for the key. */
enum { TN_AT_NOWHERE = 255 };
tenon_status_t tn_key_parse(const char *name, tn_named_key_t *out_key);
tenon_status_t tn_table_find(const tenon_op_t *op, const char *key,
                             const tn_table_entry_t **out_entry);
bool tn_kernel_is_under(const tn_kernel_t *kernel, const tn_named_key_t *key);
/* Prints a line for each backend, and for each layer that does something. If `sources` is NULL, the
 * lines name no source files, backends without kernels share one line, and backends with the same
 * gradients share another. The registry's mutex must be held. */
void tn_table_print(const tenon_op_t *op, tn_sources_t *sources, tn_text_t *text);

#endif
