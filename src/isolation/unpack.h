/* In a child: attributes, tensors and metas out of a message, in scratch memory. */
#ifndef TN_ISOLATION_UNPACK_H
#define TN_ISOLATION_UNPACK_H

#include "core/schema.h"
#include "isolation/message.h"

typedef struct tn_unpack_t {
  tn_wire_t wire;
  char *mailbox;
  uint64_t mailbox_size;
  tenon_tensor_t *const *inputs; /* for results that are inputs */
} tn_unpack_t;

/* A tensor; *out_kind is how it was described.  NULL: absent, to be made, or malformed
 * (wire.failed). */
tenon_tensor_t *tn_unpack_tensor(tn_unpack_t *unpack, uint32_t *out_kind);
/* The attributes of an operator; NULL: its defaults. */
const tenon_value_t *tn_unpack_values(tn_unpack_t *unpack, const tn_schema_t *schema);
/* A meta with room. */
tenon_meta_t *tn_unpack_meta(tn_unpack_t *unpack, bool is_result);

#endif
