/* Leaks of drivers.  An OpenCL driver and the compiler in it (PoCL, LLVM) leave memory behind
 * whenever they compile a kernel that is in no cache yet.  The leak checker would tell of it, and
 * lists of what it should pass over do not hold: whose code a stack shows depends on how far it can
 * be unwound, and on libraries that are unmapped by the time of the report.  So memory is judged by
 * who asks for it.  What is allocated inside a call of the driver, or on a thread that the driver
 * began, is passed over; what Tenon's own code asks for, which comes through faults.c, never is, be
 * it in a callback of the driver. With the address sanitizer only; without, all of this is
 * nothing. */
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
/* What the calling thread allocates between these is passed over.  They nest. */
void foreign_begin(void);
void foreign_end(void);
/* A request of Tenon's own in between: foreign_return takes what foreign_leave gave. */
int foreign_leave(void);
void foreign_return(int depth);
/* From now on threads that were not begun by Tenon's own code are the driver's. */
void foreign_watch_threads(void);
/* The calling thread was begun by Tenon's own code. */
void foreign_is_own_thread(void);
#else
static inline void foreign_begin(void) {}
static inline void foreign_end(void) {}
static inline int foreign_leave(void) { return 0; }
static inline void foreign_return(int depth) { (void)depth; }
#endif

#endif
