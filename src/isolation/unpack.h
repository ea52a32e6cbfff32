/* Reads attributes, tensors and metas from a message into scratch memory, in a worker process. */
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

/* Reads a tensor; *out_kind is its kind in the message. Returns: NULL if it is absent, is to be
 * created, or is malformed (wire.failed). */
tenon_tensor_t *tn_unpack_tensor(tn_unpack_t *unpack, uint32_t *out_kind);
/* Reads the attributes of an operator. Returns: NULL for its defaults. */
const tenon_value_t *tn_unpack_values(tn_unpack_t *unpack, const tn_schema_t *schema);
/* Reads a meta, with room for extents that INFER sets. */
tenon_meta_t *tn_unpack_meta(tn_unpack_t *unpack, bool is_result);

#endif
