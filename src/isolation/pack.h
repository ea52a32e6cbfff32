/* In the host: tensors and attributes into the message of an exchange.  Elements that are in the
 * mailbox already stay where they are; others are copied there, and back where they are written. */
#ifndef TN_ISOLATION_PACK_H
#define TN_ISOLATION_PACK_H

#include "core/schema.h"
#include "isolation/client.h"
#include "isolation/message.h"

/* Results: `contents` is false, as nobody reads them.  NULL: absent. */
tenon_status_t tn_pack_tensor(tn_exchange_t *x, tenon_tensor_t *tensor, bool contents,
                              bool is_written);
/* NULL or the operator's own: defaults. */
tenon_status_t tn_pack_values(tn_exchange_t *x, const tn_schema_t *schema,
                              const tenon_value_t *values);
/* After the call: what was written to is copied back. */
tenon_status_t tn_pack_back(tn_exchange_t *x);

#endif
