/* What a child leaves behind when it ends by a signal, by a system call that it must not make, or
 * by exit: written to its post for the host to read, and trusted no more than anything else
 * there. */
#ifndef TN_ISOLATION_CRASH_H
#define TN_ISOLATION_CRASH_H

#include "base/text.h"
#include "isolation/mailbox.h"

/* In the child: from here on such ends are written to the post. */
void tn_crash_watch(tn_crash_t *crash);
/* This thread serves that slot; -1: none.  Gives it a stack for when its own is full. */
void tn_crash_seat(int slot);
/* Bytes of memory that this process may have made dirty: its data and stacks. */
uint64_t tn_memory_used(void);

/* In the host: "crashed: SIGSEGV at address 0x0", "opened '/etc/passwd', which isolation does not
 * allow: ...". `status` is that of waitpid.  Gives the code that the call fails with. */
tenon_status_t tn_crash_describe(const tn_crash_t *crash, int status, uint64_t memory,
                                 tn_text_t *text);

#endif
