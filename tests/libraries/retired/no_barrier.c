/* Mutant: unloading omits the memory barrier for callers, so it can miss calls that are just being
 * counted. */
#include "base/thread.h"

int tn_thread_barrier(void) { return 1; }
