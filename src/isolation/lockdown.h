/* What an isolated library's process may do: limits of the system, and a filter of system calls
 * that is written out here. Called in the child, before the library is loaded and again after. */
#ifndef TN_ISOLATION_LOCKDOWN_H
#define TN_ISOLATION_LOCKDOWN_H

#include "isolation/mailbox.h"

/* For loading: everything is taken away but reading files.  False: the system refuses, errno says
 * why. */
bool tn_lockdown_begin(const tn_control_t *control);
/* For good, for all threads: files too. */
bool tn_lockdown_finish(const tn_control_t *control);
/* "openat", and what it is that calls of it do: "opened"; NULL: not known. */
const char *tn_call_text(int number, const char **out_does, const char **out_allow);

#endif
