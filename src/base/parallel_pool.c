/* Threads that help with loops; see parallel_pool.h. A job is published in a slot, one 64-bit word
 * of which says what is left to claim: the number of the job, how many more threads may join, and
 * the range of parts that nobody has claimed. Whoever shortens the range by compare-and-swap owns a
 * part. The caller takes the first part of the range and the pool's threads the last one, so that
 * in a sequence of loops over the same items each processor finds most of its data in its own
 * cache.
 * Invariants:
 * - The caller claims parts like any other thread, and waits only for parts that are claimed. A
 *   thread that does not wake, or that the system does not run, delays no loop.
 * - The job of a slot is read after a claim only. It lives until all claimed parts are done.
 * - A late thread cannot claim a part of the next job with what it read of the last one, because
 *   the number of the job is part of the word.
 * A pool of the program (tenon_thread_pool_t) may lend its threads instead of this one. They are
 * given the address of the slot, which is valid at any time, and so may come late.
 * Threads look for work for a few microseconds and then sleep. One that looks longer uses up its
 * time slice, and is then interrupted in the middle of a part, for which the caller waits.
 * The system may wake a thread on the caller's processor, above all if a process keeps the others
 * busy. There it would only take turns with the caller, so it moves to another processor. */
#include "base/parallel_pool.h"

#include <stdbool.h>
#include <string.h>

#include "base/thread.h"

enum {
  SLOTS = 16,          /* loops at once; the callers of further loops run them alone */
  WORKERS = 255,       /* threads of the pool at most */
  WORKER_SPIN = 5000,  /* nanoseconds that a thread looks for work before it sleeps */
  CALLER_SPIN = 20000, /* nanoseconds that a caller watches the last parts before it sleeps */
  PAUSES = 16,         /* between two looks at the clock */
  MOVE_REST = 1000000, /* nanoseconds between two moves of a thread to another processor */
};

/* The word of a slot: number of the job (24 bits), threads that may join (10), first part that is
 * not claimed (15), and the part after the last one that is not claimed (15). */
enum { PART_BITS = 15, JOIN_BITS = 10, PART_MASK = (1 << PART_BITS) - 1 };
#define FIRST_PART(word) ((int32_t)((word) >> PART_BITS & PART_MASK))
#define END_PART(word) ((int32_t)((word)&PART_MASK))
#define MAY_JOIN(word) ((uint32_t)((word) >> 2 * PART_BITS & ((1 << JOIN_BITS) - 1)))
#define ONE_FIRST ((uint64_t)1 << PART_BITS)
#define ONE_END ((uint64_t)1)
#define ONE_JOINS ((uint64_t)1 << 2 * PART_BITS)
#define ONE_JOB ((uint64_t)1 << (2 * PART_BITS + JOIN_BITS))

typedef struct slot_t {
  _Alignas(64) uint64_t word;
  tn_job_t *job;
  uint32_t unfinished; /* parts that are not done; the caller sleeps on it */
  uint32_t is_caller_asleep;
  uint32_t is_taken;
  const void *caller; /* identifies the calling thread; atomic */
  int32_t processor;  /* that ran the caller when the loop began; -1: unknown; atomic */
} slot_t;

static slot_t slots[SLOTS];
static _Alignas(64) uint32_t posts; /* workers sleep on it: it changes when they must look again */
static uint32_t sleepers;
static uint32_t stopping;
static uint32_t started;
static uint32_t most = WORKERS; /* fewer after the system has refused to start a thread */
static tn_mutex_t starting = TN_MUTEX_INIT; /* guards the threads themselves */
static tn_spawned_t workers[WORKERS];

