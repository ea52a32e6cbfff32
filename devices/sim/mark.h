/* Marks: points in a stream that can be waited for. */
#ifndef TENON_SIM_MARK_H
#define TENON_SIM_MARK_H

#include "plugin.h"

typedef struct sim_failure_t {
  tenon_status_t code; /* 0: none */
  uint64_t ticket;
  uint64_t order;
  char text[SIM_TEXT];
} sim_failure_t;

/* A point in a stream, shared by the event that recorded it and those that wait for it. */
typedef struct sim_mark_t {
  uint32_t references;
  bool done;
  sim_failure_t failure; /* the failure of the stream when it reached the mark */
  int64_t time;
  sim_clock_t clock; /* the work that is finished when the stream reaches the mark */
  sim_piece_t last;  /* the last work before the mark in the stream */
  pthread_cond_t reached;
} sim_mark_t;

/* Creates a mark for the end of a stream that has this clock and this last piece of work. First
 * joins the clock of the host into `clock`. The caller gets one reference. */
tenon_status_t sim_mark_create(tenon_on_t on, sim_clock_t *clock, const sim_piece_t *last,
                               sim_mark_t **out_mark);
/* Called when the stream, which has this failure, reaches the mark. */
void sim_mark_reach(sim_mark_t *mark, const sim_failure_t *failure);
/* Waits for the mark. Afterwards the host knows that the work before it is finished.
 * *out_failure receives the failure of the stream at the mark. Gives up the caller's reference. */
void sim_mark_wait(sim_mark_t *mark, sim_failure_t *out_failure);
void sim_mark_release(sim_mark_t *mark);

#endif
