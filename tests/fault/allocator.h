/* The allocator of a test program: glibc's, with a layer that can make requests of other libraries
 * fail at random and that counts the bytes in use. It is for programs without sanitizers, which
 * have allocators of their own. */
#ifndef TENON_TESTS_ALLOCATOR_H
#define TENON_TESTS_ALLOCATOR_H

#include <stdint.h>

/* From now on one of `share` requests by code outside the program itself fails, on any thread;
 * share 0: none. */
void allocator_fail(uint64_t seed, uint32_t share);
int64_t allocator_failures(void); /* failures since allocator_fail */
int64_t allocator_asked(void);    /* requests of such code since then */
int64_t allocator_held(void);     /* bytes in use, by any code */

#endif
