/* A child's calls: one message in, one out.  Called by the threads of worker.c. */
#ifndef TN_ISOLATION_SERVE_H
#define TN_ISOLATION_SERVE_H

#include "isolation/mailbox.h"
#include "operator/op.h"

typedef struct tn_worker_t {
  char *mailbox;
  uint32_t child;
  uint32_t op_count;
  const tn_control_t *control;
  tn_post_t *post;
  const tenon_op_t **ops; /* NULL: one that is not here */
} tn_worker_t;

typedef struct tn_seat_t { /* of one slot, and its thread */
  const tn_worker_t *worker;
  int number;
  tn_bell_t *bell;
  unsigned char *area;
  tn_patience_t patience;
  tenon_generator_t *generator;
} tn_seat_t;

/* Serves the call that is in the slot. */
void tn_seat_serve(tn_seat_t *seat);

#endif
