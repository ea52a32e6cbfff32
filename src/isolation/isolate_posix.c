/* The program `isolate`: the supervisor of an isolated library's worker processes, up to their
 * first steps. The supervisor itself never runs code of the library. Invariant: it ends when the
 * host does, which it sees from its socket and from a descriptor of the host's process; and when it
 * ends in whatever way, the kernel kills its worker processes (PR_SET_PDEATHSIG, which is reliable
 * because the supervisor has one thread). */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include "base/environment_check.h"
#include "isolation/gate.h"
#include "isolation/supervisor.h"
#include "isolation/worker.h"

typedef struct supervisor_t {
  tn_control_t *control;
  void *mailbox;
  int signals; /* descriptor of SIGCHLD (signalfd) */
  int host;    /* descriptor of the host's process; -1: the kernel has no pidfd_open */
  pid_t children[TN_CHANNELS];
  uint32_t numbers[TN_CHANNELS];
  tn_gate_t gates[TN_CHANNELS];
} supervisor_t;

static void close_from(int first) {
  if (syscall(SYS_close_range, first, ~0u, 0) == 0) return;
  for (int i = first; i < 4096; i++)
    close(i);
}

/* Marks the doorbells of the channel as DEAD and wakes all waiters. */
static void report_end(supervisor_t *s, uint32_t child, int status, int problem) {
  tn_channel_t *channel = tn_channel(s->mailbox, child);
  s->control->ends[child].status = status;
  s->control->ends[child].problem = problem;
  __atomic_store_n(&s->control->ends[child].dead, s->numbers[child], __ATOMIC_SEQ_CST);
  tn_doorbell_wake(&s->control->ends[child].dead);
  __atomic_store_n(&channel->start.state, TN_ENTRY_DEAD, __ATOMIC_SEQ_CST);
  tn_doorbell_wake(&channel->start.state);
  for (int i = 0; i < TN_CHANNEL_ENTRIES; i++) {
    __atomic_store_n(&channel->entries[i].state, TN_ENTRY_DEAD, __ATOMIC_SEQ_CST);
    tn_doorbell_wake(&channel->entries[i].state);
  }
  __atomic_store_n(&s->control->ends[child].told, s->numbers[child], __ATOMIC_SEQ_CST);
  tn_doorbell_wake(&s->control->ends[child].told);
  s->children[child] = 0;
}

/* Reaps ended worker processes. Processes that they started belong to their process group and are
 * killed, too. */
static void reap_children(supervisor_t *s) {
  for (uint32_t i = 0; i < s->control->child_count; i++) {
    siginfo_t info = {0};
    int status = 0;
    if (!s->children[i] ||
        waitid(P_PID, (id_t)s->children[i], &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        !info.si_pid)
      continue;
    kill(-s->children[i], SIGKILL);
    waitpid(s->children[i], &status, 0);
    tn_gate_close(&s->gates[i]);
    report_end(s, i, status, s->gates[i].is_ended ? TN_END_UNRESTRICTED : 0);
  }
  while (waitpid(-1, NULL, WNOHANG) > 0) {
    /* an orphan that a worker process left */
  }
}

static void become_child(supervisor_t *s, uint32_t child, pid_t supervisor, int gate) {
  static tn_control_t control; /* a copy, because the worker process must not reach the original */
  sigset_t none;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != supervisor) _exit(1);
  setpgid(0, 0);
  prctl(PR_SET_NAME, "tenon-isolated");
  memcpy(&control, s->control, sizeof control);
  tn_shared_unmap(s->control, sizeof *s->control);
  /* The gate's channel is the only descriptor that the worker process inherits, and closed before
   * the library is loaded. */
  if (gate >= 0) gate = dup2(gate, TN_FD_ORDERS);
  close_from(gate < 0 ? TN_FD_ORDERS : TN_FD_ORDERS + 1);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  tn_worker_run(s->mailbox, child, &control, gate);
  _exit(1);
}

static void fork_child(supervisor_t *s, uint32_t child, uint32_t number) {
  s->numbers[child] = number;
  const pid_t supervisor = getpid();
  const int gate = tn_gate_create(&s->gates[child]);
  const pid_t made = fork();
  if (made == 0) become_child(s, child, supervisor, gate);
  const int problem = errno;
  if (gate >= 0) close(gate);
  if (made < 0) {
    tn_gate_close(&s->gates[child]);
    report_end(s, child, -1, problem);
  } else {
    s->children[child] = made;
  }
}

