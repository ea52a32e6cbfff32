/* Crash reports of worker processes. A worker process that ends by a signal, a forbidden system
 * call or exit writes a report to its channel. The host reads the report and trusts it as little as
 * anything else in the channel. */
#ifndef TN_ISOLATION_CRASH_H
#define TN_ISOLATION_CRASH_H

#include "base/text.h"
#include "isolation/mailbox.h"

/* In the worker process: installs the signal handlers that write the report to `crash`. */
void tn_crash_watch(tn_crash_t *crash);
/* In the worker process: states which channel entry this thread serves (-1: none), and gives the
 * thread a signal stack, so that a stack overflow can be reported. */
void tn_crash_thread(int entry);
/* Returns: how many bytes of data and stack this process has, as its RLIMIT_DATA counts them,
 * and in `*out_addresses` the bytes of all its mappings. Both are 0 if /proc cannot be read. */
uint64_t tn_memory_used(uint64_t *out_addresses);

/* In the host: adds a phrase such as "crashed: SIGSEGV at address 0x0" or "opened '/etc/passwd',
 * which isolation does not allow: ..." to `text`. `status` is the one from waitpid.
 *
 * Returns: the status code with which the call fails. */
tenon_status_t tn_crash_describe(const tn_crash_t *crash, int status, uint64_t memory,
                                 tn_text_t *text);

#endif
