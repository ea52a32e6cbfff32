/* tenon/api/runtime.h: errors, start and shutdown of the runtime, threads, cancellation.  Part of
 * tenon/tenon.h. */
#ifndef TENON_API_RUNTIME_H
#define TENON_API_RUNTIME_H

#include <tenon/api/export.h>
#include <tenon/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors ---------------------------------------------------------------------------------- */

/* Returns the message of the last failure in this thread, or "" if there was none.
 *
 * Ownership: the string is valid until the next failure in this thread. */
TENON_API const char *tenon_error(void);

/* Sets the message of this thread's last failure, for code that extends this interface, such as
 * bridges.
 *
 * Returns: `status`.
 * Ownership: the text is copied. */
TENON_API tenon_status_t tenon_error_set(tenon_status_t status, const char *text);

/* Returns the name of a status as a constant string: "not found", "invalid", ... */
TENON_API const char *tenon_status_name(tenon_status_t status);

/* Frees a string that a function of tenon.h returned to the caller. */
TENON_API void tenon_text_release(char *text);

/* ---- the runtime ----------------------------------------------------------------------------- */

/* Returns the version of libtenon as a constant string: "1.0.0". */
TENON_API const char *tenon_version(void);

/* Starts the runtime and registers the built-in operators.  Idempotent.  Every other function
 * starts the runtime if necessary. */
TENON_API tenon_status_t tenon_start(void);

/* Frees everything that the caller holds no handle of, and unloads libraries.
 *
 * Handles that the caller still holds can only be released.  The runtime may be started again.
 *
 * Threads: no other thread may be in a call. */
TENON_API void tenon_shutdown(void);

/* Writes a report on the machine, the build and the settings, for `tenon doctor`.
 *
 * Ownership: the caller frees *out_text with tenon_text_release. */
TENON_API tenon_status_t tenon_doctor(char **out_text);

/* ---- threads and cancellation ---------------------------------------------------------------- */

/* Sets the number of threads for calls and runs started by this thread.
 *
 * Arguments: 0: the default, which is TENON_THREADS or else the number of processors that the
 * process may use: those of the machine, of its affinity mask, or of its control group's quota,
 * whichever are fewest. */
TENON_API void tenon_threads_set(int32_t count);
TENON_API int32_t tenon_threads_get(void);

/* Threads of the program that help with parallel loops, in place of Tenon's own threads: those of a
 * framework that Tenon is embedded in, for example.
 *
 * The thread that begins a loop takes part in it.  It runs every part that no other thread has
 * begun, and waits only for parts that others have begun.  Results have the same bits as with as
 * many threads of Tenon's own. */
typedef struct tenon_thread_pool_t {
  uint32_t size; /* sizeof(tenon_thread_pool_t) */
  /* Returns how many threads a loop that the calling thread begins may use, itself included; 1: it
   * runs alone.  tenon_threads_set lowers the number, but does not raise it.
   * Threads: called often, on any thread; must be quick. */
  int32_t (*count)(void *state);
  /* Has up to `helpers` threads of the pool call help(argument) once each.
   *
   * `help` returns when no part of the loop is left to begin.  The function may wait for these
   * calls or return before them.  A call that comes late, even after the loop has ended, does no
   * harm, and a call that never comes delays nothing.  The thread that begins the loop may be one
   * of those that call `help`.
   * Threads: called on the thread that begins the loop. */
  void (*lend)(void *state, int32_t helpers, void (*help)(void *argument), void *argument);
  void *state;
} tenon_thread_pool_t;

/* Lets parallel loops that this thread begins, or all loops of the process, use this pool.  In the
 * child of a fork loops use Tenon's own threads again.
 *
 * Arguments: NULL: for a thread, the pool of the process; for the process, Tenon's own threads.
 * Ownership: `pool` must outlive its use by loops.  No thread may call `help` after libtenon has
 * been unloaded.
 * Errors: INVALID if the structure is too short or lacks a function. */
TENON_API tenon_status_t tenon_thread_pool_set(const tenon_thread_pool_t *pool, int32_t is_process);
/* Returns the pool that was set for this thread or for the process, or NULL. */
TENON_API const tenon_thread_pool_t *tenon_thread_pool_get(int32_t is_process);

/* Cancellation callback for calls and runs started by this thread.
 *
 * The host calls it between nodes and between pieces of a parallel loop, which it then cuts into
 * smaller pieces. */
typedef struct tenon_poll_t {
  /* Returns TENON_OK to continue.  Another status, such as TENON_CANCELLED or TENON_DEADLINE, ends
   * the call like a failure; the next call works.  The function must return quickly and make no
   * calls, except that it may state the reason with tenon_error_set.
   * Threads: called on this thread, often. */
  tenon_status_t (*ask)(void *state);
  void *state;
} tenon_poll_t;

/* Sets the cancellation callback of this thread.
 *
 * Arguments: NULL removes the callback.
 * Returns: the previous callback.
 * Ownership: `poll` must outlive its registration.
 * Threads: thread-local. */
TENON_API const tenon_poll_t *tenon_poll_set(const tenon_poll_t *poll);

/* Sets a cancellation callback that the threads which help with this thread's loops call too.
 *
 * After it has ended a call, no thread begins another piece of a loop.  With tenon_poll_set the
 * other threads go on until this thread has asked.
 *
 * Arguments, returns, ownership: as for tenon_poll_set.
 * Threads: thread-local; `poll->ask` is called by several threads at once. */
TENON_API const tenon_poll_t *tenon_poll_set_shared(const tenon_poll_t *poll);

#ifdef __cplusplus
}
#endif
#endif
