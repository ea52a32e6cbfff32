/* Threads, locks, and the state block that each thread owns. A single thread-local pointer leads to
 * the block, because a large thread-local variable would prevent dynamically loaded wheels from
 * loading. The block is created on first use and freed when the thread ends. */
#ifndef TN_BASE_THREAD_H
#define TN_BASE_THREAD_H

#include <stddef.h>
#include <stdint.h>

/* A random generator: the next number is number `offset` of the seed's stream. Both fields are
 * accessed atomically. */
typedef struct tenon_generator_t {
  uint64_t seed;
  uint64_t offset;
} tenon_generator_t;

/* The state that affects a thread's calls. It is copied to worker threads that run parts of its
 * loops. */
typedef struct tn_thread_calls_t {
  uint64_t include;        /* dispatch keys that every call adds */
  uint64_t exclude;        /* dispatch keys that every call leaves out */
  uint64_t layers;         /* bit mask of the users' layers that are enabled */
  struct tn_mode_t *modes; /* stack of active modes, top first */
  int32_t device_type;     /* default device of calls that name none; type 0 means the CPU */
  int32_t device_id;
  uint64_t autocast_f16;  /* autocast: bit mask of the backends whose calls run in f16 */
  uint64_t autocast_bf16; /* the same for bf16 */
  int32_t mixed;          /* the thread's policy for calls with arguments on several devices */
  int32_t mixed_once;     /* the same for the current call; 0: the thread's policy */
  tenon_generator_t *generator; /* generator that calls draw from; NULL: the device's own */
  int32_t is_inference;         /* inference mode: new tensors never take part in autograd */
  /* streams that calls use on each device; NULL: each device's first stream */
  struct tn_streams_t *streams;
  /* allocator for tensors on devices; NULL: the host's own */
  const struct tenon_allocator_t *allocator;
} tn_thread_calls_t;

enum { TN_GATES = 32 };

enum {
  TN_KEPT_KINDS = 16,
  TN_KEPT_MOST = 7,
};
/* Cached free blocks of one size. Blocks of kind k have 64 * (k + 1) bytes; see memory.c. */
typedef struct tn_kept_t {
  uint64_t count;
  void *blocks[TN_KEPT_MOST];
} tn_kept_t;
enum { TN_MANY_MOST = 128 };
/* Cached free blocks of one size that are allocated and freed by the hundred: a linked list, in
 * which each block points to the next. */
typedef struct tn_many_t {
  uint64_t count;
  void *first;
} tn_many_t;

typedef struct tn_thread_t {
  /* Calls are refused when the stack pointer is below this address, because the stack is nearly
   * full; 0: unknown. */
  uintptr_t stack_limit;
  tn_thread_calls_t calls;
  uintptr_t stack_low; /* lowest address of the stack */
  int32_t depth;       /* nesting depth of traced calls */
  int32_t is_shared;   /* this block is shared by all threads that could not allocate their own */
  int32_t nesting;     /* nesting depth of calls, layers and modes; limited in dispatch */
  /* for each unloadable library: number of this thread's calls inside the library */
  uint32_t gates[TN_GATES];
  uint64_t lookups;         /* number of slow look-ups among backends that share a key */
  struct tn_thread_t *next; /* the list of all threads' blocks */
  /* threads for a parallel-for of this thread; 0: the process's default */
  int32_t threads;
  /* pool that helps with this thread's loops; NULL: the process's */
  const struct tenon_thread_pool_t *pool;
  const struct tenon_poll_t *poll; /* cancellation callback (base/poll.h), or NULL */
  int32_t is_poll_shared;          /* threads that help with this thread's loops ask it too */
  /* nesting depth of parallel-for; inner loops run on this thread alone */
  int32_t inside;
  void *profile;                   /* the profile that receives this thread's spans, or NULL */
  tenon_generator_t own_generator; /* the generator that tenon_random_seed sets */
  /* policy for calls that have no gradient; 0: the process's policy */
  int32_t no_gradient;
  int32_t frees; /* this thread is freeing tape nodes */
  /* this thread measures devices for a placement; its fallbacks are not counted as the program's */
  int32_t is_measuring;
  int64_t uncounted; /* bytes of aligned blocks that only this thread has counted; see memory.c */
  /* name of the graph node that this thread runs, for messages of autograd; NULL: none */
  const char *graph_node;
  struct tn_node_t *dead_nodes; /* tape nodes that this thread still has to free */
  /* result of the hook that ran when the thread's block was created */
  void *begun;
  struct tn_watched_t *watched;       /* the call that the failure dump watches; NULL: none */
  void *cache[1];                     /* the first scratch block, freed with the thread */
  struct tn_scratch_block_t *scratch; /* the current scratch block */
  /* the thread's own array for `calls.streams`, freed with the thread */
  struct tn_streams_t *own_streams;
  /* message of the last failure; NULL: the message is in short_error */
  char *error;
  char short_error[256];
  uint64_t error_count;        /* number of messages that were stored */
  uint64_t aged_count;         /* error_count when the first call after a failure began */
  uintptr_t error_frame;       /* where in the stack the message was stored */
  uintptr_t aged_frame;        /* the frame of that first call */
  uintptr_t stack_limit_found; /* `stack_limit`, which is raised after a failure (base/status.h) */
  uint64_t most_kept; /* largest number of cached blocks of one size; 0: this thread caches none */
  tn_kept_t kept[TN_KEPT_KINDS];
  tn_many_t many[TN_KEPT_KINDS];
} tn_thread_t;

