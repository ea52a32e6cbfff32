/* The allocator of a test program: glibc's, in front of which requests of other libraries can be
 * made to fail by chance, and which knows what is held.  For programs without sanitizers, which
 * have allocators of their own. */
#ifndef TENON_TESTS_ALLOCATOR_H
#define TENON_TESTS_ALLOCATOR_H

#include <stdint.h>

/* From now on one request in `share` of code outside the program itself fails, of any thread; share
 * 0: none. */
void allocator_fail(uint64_t seed, uint32_t share);
int64_t allocator_failures(void); /* since allocator_fail */
int64_t allocator_asked(void);    /* requests of such code since then */
int64_t allocator_held(void);     /* bytes that are held, by anybody */

#endif
