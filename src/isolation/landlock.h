/* Landlock: the kernel's own rules for which files a worker process may open. They hold for the
 * rest of the life of the process, also when a filter was evaded. */
#ifndef TN_ISOLATION_LANDLOCK_H
#define TN_ISOLATION_LANDLOCK_H

#include "isolation/mailbox.h"

/* Returns: the version of Landlock's interface, or 0 if the kernel has none, or if the program's
 * variable TENON_ISOLATION_LANDLOCK is "off". */
int tn_landlock_version(void);
/* Restricts this thread, the only one of the process. Returns: false if the system refuses; errno
 * has the reason. */
bool tn_landlock_restrict(const tn_control_t *control);

#endif
