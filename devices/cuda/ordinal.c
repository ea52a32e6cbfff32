/* The state that all ordinals share. It has a unit of its own, which calls no other unit, because
 * streams, events, deferred frees and errors look at the state of other ordinals too. */
#include "ordinal.h"

cu_device_t *_Atomic cu_devices[CU_ORDINALS_MOST];
_Atomic cu_result_t cu_failures[CU_ORDINALS_MOST];
pthread_mutex_t cu_lock = PTHREAD_MUTEX_INITIALIZER;
