/* The threads of calls that come from PyTorch; see threads.c. */
#ifndef BRIDGES_TORCH_THREADS_H
#define BRIDGES_TORCH_THREADS_H

#include <tenon/tenon.h>

/* Called once, before operators are registered. */
void threads_watch_forks(void);
/* Lets loops of this thread use PyTorch's threads. Returns what threads_leave needs. */
const tenon_thread_pool_t *threads_enter(void);
void threads_leave(const tenon_thread_pool_t *before);

#endif
