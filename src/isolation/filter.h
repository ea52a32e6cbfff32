/* The system call filters of a worker process. lockdown_posix.c installs three: the gate, whose
 * calls the supervisor answers (gate.h), the filter for loading, and the final filter. The kernel
 * applies the strictest answer of all installed filters, and no filter can be removed. */
#ifndef TN_ISOLATION_FILTER_H
#define TN_ISOLATION_FILTER_H

#include "isolation/mailbox.h"

/* Installs the filter for loading in this thread, the only one of the process, or the final filter
 * in all threads. Returns: false if the system refuses; errno has the reason. */
bool tn_filter_install(const tn_control_t *control, bool is_loading);
/* Installs the gate. Returns: the descriptor on which the supervisor receives the calls, or -1 if
 * the kernel has no such filters (before Linux 5.7), or another supervisor has the only one. */
int tn_filter_install_gate(const tn_control_t *control);
/* Checks that the final filter is in force, by a call that it refuses. */
bool tn_filter_is_final(void);
/* Describes a system call for messages. Returns: its name, such as "openat", or NULL if the call is
 * not listed; `*out_does` is a phrase such as "opened". */
const char *tn_system_call_text(int number, const char **out_does, const char **out_allow);

#endif
