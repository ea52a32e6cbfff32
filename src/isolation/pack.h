/* Writes tensors and attributes into the message of an exchange, in the host. Elements that already
 * lie in the mailbox stay where they are. Others are copied into it, and copied back if the
 * operator writes to them. */
#ifndef TN_ISOLATION_PACK_H
#define TN_ISOLATION_PACK_H

#include "core/schema.h"
#include "isolation/client.h"
#include "isolation/message.h"

/* Writes one tensor. `contents` is false for a result, whose old elements are not needed. NULL
 * means absent. */
tenon_status_t tn_pack_tensor(tn_exchange_t *x, tenon_tensor_t *tensor, bool contents,
                              bool is_written);
/* Writes attributes. NULL or the operator's own array of defaults means defaults. */
tenon_status_t tn_pack_values(tn_exchange_t *x, const tn_schema_t *schema,
                              const tenon_value_t *values);
/* Copies back, after the call, the elements that the operator wrote. */
tenon_status_t tn_pack_back(tn_exchange_t *x);

#endif
