/* A forked child that performs a task whenever it is asked and keeps its state in between. If it
 * dies, the caller is told how, and continues. Implemented in persistent_worker_posix.c. Called by
 * watch. */
#ifndef TOOLS_PERSISTENT_WORKER_H
#define TOOLS_PERSISTENT_WORKER_H

#include "text.h"

typedef struct persistent_worker_t {
  int64_t id; /* 0: no child is running */
  int asks;
  int answers;
} persistent_worker_t;

/* Starts a child that calls work(context) for each request. This process must not have started
 * threads. */
bool persistent_worker_start(persistent_worker_t *worker, int (*work)(void *context), void *context,
                             text_t *why);
/* Asks for the task and returns its result. False: the child died, `why` says how, and no child is
 * running any more. */
bool persistent_worker_ask(persistent_worker_t *worker, int *out_answer, text_t *why);
void persistent_worker_stop(persistent_worker_t *worker);

#endif
