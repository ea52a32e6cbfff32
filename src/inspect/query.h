/* Keys by their names outside, and the text of a table. */
#ifndef TN_INSPECT_QUERY_H
#define TN_INSPECT_QUERY_H

#include "base/source.h"
#include "base/text.h"
#include "operator/op.h"

/* A key by its name. */
typedef struct tn_named_key_t {
  int bit;                     /* -1: an alias, which stands for others */
  const tn_backend_t *backend; /* that it is, or whose gradients ("autograd npu"); NULL: neither */
  uint8_t at;                  /* what kernels that are registered for it say, TN_AT_... */
} tn_named_key_t;
enum { TN_AT_NOWHERE = 255 }; /* of keys that no kernel is registered for */
tenon_status_t tn_key_parse(const char *name, tn_named_key_t *out_key);
tenon_status_t tn_table_find(const tenon_op_t *op, const char *key,
                             const tn_table_entry_t **out_entry);
bool tn_kernel_is_under(const tn_kernel_t *kernel, const tn_named_key_t *key);
/* Prints a line for each backend, and for each layer that does something.  sources NULL: without
 * source lines, and with one line for all backends that have the same or nothing.  Under the
 * registry's mutex. */
void tn_table_print(const tenon_op_t *op, tn_sources_t *sources, tn_text_t *text);

#endif
