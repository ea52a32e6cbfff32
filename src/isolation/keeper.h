/* The keeper: a process of ours between a host and the processes of one isolated library.  It has
 * loaded libtenon and nothing else, starts children as copies of itself, reaps them, and ends them
 * all when the host ends in whatever way. Used by client.c; the keeper's own side is
 * nursery_posix.c. */
#ifndef TN_ISOLATION_KEEPER_H
#define TN_ISOLATION_KEEPER_H

#include "isolation/mailbox.h"

enum {
  TN_KEEPER_START = 1,
  TN_KEEPER_KILL = 2,
};
typedef struct tn_keeper_order_t {
  uint32_t verb;
  uint32_t child;
  uint32_t number;
} tn_keeper_order_t;

enum {
  TN_FD_ORDERS = 3,
  TN_FD_CONTROL,
  TN_FD_MAILBOX,
  TN_FD_OTHERS,
}; /* descriptors that the keeper begins with */

typedef struct tn_keeper_t {
  int64_t process; /* 0: there is none */
  int orders;
} tn_keeper_t;

/* The program, beside this binary, installed or in a build folder. */
tenon_status_t tn_keeper_find(char *out_path, size_t capacity);
/* Starts the program `isolate`.  Errors: NOT_FOUND, with the places; UNAVAILABLE, with the system's
 * reason. */
tenon_status_t tn_keeper_start(int control, int mailbox, tn_keeper_t *out_keeper);
bool tn_keeper_order(const tn_keeper_t *keeper, uint32_t verb, uint32_t child,
                     uint32_t number); /* false: it is gone */
bool tn_keeper_is_alive(tn_keeper_t *keeper);
/* Ends it and its children, and waits for that. */
void tn_keeper_stop(tn_keeper_t *keeper);
/* In a child of fork, which has none: forgets it. */
void tn_keeper_forget(tn_keeper_t *keeper);
int32_t tn_process_id(void);

#endif