extern _Thread_local tn_thread_t *tn_thread_block __attribute__((tls_model("initial-exec")));
/* never NULL: when memory runs out the threads share one block */
tn_thread_t *tn_thread_make(void);
static inline tn_thread_t *tn_thread(void) {
  return tn_thread_block ? tn_thread_block : tn_thread_make();
}
/* Number of messages of failures that this thread has stored (base/status.h). */
static inline uint64_t tn_error_count(void) {
  return tn_thread_block ? tn_thread_block->error_count : 0;
}
void tn_kept_clear(tn_thread_t *thread); /* frees the cached blocks */
/* Installs hooks: from now on `begin` runs on each thread when its block is created, and `end` runs
 * with the result of `begin` when the thread ends, unless that result is NULL. begin = NULL stops
 * the calls of `begin`. For the calling thread `begin` runs at once. */
void tn_thread_hooks_set(void *(*begin)(void), void (*end)(void *begun));
/* Frees the calling thread's block. Called at shutdown; other threads free their blocks when
 * they end. */
void tn_thread_drop(void);

/* Called around a fork. Between hold and let_go no thread's block is created or freed. In the
 * child, the blocks of all other threads are dropped from the list. */
void tn_threads_hold(void);
void tn_threads_let_go(void);
void tn_threads_forget_others(void);
/* Registers functions that run before each fork of the process, and after it in the parent and in
 * the child. Returns false if the system cannot register them. */
int tn_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void));

/* The number of calls, over all threads, that are inside the library with this gate. Threads that
 * have ended no longer count. */
uint64_t tn_thread_gate(int gate);
/* The number of slow look-ups of all threads, including threads that have ended. */
uint64_t tn_thread_lookups(void);
/* Issues a full memory barrier on every thread of the process before it returns: plain stores of
 * other threads before the barrier are visible to this thread, and the reverse. Returns false if
 * the system does not support it. */
int tn_thread_barrier(void);

typedef struct tn_mutex_t {
  uint64_t room[6];
} tn_mutex_t;
#define TN_MUTEX_INIT                                                                              \
  {                                                                                                \
    { 0 }                                                                                          \
  } /* an unlocked mutex */
void tn_mutex_lock(tn_mutex_t *mutex);
void tn_mutex_unlock(tn_mutex_t *mutex);

typedef struct tn_spawned_t {
  uint64_t room[2];
} tn_spawned_t;
/* Starts a thread. Returns false if the system refuses. */
int tn_spawn(tn_spawned_t *thread, void (*function)(void *), void *argument);
void tn_join(tn_spawned_t *thread);
void tn_thread_yield(void);        /* lets other threads run */
int32_t tn_thread_processor(void); /* the processor that runs this thread; -1: unknown */
/* The processors that a thread may use; zero before the first use. */
typedef struct tn_processor_set_t {
  uint64_t allowed[16];
  uint64_t last[16]; /* the mask that tn_thread_leave has set last */
} tn_processor_set_t;
/* Moves the calling thread from `processor` to another one that it may use, and keeps it off
 * `processor` until it leaves another one. Returns false if it may use no other processor, or if
 * the system refuses. */
int tn_thread_leave(tn_processor_set_t *set, int32_t processor);
int64_t tn_thread_id(void); /* the system's number for this thread */
/* Sleeps until another thread wakes `word`, unless it no longer has this value. May return early.
 */
void tn_word_sleep(uint32_t *word, uint32_t value);
/* Wakes at most `count` threads that sleep on `word`, whose value must have changed before. */
void tn_word_wake(uint32_t *word, int32_t count);
/* Random bytes from the system, at most 256. Returns false if the system provides none. */
int tn_entropy(void *out_bytes, size_t size);
/* Nanoseconds of a monotonic clock. */
int64_t tn_now(void);

#endif
