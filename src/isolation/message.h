/* What host and child say to each other, beyond numbers: verbs, tensors' descriptions, metas.
 *
 * A call is a message that opens with a verb and the operator's number.  The reply opens with a
 * status and a text, which is there where the status is not OK.  In between the child may ask: a
 * message that opens with an ask, answered by one that opens with a status. */
#ifndef TN_ISOLATION_MESSAGE_H
#define TN_ISOLATION_MESSAGE_H

#include "isolation/wire.h"

enum {
  TN_VERB_RUN = 1,
  TN_VERB_INFER,
  TN_VERB_VALIDATE,
  TN_VERB_CREATE,
  TN_VERB_DESTROY,
};
enum {
  TN_ASK_DIM = 1,
  TN_ASK_LIST,
  TN_ASK_ROOM,
};
enum {
  TN_WIRE_ABSENT,
  TN_WIRE_DENSE, /* dtype, rank, extents, offset in the mailbox: row-major */
  TN_WIRE_LIST,  /* count, items */
  TN_WIRE_TEXTS, /* of strings: rank, extents, and each text */
  TN_WIRE_SAME,  /* a result: number of the input that it is */
  TN_WIRE_MAKE,  /* a result that run makes; the reply describes it */
};
enum {
  TN_STATE_NONE,
  TN_STATE_KNOWN,
}; /* of a call: then comes the number of the state, in place of attributes */
enum {
  TN_ATTRS_DEFAULT,
  TN_ATTRS_GIVEN,
};

enum { TN_NAME_SIZE = 800 };
/* "ns::name.overload" of a schema, or of an EXTEND's text; both sides reckon it so. */
void tn_operator_name(const char *text, const char *library, char out_name[TN_NAME_SIZE]);

/* Which extents are of whoever reads: NULL takes any. */
typedef struct tn_dim_check_t {
  bool (*is_mine)(const void *context, tenon_dim_t dim);
  const void *context;
} tn_dim_check_t;

/* A meta, of an input or a result, without its known value.  NULL: absent. */
void tn_put_meta(tn_wire_t *wire, const tenon_meta_t *meta, bool is_result);
/* Into a meta with room (tn_meta_room), whose items are as many as the message says; false:
 * absent. */
bool tn_get_meta(tn_wire_t *wire, tenon_meta_t *meta, bool is_result, const tn_dim_check_t *check);
/* Whether a meta follows, which is not passed; the number of its items, -1: it is no list. */
int64_t tn_peek_meta_items(const tn_wire_t *wire);

#endif
