/* The memory that a host shares with the processes of one isolated library, and how they wake each
 * other.
 *
 * Two pieces.  The mailbox: for each child a post (bells, slots for messages, the description of
 * the library), behind them room for tensors; the child may write anything there at any time, so
 * the host copies what it reads before it looks at it.  The control: what the host wants, and how
 * children ended; host and keeper alone have it. */
#ifndef TN_ISOLATION_MAILBOX_H
#define TN_ISOLATION_MAILBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tenon/op.h>

enum {
  TN_POSTS = 8,
  TN_SLOTS = 8,
}; /* children at most; calls in flight at once in each */
enum {
  TN_POST_SIZE = 32 << 20, /* of a post: most of it is never touched, and then takes no memory */
  TN_POST_HEAD = 64 << 10, /* of that: tn_post_t */
  TN_SLOT_SIZE = 1 << 20,  /* then slots: the message, and behind it small tensors */
  TN_MESSAGE_SIZE = 256 << 10,
  TN_DESCRIPTION_SIZE = TN_POST_SIZE - TN_POST_HEAD - TN_SLOTS * TN_SLOT_SIZE,
};

/* Who writes a state: IDLE, CALL, ANSWER the host; ASK, REPLY the child; DEAD the keeper, when
 * there is no child any more. */
enum {
  TN_SLOT_IDLE,
  TN_SLOT_CALL,
  TN_SLOT_ASK,
  TN_SLOT_ANSWER,
  TN_SLOT_REPLY,
  TN_SLOT_DEAD,
};

typedef struct tn_bell_t { /* two cache lines, since processors fetch them in pairs */
  uint32_t state;
  uint32_t host_sleeps;
  uint32_t child_sleeps;
  uint32_t reserved;
  uint64_t size; /* of the message */
  uint64_t pad[13];
} tn_bell_t;

enum {
  TN_CRASH_NONE,
  TN_CRASH_SIGNAL,
  TN_CRASH_DENIED,
  TN_CRASH_EXIT,
};
typedef struct tn_crash_t { /* what a child said when it ended */
  uint32_t kind;
  uint32_t slot; /* slot: 1 + that of the call, 0: of none */
  int32_t signal;
  int32_t number; /* number: of the system call; EXIT: the status */
  uint64_t address;
  uint64_t used; /* bytes of memory in use */
  uint64_t arguments[3];
  char path[256];
} tn_crash_t;

typedef struct tn_post_t {
  tn_bell_t
      /* CALL: being loaded; REPLY: ready; ASK: refused, the reason is the message of slot 0 */
      start;
  tn_bell_t slots[TN_SLOTS];
  uint64_t description_size;
  tn_crash_t crash;
} tn_post_t;

static inline tn_post_t *tn_post(void *mailbox, uint32_t child) {
  return (tn_post_t *)((char *)mailbox + (size_t)child * TN_POST_SIZE);
}
static inline unsigned char *tn_post_slot(void *mailbox, uint32_t child, uint32_t slot) {
  return (unsigned char *)tn_post(mailbox, child) + TN_POST_HEAD + (size_t)slot * TN_SLOT_SIZE;
}
static inline unsigned char *tn_post_description(void *mailbox, uint32_t child) {
  return tn_post_slot(mailbox, child, TN_SLOTS);
}

enum { TN_ISOLATE_FOLDERS = 8192 };
typedef struct tn_control_t {
  uint32_t size; /* of this: host and keeper are of one build */
  uint32_t child_count;
  uint32_t slot_count;
  uint32_t allow;
  uint32_t flags; /* TENON_ALLOW_..., TENON_LOAD_... */
  uint32_t thread_count;
  int32_t host; /* its process */
  uint32_t has_folders;
  uint64_t mailbox_size;
  uint64_t memory;
  int64_t spin; /* nanoseconds at most; 0: not at all */
  char version[32];
  char path[4096];
  char readable[TN_ISOLATE_FOLDERS];
  char writable[TN_ISOLATE_FOLDERS]; /* folders, each ends with 0, then one more 0 */
  struct {
    uint32_t dead;   /* number of the last child that ended here; its futex */
    uint32_t told;   /* the same, when all who wait in its post have been told */
    int32_t status;  /* as of waitpid; -1: it could not be started */
    int32_t problem; /* then errno */
  } ends[TN_POSTS];
} tn_control_t;

/* How long to look before going to sleep.  Where looking was in vain, half as long the next time,
 * since whoever is waited for may want this very processor; every 16th time as long as at first,
 * since that may have changed. */
typedef struct tn_patience_t {
  int64_t most;
  int64_t now;    /* nanoseconds */
  uint32_t count; /* of times in vain */
} tn_patience_t;
static inline tn_patience_t tn_patience(int64_t most) { return (tn_patience_t){most, most, 0}; }

/* Waits while *word is `value`, asleep with *sleeps set; gives what it is then.  `until`: of
 * tn_now(), 0: for ever; past it `value` is given. */
uint32_t tn_bell_wait(uint32_t *word, uint32_t value, uint32_t *sleeps, tn_patience_t *patience,
                      int64_t until);
/* Makes it `to`, if it is `from`, and wakes who sleeps. */
bool tn_bell_ring(uint32_t *word, uint32_t from, uint32_t to, uint32_t *sleeps);
void tn_bell_wake(uint32_t *word);

/* Memory without a name that processes can share, as a descriptor that programs do not inherit. */
tenon_status_t tn_shared_create(uint64_t size, int *out_descriptor);
tenon_status_t tn_shared_map(int descriptor, uint64_t size, void **out_memory);
void tn_shared_unmap(void *memory, uint64_t size);
bool tn_shared_grow(int descriptor, uint64_t size);
void tn_shared_forget(int descriptor, uint64_t offset,
                      uint64_t size); /* its memory goes back to the system; it reads as 0 */
void tn_shared_close(int descriptor);

#endif
