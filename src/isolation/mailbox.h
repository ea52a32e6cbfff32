/* The memory that a host shares with the worker processes of one isolated library, and the
 * doorbells with which both sides wake each other.
 *
 * The mailbox has one channel for each worker process, followed by a heap for tensors. A channel
 * consists of doorbells, entries with room for one message each, and the description of the
 * library. A worker process may write anything to the mailbox at any time, so the host copies what
 * it reads before it examines the copy.
 *
 * The control block states what the host wants and how worker processes ended. Only the host and
 * the supervisor can access it. */
#ifndef TN_ISOLATION_MAILBOX_H
#define TN_ISOLATION_MAILBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <tenon/op.h>

/* The maximum number of worker processes, and of calls in flight in each of them. */
enum {
  TN_CHANNELS = 8,
  TN_CHANNEL_ENTRIES = 8,
};
enum {
  TN_CHANNEL_SIZE = 32 << 20, /* of a channel; most pages are never touched and take no memory */
  TN_CHANNEL_HEAD = 64 << 10, /* of its tn_channel_t, at the start */
  TN_ENTRY_SIZE = 1 << 20,    /* of an entry: its message, then space for small tensors */
  TN_MESSAGE_SIZE = 256 << 10,
  TN_DESCRIPTION_SIZE = TN_CHANNEL_SIZE - TN_CHANNEL_HEAD - TN_CHANNEL_ENTRIES * TN_ENTRY_SIZE,
};

/* States of a doorbell. The host writes IDLE, CALL and ANSWER; the worker process writes ASK and
 * REPLY; the supervisor writes DEAD after the worker process has ended. */
enum {
  TN_ENTRY_IDLE,
  TN_ENTRY_CALL,
  TN_ENTRY_ASK,
  TN_ENTRY_ANSWER,
  TN_ENTRY_REPLY,
  TN_ENTRY_DEAD,
};

/* A doorbell: a futex word with the state of one entry. It fills two cache lines, since processors
 * fetch them in pairs. */
typedef struct tn_doorbell_t {
  uint32_t state;
  uint32_t host_sleeps;
  uint32_t child_sleeps;
  uint32_t reserved;
  uint64_t size; /* of the message */
  uint64_t pad[13];
} tn_doorbell_t;

enum {
  TN_CRASH_NONE,
  TN_CRASH_SIGNAL,
  TN_CRASH_DENIED,
  TN_CRASH_EXIT,
};
typedef struct tn_crash_t { /* written by a worker process when it ends */
  uint32_t kind;
  uint32_t entry; /* 1 + index of the entry whose call it was; 0: none */
  int32_t signal;
  /* Of a forbidden call or exit: the system call. Of a signal: 1 if the stack overflowed. */
  int32_t number;
  uint64_t address;
  uint64_t used; /* bytes of memory in use */
  uint64_t arguments[3];
  char path[256];
} tn_crash_t;

typedef struct tn_channel_t {
  /* CALL: the library is being loaded. REPLY: it is ready. ASK: it was refused, and the message of
   * entry 0 has the reason. */
  tn_doorbell_t start;
  tn_doorbell_t entries[TN_CHANNEL_ENTRIES];
  uint64_t description_size;
  tn_crash_t crash;
} tn_channel_t;

static inline tn_channel_t *tn_channel(void *mailbox, uint32_t child) {
  return (tn_channel_t *)((char *)mailbox + (size_t)child * TN_CHANNEL_SIZE);
}
static inline unsigned char *tn_channel_area(void *mailbox, uint32_t child, uint32_t entry) {
  return (unsigned char *)tn_channel(mailbox, child) + TN_CHANNEL_HEAD +
         (size_t)entry * TN_ENTRY_SIZE;
}
static inline unsigned char *tn_channel_description(void *mailbox, uint32_t child) {
  return tn_channel_area(mailbox, child, TN_CHANNEL_ENTRIES);
}

enum { TN_ISOLATE_FOLDERS = 8192 };
typedef struct tn_control_t {
  uint32_t size; /* of this structure: host and supervisor are of one build */
  uint32_t child_count;
  uint32_t entry_count;
  uint32_t allow;
  uint32_t flags; /* TENON_LOAD_STRICT or 0 */
  uint32_t thread_count;
  int32_t host; /* process id of the host */
  uint32_t has_folders;
  uint64_t mailbox_size;
  uint64_t memory;
  int64_t spin; /* longest time to spin, in nanoseconds; 0: never */
  char version[32];
  char path[4096];
  char readable[TN_ISOLATE_FOLDERS];
  char writable[TN_ISOLATE_FOLDERS]; /* folders, each ended by a NUL; one more NUL ends the list */
  struct {
    uint32_t dead; /* number of the last worker process that ended here; a futex */
    /* The same number, written after all waiters of the channel were woken; a futex. */
    uint32_t told;
    int32_t status; /* as from waitpid; -1: the process could not be started */
    /* errno in this case; TN_END_UNRESTRICTED: the supervisor ended it, because its last system
     * call filter was not in force */
    int32_t problem;
  } ends[TN_CHANNELS];
} tn_control_t;
enum { TN_END_UNRESTRICTED = -1 };

/* The most threads of a worker process. Each entry's thread has a team of threads, and the library
 * may have some of its own. */
static inline uint32_t tn_thread_most(const tn_control_t *control) {
  enum { OF_LIBRARY = 256 };
  return OF_LIBRARY + control->entry_count * (control->thread_count + 1);
}

/* How long to spin before sleeping. After spinning in vain, the time is halved, because the other
 * side may need this processor. Every 16th time in vain, the full time is tried again. */
typedef struct tn_spin_t {
  int64_t most;   /* longest time, in nanoseconds */
  int64_t now;    /* present time, in nanoseconds */
  uint32_t count; /* how often spinning was in vain */
} tn_spin_t;
static inline tn_spin_t tn_spin(int64_t most) { return (tn_spin_t){most, most, 0}; }

/* Waits while *word equals `value`: spins, then sleeps with *sleeps set. `until` is a tn_now()
 * time; 0 means no limit.
 *
 * Returns: the new state, or `value` if the time is over. */
uint32_t tn_doorbell_wait(uint32_t *word, uint32_t value, uint32_t *sleeps, tn_spin_t *spin,
                          int64_t until);
/* Changes *word from `from` to `to` and wakes the sleepers. Returns: false if *word was not
 * `from`. */
bool tn_doorbell_ring(uint32_t *word, uint32_t from, uint32_t to, uint32_t *sleeps);
void tn_doorbell_wake(uint32_t *word);

/* Copies what the other side wrote, once. The other side may write to it at any time; the fence
 * keeps the compiler from reading the shared bytes again in place of the copy. */
static inline void tn_shared_copy(void *to, const void *shared, size_t size) {
  memcpy(to, shared, size);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* Anonymous shared memory (memfd). It can grow but not shrink, so that nobody who has it can take
 * pages away below the other side. Programs that this process starts do not inherit the
 * descriptor. */
tenon_status_t tn_shared_create(uint64_t size, int *out_descriptor);
tenon_status_t tn_shared_map(int descriptor, uint64_t size, void **out_memory);
void tn_shared_unmap(void *memory, uint64_t size);
bool tn_shared_grow(int descriptor, uint64_t size);
/* Returns the pages to the system. They read as 0 afterwards. */
void tn_shared_discard(int descriptor, uint64_t offset, uint64_t size);
void tn_shared_close(int descriptor);

#endif
