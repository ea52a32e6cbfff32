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

#include "isolation/supervisor.h"
#include "isolation/worker.h"

typedef struct supervisor_t {
  tn_control_t *control;
  void *mailbox;
  int signals; /* descriptor of SIGCHLD (signalfd) */
  int host;    /* descriptor of the host's process; -1: the kernel has no pidfd_open */
  pid_t children[TN_CHANNELS];
  uint32_t numbers[TN_CHANNELS];
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
    report_end(s, i, status, 0);
  }
  while (waitpid(-1, NULL, WNOHANG) > 0) {
    /* an orphan that a worker process left */
  }
}

static void become_child(supervisor_t *s, uint32_t child, pid_t supervisor) {
  static tn_control_t control; /* a copy, because the worker process must not reach the original */
  sigset_t none;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != supervisor) _exit(1);
  setpgid(0, 0);
  prctl(PR_SET_NAME, "tenon-isolated");
  memcpy(&control, s->control, sizeof control);
  tn_shared_unmap(s->control, sizeof *s->control);
  close_from(TN_FD_ORDERS);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  tn_worker_run(s->mailbox, child, &control);
  _exit(1);
}

static void fork_child(supervisor_t *s, uint32_t child, uint32_t number) {
  s->numbers[child] = number;
  const pid_t supervisor = getpid();
  const pid_t made = fork();
  if (made == 0) become_child(s, child, supervisor);
  if (made < 0)
    report_end(s, child, -1, errno);
  else
    s->children[child] = made;
}

/* Executes one order. Returns: false if the host has ended. */
static bool execute_order(supervisor_t *s) {
  tn_supervisor_order_t order;
  ssize_t size = recv(TN_FD_ORDERS, &order, sizeof order, 0);
  if (size < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (size != sizeof order) return false;
  if (order.child >= s->control->child_count) return true;
  if (order.verb == TN_SUPERVISOR_START && !s->children[order.child])
    fork_child(s, order.child, order.number);
  if (order.verb == TN_SUPERVISOR_KILL && s->children[order.child] &&
      s->numbers[order.child] == order.number) {
    kill(-s->children[order.child], SIGKILL);
    kill(s->children[order.child], SIGKILL);
  }
  return true;
}

static void serve_orders(supervisor_t *s) {
  struct pollfd polled[3] = {
      {TN_FD_ORDERS, POLLIN, 0}, {s->signals, POLLIN, 0}, {s->host, POLLIN, 0}};
  struct signalfd_siginfo info;
  for (;;) {
    if (poll(polled, s->host < 0 ? 2 : 3, -1) < 0 && errno != EINTR) return;
    if (s->host >= 0 && polled[2].revents) return;
    if (polled[1].revents && read(s->signals, &info, sizeof info) > 0) reap_children(s);
    if (polled[0].revents && !execute_order(s)) return;
  }
}

int tenon_isolate_main(void) {
  supervisor_t s = {.host = -1};
  void *control, *mailbox;
  sigset_t child;
  close_from(TN_FD_OTHERS);
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
    kill(-s.children[i], SIGKILL);
    kill(s.children[i], SIGKILL);
    waitpid(s.children[i], NULL, 0);
  }
  return 0;
}
