/* Threads, locks, and the block that each thread owns.  One thread-local pointer leads to the block
 * (a large thread-local variable would make dynamically loaded wheels fail to load); it is made on
 * first use and freed when the thread ends. */
#ifndef TN_BASE_THREAD_H
#define TN_BASE_THREAD_H

#include <stddef.h>
#include <stdint.h>

/* Of random numbers: the next one is number `offset` of the seed's stream; both are atomic. */
typedef struct tenon_generator_t {
  uint64_t seed;
  uint64_t offset;
} tenon_generator_t;

typedef struct
    tn_thread_calls_t { /* what calls of a thread see; carried to threads that work for it */
  uint64_t include;
  uint64_t exclude;        /* dispatch keys: see dispatch/key.h */
  uint64_t layers;         /* of users that are on, by number: dispatch/layers.c */
  struct tn_mode_t *modes; /* the stack, the top first */
  int32_t device_type;
  int32_t device_id; /* the default device, of calls that state none; type 0: the CPU */
  uint64_t autocast_f16;
  uint64_t autocast_bf16; /* backends whose calls run in lower precision: dispatch/autocast.c */
  int32_t mixed;
  int32_t mixed_once;           /* what calls with arguments in several places do; of one call */
  tenon_generator_t *generator; /* that calls draw from; NULL: their device's */
  int32_t is_inference;         /* memory that is made now is never used for gradients */
  struct tn_streams_t *streams; /* of devices, that calls use; NULL: their first: device/stream.c */
  const struct tenon_allocator_t
      *allocator; /* of tensors on devices; NULL: the host's own: dispatch/allocator.c */
} tn_thread_calls_t;

enum { TN_GATES = 32 };

enum {
  TN_KEPT_KINDS = 16,
  TN_KEPT_MOST = 7,
};
typedef struct tn_kept_t { /* free blocks of one size: of kind k 64 * (k + 1) bytes, see memory.c */
  uint64_t count;
  void *blocks[TN_KEPT_MOST];
} tn_kept_t;
enum { TN_MANY_MOST = 128 };
typedef struct
    tn_many_t { /* the same, of blocks that come and go by the hundred: each leads to the next */
  uint64_t count;
  void *first;
} tn_many_t;

typedef struct tn_thread_t {
  uintptr_t stack_limit; /* below it its stack is nearly full: calls are refused; 0: not known */
  tn_thread_calls_t calls;
  uintptr_t stack_low; /* where it ends */
  int32_t depth;       /* of calls that are traced */
  int32_t is_shared;   /* by threads for which there was no memory */
  int32_t nesting;     /* of calls, layers and modes in one another: bounded, dispatch/call.h */
  uint32_t gates[TN_GATES]; /* calls that are in code of each unloadable library: dispatch/call.c */
  uint64_t lookups;         /* slow ones, of backends that share a key: dispatch/layer.c */
  struct tn_thread_t *next; /* all threads\' blocks */
  int32_t threads;          /* of a parallel-for begun by this thread; 0: the process's default */
  const struct tenon_poll_t *poll; /* asked whether to go on, or NULL: base/poll.h */
  int32_t inside;                  /* depth of parallel-for: inner ones run on this thread alone */
  void *profile;                   /* the profile that spans of this thread go to, or NULL */
  tenon_generator_t own_generator; /* of tenon_random_seed */
  int32_t no_gradient;             /* what calls without a gradient do, 0: as the process says */
  int32_t frees;                   /* it is freeing histories */
  const char *graph_node;          /* that it runs, for messages of histories; NULL: none */
  struct tn_node_t *dead_nodes;    /* that it still has to free */
  void *begun;                     /* what the hook gave when the thread began */
  struct tn_watched_t *watched;    /* the call that is watched: src/dump/watch.c; NULL: none */
  void *cache[1];                  /* the first scratch block, freed with the thread */
  struct tn_scratch_block_t *scratch; /* the current one */
  struct tn_streams_t *own_streams;   /* the same, freed with the thread */
  char *error;                        /* message of the last failure, or NULL: short_error */
  char short_error[256];
  uint64_t most_kept; /* blocks of one size; 0: this thread keeps none */
  tn_kept_t kept[TN_KEPT_KINDS];
  tn_many_t many[TN_KEPT_KINDS];
} tn_thread_t;

extern _Thread_local tn_thread_t *tn_thread_block __attribute__((tls_model("initial-exec")));
tn_thread_t *tn_thread_make(void); /* never NULL: without memory all such threads share one block */
static inline tn_thread_t *tn_thread(void) {
  return tn_thread_block ? tn_thread_block : tn_thread_make();
}
void tn_kept_clear(tn_thread_t *thread); /* frees the blocks that it keeps */
/* Called on each thread when its block is made, from here on, and with what that gave when it ends
 * (NULL: not); begin NULL: no more.  The calling thread is begun at once. */
void tn_thread_hooks_set(void *(*begin)(void), void (*end)(void *begun));
void tn_thread_drop(
    /* frees the calling thread's block (at shutdown; other threads free theirs when they end) */
    void);

/* Around a fork: no thread's block is made or freed; in the child those of threads that are not
 * there do not count. */
void tn_threads_hold(void);
void tn_threads_let_go(void);
void tn_threads_forget_others(void);
/* Calls these before each fork of the process, and after it in the parent and in the child; false:
 * the system cannot. */
int tn_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void));

/* Calls of all threads that are behind a gate.  Threads that ended count no more. */
uint64_t tn_thread_gate(int gate);
/* Look-ups of all threads, of those that ended too. */
uint64_t tn_thread_lookups(void);
/* Every thread of the process has passed a full memory barrier when it returns: a plain store of
 * theirs before is seen, and they see ours.  False: the system has no such thing. */
int tn_thread_barrier(void);

typedef struct tn_mutex_t {
  uint64_t room[6];
} tn_mutex_t;
#define TN_MUTEX_INIT                                                                              \
  {                                                                                                \
    { 0 }                                                                                          \
  } /* a valid unlocked mutex */
void tn_mutex_lock(tn_mutex_t *mutex);
void tn_mutex_unlock(tn_mutex_t *mutex);

typedef struct tn_spawned_t {
  uint64_t room[2];
} tn_spawned_t;
/* Starts a thread; false when the system refuses. */
int tn_spawn(tn_spawned_t *thread, void (*function)(void *), void *argument);
void tn_join(tn_spawned_t *thread);
void tn_thread_yield(void); /* lets others run */
int64_t tn_thread_id(void); /* the system's number of this thread */
/* Processors that this process may run on. */
int32_t tn_processor_count(void);
/* Random bytes of the system, at most 256; false: it has none. */
int tn_entropy(void *out_bytes, size_t size);
/* Nanoseconds of a clock that only goes forward. */
int64_t tn_now(void);

#endif