static void kill_child(const supervisor_t *s, uint32_t child) {
  kill(-s->children[child], SIGKILL);
  kill(s->children[child], SIGKILL);
}

static void execute_order(supervisor_t *s, tn_supervisor_order_t order) {
  if (order.child >= s->control->child_count) return;
  if (order.verb == TN_SUPERVISOR_START && !s->children[order.child])
    fork_child(s, order.child, order.number);
  const bool is_running = s->children[order.child] && s->numbers[order.child] == order.number;
  if (order.verb == TN_SUPERVISOR_KILL && is_running) kill_child(s, order.child);
  if (order.verb == TN_SUPERVISOR_LOADED && is_running) s->gates[order.child].is_loaded = true;
}

/* Executes all orders that have arrived. Returns: false if the host has ended. */
static bool execute_orders(supervisor_t *s) {
  for (;;) {
    tn_supervisor_order_t order;
    const ssize_t size = recv(TN_FD_ORDERS, &order, sizeof order, MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (size != sizeof order) return false;
    execute_order(s, order);
  }
}

static void serve_gates(supervisor_t *s, const struct pollfd *polled) {
  for (uint32_t i = 0; i < s->control->child_count; i++) {
    if (!polled[i].revents || polled[i].fd != tn_gate_descriptor(&s->gates[i])) continue;
    if (!tn_gate_serve(&s->gates[i], s->children[i], s->control)) kill_child(s, i);
  }
}

static void serve_orders(supervisor_t *s) {
  enum {
    SIGNALS = 1,
    HOST,
    GATES,
  };
  struct pollfd polled[GATES + TN_CHANNELS] = {
      {TN_FD_ORDERS, POLLIN, 0}, {s->signals, POLLIN, 0}, {s->host, POLLIN, 0}};
  struct signalfd_siginfo info;
  const uint32_t count = s->control->child_count;
  for (;;) {
    /* poll ignores an entry whose descriptor is negative */
    for (uint32_t i = 0; i < count; i++)
      polled[GATES + i] =
          (struct pollfd){s->gates[i].is_ended ? -1 : tn_gate_descriptor(&s->gates[i]), POLLIN, 0};
    if (poll(polled, GATES + count, -1) < 0) {
      if (errno != EINTR) return;
      continue;
    }
    if (polled[HOST].revents) return;
    /* The order that says that a library is loaded was sent before any call of this library, so it
     * is taken before what a call does at the gate. */
    if (!execute_orders(s)) return;
    serve_gates(s, polled + GATES);
    if (polled[SIGNALS].revents && read(s->signals, &info, sizeof info) > 0) reap_children(s);
  }
}

int tenon_isolate_main(void) {
  supervisor_t s = {.host = -1};
  for (uint32_t i = 0; i < TN_CHANNELS; i++)
    s.gates[i] = (tn_gate_t){-1, -1, false, false};
  void *control, *mailbox;
  sigset_t child;
  close_from(TN_FD_OTHERS);
  tn_environment_silence();
  prctl(PR_SET_NAME, "tenon-isolate");
  if (tn_shared_map(TN_FD_CONTROL, sizeof *s.control, &control) != TENON_OK) {
    fprintf(stderr,
            "isolate: this program runs isolated libraries of Tenon; only libtenon can start it\n");
    return 2;
  }
  s.control = control;
  if (s.control->size != sizeof *s.control || strcmp(s.control->version, tenon_version()) != 0 ||
      tn_shared_map(TN_FD_MAILBOX, s.control->mailbox_size, &mailbox) != TENON_OK)
    return 2;
  s.mailbox = mailbox;
#if defined(SYS_pidfd_open)
  s.host = (int)syscall(SYS_pidfd_open, s.control->host, 0);
#endif
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, NULL);
  s.signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
  if (s.signals < 0 || tenon_start() != TENON_OK) return 2;
  serve_orders(&s);
  for (uint32_t i = 0; i < s.control->child_count; i++) {
    if (!s.children[i]) continue;
    kill_child(&s, i);
    waitpid(s.children[i], NULL, 0);
  }
  return 0;
}
