/* A worker process: the process in which an isolated library is loaded and called. Forked by
 * isolate_posix.c. */
#ifndef TN_ISOLATION_WORKER_H
#define TN_ISOLATION_WORKER_H

#include "isolation/mailbox.h"

/* Loads the library, gives up the rights that the process no longer needs, reports what the library
 * declares, and serves calls. Does not return.
 *
 * Arguments: `gate`: the worker's end of the gate's channel, or -1. */
void tn_worker_run(void *mailbox, uint32_t child, const tn_control_t *control, int gate);

#endif
