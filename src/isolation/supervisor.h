/* The supervisor of an isolated library as the host sees it. The supervisor is the program
 * `isolate`: a process that has loaded libtenon and nothing else, forks and reaps the library's
 * worker processes, and ends them when the host ends in whatever way. Used by client.c. The
 * supervisor's own code is in isolate_posix.c. */
#ifndef TN_ISOLATION_SUPERVISOR_H
#define TN_ISOLATION_SUPERVISOR_H

#include "isolation/mailbox.h"

enum {
  TN_SUPERVISOR_START = 1,
  TN_SUPERVISOR_KILL = 2,
  /* The library of the worker process is loaded, so the process may no longer open files. */
  TN_SUPERVISOR_LOADED = 3,
};
typedef struct tn_supervisor_order_t {
  uint32_t verb;
  uint32_t child;
  uint32_t number;
} tn_supervisor_order_t;

/* Descriptors that the supervisor inherits. */
enum {
  TN_FD_ORDERS = 3,
  TN_FD_CONTROL,
  TN_FD_MAILBOX,
  TN_FD_OTHERS,
};

typedef struct tn_supervisor_t {
  int64_t process; /* 0: not running */
  int orders;
} tn_supervisor_t;

/* Finds the program `isolate` beside this binary, in an installation or a build folder. */
tenon_status_t tn_supervisor_find(char *out_path, size_t capacity);
/* Starts the supervisor. Errors: NOT_FOUND if the program is missing, with the folders that were
 * searched; UNAVAILABLE, with the system's reason. */
tenon_status_t tn_supervisor_start(int control, int mailbox, tn_supervisor_t *out_supervisor);
/* Sends an order. Returns: false if the supervisor has ended. */
bool tn_supervisor_order(const tn_supervisor_t *supervisor, uint32_t verb, uint32_t child,
                         uint32_t number);
bool tn_supervisor_is_alive(tn_supervisor_t *supervisor);
/* Ends the supervisor and its worker processes, and waits for the end. */
void tn_supervisor_stop(tn_supervisor_t *supervisor);
/* For the child after fork(), which has no supervisor: closes the parent's socket. */
void tn_supervisor_forget(tn_supervisor_t *supervisor);
int32_t tn_process_id(void);

#endif
