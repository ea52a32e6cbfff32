/* The parts of exchanges that client.c needs while it starts a worker process. */
#ifndef TN_ISOLATION_EXCHANGE_H
#define TN_ISOLATION_EXCHANGE_H

#include "isolation/client.h"

/* Waits while the doorbell's state is `value`. Returns: the new state, or TN_ENTRY_DEAD if the
 * worker process has ended, which includes that it was ended because of the deadline. `what` names
 * the activity in the message ("loading"); NULL means a call. */
uint32_t tn_exchange_wait(tn_exchange_t *x, tn_doorbell_t *doorbell, uint32_t value,
                          tn_spin_t *spin, const char *what);
/* Ends the worker process, notes the reason `why`, and waits until the process is gone. */
void tn_child_kill(tn_exchange_t *x, tenon_status_t status, const char *why);
/* Returns: the error of an exchange whose worker process has ended. */
tenon_status_t tn_exchange_died(tn_exchange_t *x);
/* Starts the worker process unless it is running. */
tenon_status_t tn_child_ensure(tn_client_t *client, uint32_t index);
/* Waits until the supervisor has finished writing to the channel of an ended worker process. */
void tn_end_wait_told(tn_client_t *client, uint32_t index, uint32_t number);
void tn_entries_wait_free(tn_child_t *child, uint32_t all);

#endif
