/* Leaks of drivers. An OpenCL driver and its compiler (PoCL, LLVM) leak memory whenever they
 * compile a kernel that is not cached yet. The leak checker would report it, and suppression lists
 * do not work reliably: the library that a stack shows depends on how far the stack can be unwound,
 * and on libraries that are unmapped before the report.
 *
 * So memory is judged by the code that requests it. What is allocated inside a call of the driver,
 * or on a thread that the driver started, is ignored. Requests of Tenon's own code, which come
 * through faults.c, are never ignored, not even in a callback of the driver. This works with the
 * address sanitizer only; without it, these functions do nothing. */
#ifndef TENON_TESTS_FOREIGN_H
#define TENON_TESTS_FOREIGN_H

#if defined(__SANITIZE_ADDRESS__)
#define FOREIGN_IS_PASSED_OVER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FOREIGN_IS_PASSED_OVER 1
#endif
#endif

#ifdef FOREIGN_IS_PASSED_OVER
/* Allocations of the calling thread between these two calls are ignored. Calls nest. */
void foreign_begin(void);
void foreign_end(void);
/* Marks a request of Tenon's own code in between: foreign_return takes the value that foreign_leave
 * returned. */
int foreign_leave(void);
void foreign_return(int depth);
/* From now on, threads that Tenon's own code did not start belong to the driver. */
void foreign_watch_threads(void);
/* Tenon's own code started the calling thread. */
void foreign_is_own_thread(void);
#else
static inline void foreign_begin(void) {}
static inline void foreign_end(void) {}
static inline int foreign_leave(void) { return 0; }
static inline void foreign_return(int depth) { (void)depth; }
#endif

#endif
