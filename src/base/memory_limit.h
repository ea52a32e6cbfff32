/* The limit on the memory of tensors, from the environment or from the machine. */
#ifndef TN_BASE_MEMORY_LIMIT_H
#define TN_BASE_MEMORY_LIMIT_H

#include <stdint.h>
#include <tenon/op.h>

/* Sets the limit of tn_allocate_aligned: TENON_MEMORY_LIMIT if that is set, else seven eighths of
 * the memory of the machine. Called when the runtime starts. Errors: INVALID. */
tenon_status_t tn_memory_limit_start(void);
/* The bytes of memory that this process can have at most: the machine's memory, or less in a
 * container; a huge number if that is unknown. */
uint64_t tn_memory_of_machine(void);

#endif
