/* Parts of exchanges that starting children uses, too: exchange.c, client.c. */
#ifndef TN_ISOLATION_EXCHANGE_H
#define TN_ISOLATION_EXCHANGE_H

#include "isolation/client.h"

/* Waits while the bell's state is `value`: what it is then, TN_SLOT_DEAD if the child is gone, past
 * the deadline as well. `what` is for the message: "loading", NULL: a call. */
uint32_t tn_exchange_wait(tn_exchange_t *x, tn_bell_t *bell, uint32_t value,
                          tn_patience_t *patience, const char *what);
/* Ends the child, for that reason, and waits until it is gone. */
void tn_child_kill(tn_exchange_t *x, tenon_status_t status, const char *why);
/* The failure of an exchange whose child is gone. */
tenon_status_t tn_exchange_died(tn_exchange_t *x);
/* The child is there, or the reason why not. */
tenon_status_t tn_child_need(tn_client_t *client, uint32_t index);
/* Until the keeper has no more to write to the post of a child that ended. */
void tn_end_wait_told(tn_client_t *client, uint32_t index, uint32_t number);
void tn_slots_wait_free(tn_child_t *child, uint32_t all);

#endif
