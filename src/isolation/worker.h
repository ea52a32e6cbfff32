/* A child: the process in which an isolated library is loaded and called.  Started by
 * nursery_posix.c. */
#ifndef TN_ISOLATION_WORKER_H
#define TN_ISOLATION_WORKER_H

#include "isolation/mailbox.h"

/* Loads the library, takes from this process what it does not need, says what the library states,
 * and serves calls.  Does not come back once calls are served. */
void tn_worker_run(void *mailbox, uint32_t child, const tn_control_t *control);

#endif
