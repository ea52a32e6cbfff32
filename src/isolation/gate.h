/* The gate of a worker process: system calls that the kernel stops until the supervisor answers
 * (seccomp user notification, Linux 5.7). While the library is being loaded, the supervisor lets
 * the process open files. Afterwards the final filter refuses this; if a call arrives
 * nevertheless, the library has replaced the final filter, and the supervisor ends the process.
 * At all times the supervisor counts threads. Invariant: no answer depends on the arguments of a
 * call or on memory of the worker process, so the library cannot change them between the
 * question and the answer. */
#ifndef TN_ISOLATION_GATE_H
#define TN_ISOLATION_GATE_H

#include "isolation/mailbox.h"

typedef struct tn_gate_t {
  int channel;   /* socket to the worker process, until it has sent the listener; -1: none */
  int listener;  /* descriptor on which calls arrive; -1: none */
  bool is_ended; /* the worker process made a call that its final filter refuses */
  bool is_loaded;
} tn_gate_t;

/* In the supervisor, before it forks a worker process. Returns: the worker's end of the channel, or
 * -1 if the system refuses; the process then has no gate. */
int tn_gate_create(tn_gate_t *gate);
/* In the worker process: installs the gate and sends its listener through `channel`, which is
 * closed. */
bool tn_gate_enter(int channel, const tn_control_t *control);
/* In the supervisor: the descriptor that it polls, or -1. */
int tn_gate_descriptor(const tn_gate_t *gate);
/* In the supervisor: takes what has arrived for worker process `process`. Returns: false if the
 * process must be ended. */
bool tn_gate_serve(tn_gate_t *gate, int32_t process, const tn_control_t *control);
void tn_gate_close(tn_gate_t *gate);

#endif
