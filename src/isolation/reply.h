/* Replies of worker processes, in the host. Whatever a worker process writes is hostile, and may
 * change while it is read. So a message is copied out of shared memory first, and the functions of
 * this file check the whole copy before any other code acts on a part of it. Nothing in a reply is
 * an address: a result's elements are named by the offset of a block that the host gave for
 * them. */
#ifndef TN_ISOLATION_REPLY_H
#define TN_ISOLATION_REPLY_H

#include "isolation/client.h"
#include "isolation/message.h"

/* A tensor as a reply describes it, after all checks. It lives in scratch memory. */
typedef struct tn_reply_tensor_t {
  uint32_t kind; /* TN_WIRE_SAME, _DENSE, _LIST or _TEXTS */
  int32_t ndim;
  int64_t *shape;
  uint64_t offset;                 /* DENSE: of a block of the exchange, in the mailbox */
  uint64_t size;                   /* DENSE: bytes of the elements */
  struct tn_reply_tensor_t *items; /* LIST: all of them DENSE */
  int64_t count;                   /* LIST: number of items; TEXTS: number of texts */
  tenon_string_t *texts;           /* TEXTS: in the copy of the message */
} tn_reply_tensor_t;

/* Reads the reply of RUN: one description for each result. A description is accepted only if it
 * fits the result that the call expects: its kind, its dtype, its number of items. */
tenon_status_t tn_reply_results(tn_exchange_t *x, const tenon_call_t *call,
                                tn_reply_tensor_t **out_results);
/* Reads the reply of INFER into the metas of the inference. Everything in it that the operator's
 * schema and TYPES state must be as they state it. */
tenon_status_t tn_reply_metas(tn_exchange_t *x, tenon_infer_t *infer, const tn_dim_check_t *check);
/* Reads the reply of CREATE: the number of the new state in the worker process. */
tenon_status_t tn_reply_state(tn_exchange_t *x, uint64_t *out_id);
tenon_status_t tn_reply_malformed(const tn_exchange_t *x, const char *what);

#endif
