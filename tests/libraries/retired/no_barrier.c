/* Unloading without the barrier on callers: counts that are still on their way are not seen. */
#include "base/thread.h"

int tn_thread_barrier(void) { return 1; }
