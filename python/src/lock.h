/* Locks and shared variables for free-threaded Pythons. They protect what threads share here: the
 * tables of libraries and operators, and the state that an operator keeps between calls. With the
 * interpreter lock, the locks do nothing and the accesses are plain reads and writes. Variables
 * that are rarely written are _Atomic in both builds. */
#ifndef TENON_PYTHON_LOCK_H
#define TENON_PYTHON_LOCK_H

#include <Python.h>

#ifdef Py_GIL_DISABLED
typedef PyMutex lock_t;
/* Until lock_give, the thread must neither run Python code nor wait for another thread by other
 * means. */
static inline void lock_take(lock_t *lock) { PyMutex_Lock(lock); }
static inline void lock_give(lock_t *lock) { PyMutex_Unlock(lock); }
static inline void shared_add(size_t *at, size_t number) {
  __atomic_fetch_add(at, number, __ATOMIC_SEQ_CST);
}
static inline size_t shared_get(const size_t *at) { return __atomic_load_n(at, __ATOMIC_SEQ_CST); }
/* Returns the previous value. */
static inline void *shared_swap(void **at, void *with) {
  return __atomic_exchange_n(at, with, __ATOMIC_SEQ_CST);
}
#else
typedef char lock_t;
static inline void lock_take(lock_t *lock) { (void)lock; }
static inline void lock_give(lock_t *lock) { (void)lock; }
static inline void shared_add(size_t *at, size_t number) { *at += number; }
static inline size_t shared_get(const size_t *at) { return *at; }
static inline void *shared_swap(void **at, void *with) {
  void *was = *at;
  *at = with;
  return was;
}
#endif

#endif
