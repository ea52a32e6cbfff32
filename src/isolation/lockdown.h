/* The sandbox of a worker process: capabilities, resource limits, Landlock, and system call
 * filters. The worker process calls the first function before the library is loaded and the
 * second one afterwards. */
#ifndef TN_ISOLATION_LOCKDOWN_H
#define TN_ISOLATION_LOCKDOWN_H

#include "isolation/mailbox.h"

typedef enum tn_lockdown_t {
  TN_LOCKDOWN_DONE,
  TN_LOCKDOWN_REFUSED, /* by the system; errno has the reason */
  TN_LOCKDOWN_EVADED,  /* the library has made the last filter ineffective */
} tn_lockdown_t;

/* Restricts the process for loading: everything except reading files is taken away. `gate` is the
 * channel to the supervisor (gate.h), which is closed. Returns: false if the system refuses; errno
 * has the reason. */
bool tn_lockdown_begin(const tn_control_t *control, int gate);
/* Restricts all threads for good, including reading files, and closes the descriptors that the
 * library opened while it was loaded. */
tn_lockdown_t tn_lockdown_finish(const tn_control_t *control);

#endif
