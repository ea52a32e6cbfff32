/* With AddressSanitizer, cached memory is poisoned, so that a use of it is reported as if it had
 * been freed. */
#ifndef TN_BASE_POISON_H
#define TN_BASE_POISON_H

#include <stddef.h>

#ifdef __has_feature
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define TN_POISON(pointer, size) ASAN_POISON_MEMORY_REGION(pointer, size)
#define TN_UNPOISON(pointer, size) ASAN_UNPOISON_MEMORY_REGION(pointer, size)
#else
#define TN_POISON(pointer, size) tn_ignore_region((pointer), (size))
#define TN_UNPOISON(pointer, size) tn_ignore_region((pointer), (size))
static inline void tn_ignore_region(const void *pointer, size_t size) {
  (void)pointer;
  (void)size;
}
#endif

#endif
