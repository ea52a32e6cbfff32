/* The messages between a host and a worker process: verbs, tensor descriptions, metas.
 *
 * A call is a message that starts with a verb and the operator's number. The reply starts with a
 * status and a text; the text is present if the status is not OK. Before it replies, the worker
 * process may ask questions: a question starts with the number of the question, and its answer
 * starts with a status. */
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
  TN_ASK_MEMORY,
};
enum {
  TN_WIRE_ABSENT,
  TN_WIRE_DENSE, /* dtype, rank, extents, offset in the mailbox; row-major */
  TN_WIRE_LIST,  /* count, items */
  TN_WIRE_TEXTS, /* strings: rank, extents, each text */
  TN_WIRE_SAME,  /* a result that is an input: its number */
  TN_WIRE_MAKE,  /* a result that the kernel creates; the reply describes it */
};
/* Whether a call has a state. KNOWN is followed by the state's number in place of attributes. */
enum {
  TN_STATE_NONE,
  TN_STATE_KNOWN,
};
enum {
  TN_ATTRS_DEFAULT,
  TN_ATTRS_GIVEN,
};

enum { TN_NAME_SIZE = 800 };
/* Computes the full name "ns::name.overload" from a schema or the text of an EXTEND. Host and
 * worker process compute it alike. */
void tn_operator_name(const char *text, const char *library, char out_name[TN_NAME_SIZE]);

/* Decides which symbolic extents belong to the reader. NULL accepts any. */
typedef struct tn_dim_check_t {
  bool (*is_mine)(const void *context, tenon_dim_t dim);
  const void *context;
} tn_dim_check_t;

/* Writes the meta of an input or result, without its known value. NULL means absent. */
void tn_put_meta(tn_wire_t *wire, const tenon_meta_t *meta, bool is_result);
/* Reads into a meta that tn_meta_room prepared and that has as many items as the message. Returns:
 * false if the message says absent, or is malformed (wire.failed). */
bool tn_get_meta(tn_wire_t *wire, tenon_meta_t *meta, bool is_result, const tn_dim_check_t *check);
/* Looks ahead at a meta without consuming it. Returns: the number of its items, or -1 if it is not
 * a list. */
int64_t tn_peek_meta_items(const tn_wire_t *wire);

#endif
