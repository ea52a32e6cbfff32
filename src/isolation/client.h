/* The host's end of an isolated library: its keeper and children, the memory that is shared with
 * them, and exchanges: one call, one reply.  Any thread.  Invariant: what a child wrote is copied
 * before it is read, and a child that dies, hangs or writes nonsense ends the exchange with an
 * error, never the host. */
#ifndef TN_ISOLATION_CLIENT_H
#define TN_ISOLATION_CLIENT_H

#include "base/text.h"
#include "base/thread.h"
#include "base/trust.h"
#include "isolation/room.h"
#include "isolation/keeper.h"
#include "isolation/wire.h"

typedef struct tn_share_t { /* the mailbox; tensors in it hold it, too */
  int64_t references;
  void *base;
  uint64_t size;
  int descriptor;
  tn_room_t room;
} tn_share_t;
void tn_share_retain(tn_share_t *share);
void tn_share_release(tn_share_t *share);
/* Where `size` bytes at `data` lie in it; 0: elsewhere. */
uint64_t tn_share_offset(const tn_share_t *share, const void *data, uint64_t size);

typedef struct tn_end_t { /* how a child ended, or is being ended */
  uint32_t number;        /* of the child; 0: none did */
  int32_t slot;           /* of the call that is to blame; -1: not known */
  tenon_status_t status;
  bool is_lost; /* the keeper ended, and nobody knows how */
  char text[1024];
} tn_end_t;

typedef struct tn_child_t {
  tn_mutex_t starting; /* held while it is started; taken before the others */
  tn_mutex_t lock;     /* of kill and end */
  uint32_t number;     /* of the process, counted up; changes only while all slots are free */
  uint32_t is_alive;   /* it serves calls */
  uint32_t free;       /* bit i: slot i; those who wait for one sleep on it */
  uint32_t waiting;
  tn_end_t kill;
  tn_end_t end;
  tn_patience_t patience[TN_SLOTS];
} tn_child_t;

typedef struct tn_client_t {
  tn_mutex_t lock; /* of the keeper, share and control */
  tn_control_t wanted;
  tn_file_identity_t file; /* the library, as it was when it was looked at */
  tn_control_t *control;
  int control_descriptor;
  tn_share_t *share;
  tn_keeper_t keeper;
  uint32_t epoch;   /* counts keepers */
  int64_t deadline; /* of a call, nanoseconds; 0: none */
  unsigned char *description;
  uint64_t description_size;
  tn_child_t children[TN_POSTS];
  struct tn_client_t *next; /* all of them */
} tn_client_t;

/* Starts the first child.  The message says why a library does not load. */
tenon_status_t tn_client_create(const tn_control_t *wanted, const tn_file_identity_t *file,
                                int64_t deadline, tn_client_t **out_client);
void tn_client_release(tn_client_t *client);
void tn_clients_in_child(
    void); /* of fork: children are the parent's, and new ones are started by the next call */

typedef struct
    /* a tensor that is written to: its elements are in the mailbox, and copied back */
    tn_placed_t {
  tenon_tensor_t *tensor;
  uint64_t offset;
} tn_placed_t;
typedef struct tn_block_t { /* of the room, for this exchange */
  uint64_t offset;
  uint64_t size;
} tn_block_t;

typedef struct tn_exchange_t {
  tn_client_t *client;
  tn_child_t *child;
  tn_share_t *share;
  uint32_t index;
  uint32_t slot;
  uint32_t number;
  uint32_t epoch;
  const char *name; /* of the operator */
  int64_t until;    /* 0: for ever */
  unsigned char *area;
  tn_wire_t call;  /* is written between begin and call */
  tn_wire_t reply; /* a copy, in scratch memory: behind status and text */
  uint64_t staged; /* bytes of the slot's own room in use */
  tn_block_t *blocks;
  tn_placed_t *placed;
  size_t block_count;
  size_t block_capacity;
  size_t placed_count;
  size_t placed_capacity;
  bool is_in_place;  /* what it writes to is in the mailbox already: it cannot be tried again */
  bool is_bystander; /* it failed since the child ended in another call */
} tn_exchange_t;

/* Answers a question: reads `ask` behind its number, writes what follows the status. */
typedef tenon_status_t (*tn_answer_fn)(void *context, tn_exchange_t *x, uint64_t number,
                                       tn_wire_t *ask, tn_wire_t *out);

/* Takes a slot of a child, which is started if need be. */
tenon_status_t tn_exchange_begin(tn_client_t *client, const char *name, tn_exchange_t *out);
tenon_status_t tn_exchange_call(tn_exchange_t *x, tn_answer_fn answer, void *context);
/* The same of the child that has that number, if it is there. */
bool tn_exchange_begin_on(tn_client_t *client, uint32_t index, uint32_t number, const char *name,
                          tn_exchange_t *out);
/* Room in the mailbox until the end of the exchange; 0: there is none. */
uint64_t tn_exchange_room(tn_exchange_t *x, uint64_t size);
uint64_t tn_exchange_block(tn_exchange_t *x,
                           uint64_t size); /* the same, of the room behind the posts */
/* The block at that offset, which is no longer freed with the exchange; false: there is none of
 * that many bytes. */
bool tn_exchange_keep(tn_exchange_t *x, uint64_t offset, uint64_t size, uint64_t *out_size);
void tn_exchange_end(tn_exchange_t *x);

#endif