static void pause_thread(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* claiming and running parts */

static bool has_parts(uint64_t word) { return FIRST_PART(word) < END_PART(word); }

/* Claims the first part for the caller. Returns its number, or -1. */
static int32_t claim_first(slot_t *slot) {
  uint64_t word = __atomic_load_n(&slot->word, __ATOMIC_SEQ_CST);
  while (has_parts(word))
    if (__atomic_compare_exchange_n(&slot->word, &word, word + ONE_FIRST, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED))
      return FIRST_PART(word);
  return -1;
}

/* Claims the last part for a thread of the pool. `joins`: it has no part of this job yet, and takes
 * one of the places for threads that join. Returns the number of the part, or -1. */
static int32_t claim_last(slot_t *slot, bool joins) {
  uint64_t word = __atomic_load_n(&slot->word, __ATOMIC_SEQ_CST);
  while (has_parts(word) && (!joins || MAY_JOIN(word)))
    if (__atomic_compare_exchange_n(&slot->word, &word, word - ONE_END - (joins ? ONE_JOINS : 0),
                                    false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      return END_PART(word) - 1;
  return -1;
}

/* The job may be gone as soon as its last part is reported. */
static void report_done(slot_t *slot, uint32_t done) {
  const uint32_t before = __atomic_fetch_sub(&slot->unfinished, done, __ATOMIC_SEQ_CST);
  if (before == done && __atomic_load_n(&slot->is_caller_asleep, __ATOMIC_SEQ_CST))
    tn_word_wake(&slot->unfinished, 1);
}

/* the pool's threads */

/* Runs parts of the slot's job until none is left. Returns how many it ran. */
static uint32_t help(slot_t *slot) {
  uint32_t done = 0;
  for (int32_t part; (part = claim_last(slot, done == 0)) >= 0; done++)
    tn_job_part(slot->job, part);
  return done;
}

/* What a thread of the pool knows of itself. */
typedef struct worker_t {
  tn_processor_set_t processors;
  int64_t moved_at;
} worker_t;

/* Moves to another processor if this one runs the caller. Rests between two moves, because with
 * several callers each processor may run one. */
static void leave_processor_of_caller(worker_t *worker, const slot_t *slot) {
  const int32_t processor = __atomic_load_n(&slot->processor, __ATOMIC_RELAXED);
  if (processor < 0 || processor != tn_thread_processor()) return;
  const int64_t now = tn_now();
  if (now - worker->moved_at < MOVE_REST) return;
  worker->moved_at = now;
  tn_thread_leave(&worker->processors, processor);
}

static bool find_work(worker_t *worker) {
  bool found = false;
  for (int i = 0; i < SLOTS; i++) {
    const uint64_t word = __atomic_load_n(&slots[i].word, __ATOMIC_SEQ_CST);
    if (!has_parts(word) || !MAY_JOIN(word)) continue;
    leave_processor_of_caller(worker, &slots[i]);
    const uint32_t done = help(&slots[i]);
    if (done) report_done(&slots[i], done);
    found |= done > 0;
  }
  return found;
}

static bool is_stopping(void) { return __atomic_load_n(&stopping, __ATOMIC_SEQ_CST); }

static void sleep_until_post(worker_t *worker) {
  __atomic_fetch_add(&sleepers, 1, __ATOMIC_SEQ_CST);
  const uint32_t seen = __atomic_load_n(&posts, __ATOMIC_SEQ_CST);
  /* A job that was published before this thread counted as a sleeper came without a post. */
  if (!find_work(worker) && !is_stopping()) tn_word_sleep(&posts, seen);
  __atomic_fetch_sub(&sleepers, 1, __ATOMIC_SEQ_CST);
}

static void run_worker(void *unused) {
  (void)unused;
  worker_t worker = {.moved_at = INT64_MIN / 2};
  int64_t until = tn_now() + WORKER_SPIN;
  while (!is_stopping()) {
    if (find_work(&worker)) {
      until = tn_now() + WORKER_SPIN;
      continue;
    }
    for (int i = 0; i < PAUSES; i++)
      pause_thread();
    if (tn_now() < until) continue;
    sleep_until_post(&worker);
    until = tn_now() + WORKER_SPIN;
  }
}

/* Wakes threads that sleep, if there are any. */
static void post(uint32_t wanted) {
  if (!__atomic_load_n(&sleepers, __ATOMIC_SEQ_CST)) return;
  __atomic_fetch_add(&posts, 1, __ATOMIC_SEQ_CST);
  tn_word_wake(&posts, (int32_t)wanted);
}

/* Starts threads until there are `wanted`, or as many as the system allows. A shutdown, which waits
 * for the threads, is not waited for. */
static void start_workers(uint32_t wanted) {
  const uint32_t limit = __atomic_load_n(&most, __ATOMIC_RELAXED);
  if (wanted > limit) wanted = limit;
  if (__atomic_load_n(&started, __ATOMIC_ACQUIRE) >= wanted || is_stopping()) return;
  tn_mutex_lock(&starting);
  uint32_t count = started;
  while (count < wanted && tn_spawn(&workers[count], run_worker, NULL))
    count++;
  if (count < wanted) __atomic_store_n(&most, count, __ATOMIC_RELAXED);
  __atomic_store_n(&started, count, __ATOMIC_RELEASE);
  tn_mutex_unlock(&starting);
}

/* loops */

/* An address that no other thread has. */
static const void *own_identity(void) { return &tn_thread_block; }

/* Runs parts for the caller until none is left. The caller always has the first part, because it
 * alone asks the cancellation callback. */
static void run_as_caller(slot_t *slot) {
  tn_job_t *job = slot->job;
  int32_t part = job->has_begun ? claim_first(slot) : 0;
  job->has_begun = 1;
  for (; part >= 0; part = claim_first(slot)) {
    tn_job_part(job, part);
    job->done++;
  }
}

/* The function that a pool of the program calls, on any thread and at any time. The loop may have
 * ended, and the slot may have another one. */
static void help_from_outside(void *argument) {
  slot_t *slot = argument;
  if (__atomic_load_n(&slot->caller, __ATOMIC_RELAXED) == own_identity()) {
    run_as_caller(slot);
    return;
  }
  const uint32_t done = help(slot);
  if (done) report_done(slot, done);
}

/* Asks other threads to help with the job that has been published in the slot. */
static void ask_for_help(slot_t *slot, const tn_job_t *job, uint32_t helpers) {
  if (job->pool)
    job->pool->lend(job->pool->state, (int32_t)helpers, help_from_outside, slot);
  else
    post(helpers);
}

static slot_t *take_slot(void) {
  for (int i = 0; i < SLOTS; i++)
    if (!__atomic_load_n(&slots[i].is_taken, __ATOMIC_RELAXED) &&
        !__atomic_exchange_n(&slots[i].is_taken, 1, __ATOMIC_ACQUIRE))
      return &slots[i];
  return NULL;
}

static bool is_finished(slot_t *slot) {
  return __atomic_load_n(&slot->unfinished, __ATOMIC_SEQ_CST) == 0;
}

/* Waits for the parts that other threads have begun. */
static void wait_for_others(slot_t *slot) {
  const int64_t until = tn_now() + CALLER_SPIN;
  while (!is_finished(slot) && tn_now() < until)
    for (int i = 0; i < PAUSES && !is_finished(slot); i++)
      pause_thread();
  if (is_finished(slot)) return;
  __atomic_store_n(&slot->is_caller_asleep, 1, __ATOMIC_SEQ_CST);
  for (;;) {
    const uint32_t left = __atomic_load_n(&slot->unfinished, __ATOMIC_SEQ_CST);
    if (!left) break;
    tn_word_sleep(&slot->unfinished, left);
  }
  __atomic_store_n(&slot->is_caller_asleep, 0, __ATOMIC_SEQ_CST);
}

void tn_pool_run(tn_job_t *job) {
  slot_t *slot = take_slot();
  const uint64_t helpers = job->threads <= WORKERS ? (uint64_t)job->threads - 1 : WORKERS;
  if (!slot) {
    for (int32_t i = 0; i < job->parts; i++)
      tn_job_part(job, i);
    return;
  }
  if (!job->pool) start_workers((uint32_t)helpers);
  slot->job = job;
  __atomic_store_n(&slot->caller, own_identity(), __ATOMIC_RELAXED);
  __atomic_store_n(&slot->processor, tn_thread_processor(), __ATOMIC_RELAXED);
  __atomic_store_n(&slot->unfinished, (uint32_t)job->parts, __ATOMIC_RELAXED);
  const uint64_t before = __atomic_load_n(&slot->word, __ATOMIC_RELAXED);
  const uint64_t number = (before & ~(ONE_JOB - 1)) + ONE_JOB;
  const uint64_t word = number | helpers * ONE_JOINS | ONE_FIRST | (uint64_t)job->parts * ONE_END;
  __atomic_store_n(&slot->word, word, __ATOMIC_SEQ_CST);
  ask_for_help(slot, job, (uint32_t)helpers);
  run_as_caller(slot);
  report_done(slot, job->done);
  if (!is_finished(slot)) wait_for_others(slot);
  __atomic_store_n(&slot->caller, NULL, __ATOMIC_RELAXED);
  __atomic_store_n(&slot->is_taken, 0, __ATOMIC_RELEASE);
}

void tn_pool_shutdown(void) {
  tn_mutex_lock(&starting);
  __atomic_store_n(&stopping, 1, __ATOMIC_SEQ_CST);
  __atomic_fetch_add(&posts, 1, __ATOMIC_SEQ_CST);
  tn_word_wake(&posts, INT32_MAX);
  for (uint32_t i = 0; i < started; i++)
    tn_join(&workers[i]);
  __atomic_store_n(&started, 0, __ATOMIC_RELEASE);
  __atomic_store_n(&most, WORKERS, __ATOMIC_RELAXED);
  __atomic_store_n(&stopping, 0, __ATOMIC_SEQ_CST);
  tn_mutex_unlock(&starting);
}

/* The threads do not exist in the child, and may have held the mutex or had parts. */
void tn_pool_in_child(void) {
  memset(slots, 0, sizeof slots);
  starting = (tn_mutex_t)TN_MUTEX_INIT;
  sleepers = 0;
  stopping = 0;
  started = 0;
  most = WORKERS;
}
