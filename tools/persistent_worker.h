/* A forked child that does a piece of work whenever it is asked to, and keeps what it has between:
 * its death is an answer, and not the end of the command.  servant_posix.c.  Called by watch. */
#ifndef TOOLS_PERSISTENT_WORKER_H
#define TOOLS_PERSISTENT_WORKER_H

#include "text.h"

typedef struct persistent_worker_t {
  int64_t id; /* 0: there is none */
  int asks;
  int answers;
} persistent_worker_t;

/* Starts one that calls work(context) for each question.  This process must have started no
 * threads. */
bool persistent_worker_start(persistent_worker_t *worker, int (*work)(void *context), void *context,
                             text_t *why);
/* What work gave.  False: it died, and `why` says how; then there is none. */
bool persistent_worker_ask(persistent_worker_t *worker, int *out_answer, text_t *why);
void persistent_worker_stop(persistent_worker_t *worker);

#endif
