/* Serves calls in a worker process: one message in, one message out. Called by the threads of
 * worker.c. */
#ifndef TN_ISOLATION_SERVE_H
#define TN_ISOLATION_SERVE_H

#include "isolation/mailbox.h"
#include "operator/op.h"

typedef struct tn_worker_t {
  char *mailbox;
  uint32_t child;
  uint32_t op_count;
  const tn_control_t *control;
  tn_channel_t *channel;
  const tenon_op_t **ops; /* NULL: an operator that does not exist here */
} tn_worker_t;

typedef struct tn_channel_entry_t { /* one entry of the channel and its thread */
  const tn_worker_t *worker;
  int number;
  tn_doorbell_t *doorbell;
  unsigned char *area;
  tn_spin_t spin;
  tenon_generator_t *generator;
} tn_channel_entry_t;

/* Serves the call whose message is in the entry. */
void tn_entry_serve(tn_channel_entry_t *entry);

#endif
