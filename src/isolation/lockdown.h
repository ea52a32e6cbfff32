/* The sandbox of a worker process: resource limits, Landlock folders, and a seccomp filter that
 * lists the allowed system calls. The worker process calls the first function before the library is
 * loaded and the second one afterwards. */
#ifndef TN_ISOLATION_LOCKDOWN_H
#define TN_ISOLATION_LOCKDOWN_H

#include "isolation/mailbox.h"

/* Restricts the process for loading: everything except reading files is taken away. Returns: false
 * if the system refuses; errno has the reason. */
bool tn_lockdown_begin(const tn_control_t *control);
/* Restricts all threads for good, including reading files. */
bool tn_lockdown_finish(const tn_control_t *control);
/* Describes a system call for messages. Returns: its name, such as "openat", or NULL if the call is
 * not listed; `*out_does` is a phrase such as "opened". */
const char *tn_system_call_text(int number, const char **out_does, const char **out_allow);

#endif
