/* The host's side of an isolated library: the supervisor, the worker processes, the memory that is
 * shared with them, and exchanges. An exchange is one call and its reply. Every function may be
 * called from any thread. Invariant: the host copies what a worker process wrote before it reads
 * the copy, and a worker process that dies, hangs or writes nonsense ends the exchange with an
 * error, never the host. */
#ifndef TN_ISOLATION_CLIENT_H
#define TN_ISOLATION_CLIENT_H

#include "base/text.h"
#include "base/thread.h"
#include "base/trust.h"
#include "isolation/heap.h"
#include "isolation/supervisor.h"
#include "isolation/wire.h"

/* The mailbox: memory shared with the worker processes. Reference-counted, because tensors in it
 * outlive the library. */
typedef struct tn_share_t {
  int64_t references;
  void *base;
  uint64_t size;
  int descriptor;
  tn_heap_t heap;
} tn_share_t;
void tn_share_retain(tn_share_t *share);
void tn_share_release(tn_share_t *share);
/* Returns: the offset of `size` bytes at `data` from the start of the share, or 0 if they lie
 * elsewhere. */
uint64_t tn_share_offset(const tn_share_t *share, const void *data, uint64_t size);

/* How a worker process ended, or why the host is ending it. */
typedef struct tn_end_t {
  uint32_t number; /* of the worker process; 0: none has ended */
  int32_t entry;   /* channel entry whose call ended the process; -1: unknown */
  tenon_status_t status;
  bool is_lost; /* the supervisor ended, so the reason is unknown */
  char text[1024];
} tn_end_t;

typedef struct tn_child_t {
  tn_mutex_t starting; /* held while the process starts; taken before all other locks */
  tn_mutex_t lock;     /* protects `kill` and `end` */
  /* Counts the processes started. Changes only while all channel entries are free. */
  uint32_t number;
  uint32_t is_alive; /* the process serves calls */
  /* bit i: channel entry i is free; threads that wait for an entry sleep on this word */
  uint32_t free;
  uint32_t waiting;
  tn_end_t kill;
  tn_end_t end;
  tn_spin_t spin[TN_CHANNEL_ENTRIES];
} tn_child_t;

typedef struct tn_client_t {
  tn_mutex_t lock; /* protects the supervisor, the share and the control block */
  tn_control_t wanted;
  tn_file_identity_t file; /* identity of the library's file when it was loaded */
  tn_control_t *control;
  int control_descriptor;
  tn_share_t *share;
  tn_supervisor_t supervisor;
  uint32_t epoch;   /* counts the supervisors started */
  int64_t deadline; /* of one call, in nanoseconds; 0: no limit */
  unsigned char *description;
  uint64_t description_size;
  tn_child_t children[TN_CHANNELS];
  struct tn_client_t *next; /* list of all clients */
} tn_client_t;

/* Creates a client and starts its first worker process. The error message says why a library cannot
 * be loaded. */
tenon_status_t tn_client_create(const tn_control_t *wanted, const tn_file_identity_t *file,
                                int64_t deadline, tn_client_t **out_client);
void tn_client_release(tn_client_t *client);
/* For the child after fork(): detaches from the parent's worker processes. The next call starts new
 * ones. */
void tn_clients_in_child(void);

/* A tensor that the operator writes to: its elements were copied to `offset` in the mailbox and are
 * copied back after the call. */
typedef struct tn_copied_t {
  tenon_tensor_t *tensor;
  uint64_t offset;
} tn_copied_t;
typedef struct tn_block_t { /* block of the shared heap, held for this exchange */
  uint64_t offset;
  uint64_t size;
  bool is_named; /* a result of the reply lies in it */
} tn_block_t;

typedef struct tn_exchange_t {
  tn_client_t *client;
  tn_child_t *child;
  tn_share_t *share;
  uint32_t index;
  uint32_t entry;
  uint32_t number;
  uint32_t epoch;
  const char *name; /* of the operator */
  int64_t until;    /* deadline in tn_now() time; 0: none */
  unsigned char *area;
  tn_wire_t call;  /* request, written between begin and call */
  tn_wire_t reply; /* copy of the reply in scratch memory, positioned after status and text */
  uint64_t staged; /* bytes in use in the entry's own space for small tensors */
  tn_block_t *blocks;
  tn_copied_t *copied;
  size_t block_count;
  size_t block_capacity;
  size_t copied_count;
  size_t copied_capacity;
  /* An argument that the operator writes to lies in the mailbox itself, so a failed call cannot be
   * repeated. */
  bool is_in_place;
  /* The exchange failed because another call ended the worker process. */
  bool is_bystander;
} tn_exchange_t;

/* Answers a question of the worker process: reads `ask` after its number, and writes to `out` what
 * follows the status. */
typedef tenon_status_t (*tn_answer_fn)(void *context, tn_exchange_t *x, uint64_t number,
                                       tn_wire_t *ask, tn_wire_t *out);

/* Takes a channel entry of a worker process. Starts the process if necessary. */
tenon_status_t tn_exchange_begin(tn_client_t *client, const char *name, tn_exchange_t *out);
tenon_status_t tn_exchange_call(tn_exchange_t *x, tn_answer_fn answer, void *context);
/* The same for the worker process numbered `number`. Returns: false if this process has ended. */
bool tn_exchange_begin_on(tn_client_t *client, uint32_t index, uint32_t number, const char *name,
                          tn_exchange_t *out);
/* Allocates memory in the mailbox until the end of the exchange. Returns: its offset, or 0 if there
 * is no space. */
uint64_t tn_exchange_allocate(tn_exchange_t *x, uint64_t size);
/* The same, always from the shared heap after the channels. */
uint64_t tn_exchange_allocate_block(tn_exchange_t *x, uint64_t size);
/* Notes that a result of the reply is the block at `offset`. Returns: false if the exchange has no
 * such block of at least `size` bytes, or another result is this block. */
bool tn_exchange_name(tn_exchange_t *x, uint64_t offset, uint64_t size);
/* Makes the caller the owner of the block at `offset`, which is then not freed at the end of the
 * exchange. Returns: false if the exchange has no such block. */
bool tn_exchange_keep(tn_exchange_t *x, uint64_t offset, uint64_t *out_size);
void tn_exchange_end(tn_exchange_t *x);

#endif
