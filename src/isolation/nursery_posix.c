/* The program `isolate`: the keeper, and its children's first steps.  It is never trusted with a
 * library's code itself. Invariant: when it ends, in whatever way, the system kills its children
 * (PR_SET_PDEATHSIG; it has one thread only), and it ends when the host does: the socket is at its
 * end, or the host's process is. */
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

#include "isolation/keeper.h"
#include "isolation/worker.h"

typedef struct nursery_t {
  tn_control_t *control;
  void *mailbox;
  int signals;
  int host; /* descriptors; host: -1: the system has no such thing */
  pid_t children[TN_POSTS];
  uint32_t numbers[TN_POSTS];
} nursery_t;

static void close_from(int first) {
  if (syscall(SYS_close_range, first, ~0u, 0) == 0) return;
  for (int i = first; i < 4096; i++)
    close(i);
}

/* Whoever waits for the child sees it, whatever it waits for. */
static void report(nursery_t *n, uint32_t child, int status, int problem) {
  tn_post_t *post = tn_post(n->mailbox, child);
  n->control->ends[child].status = status;
  n->control->ends[child].problem = problem;
  __atomic_store_n(&n->control->ends[child].dead, n->numbers[child], __ATOMIC_SEQ_CST);
  tn_bell_wake(&n->control->ends[child].dead);
  __atomic_store_n(&post->start.state, TN_SLOT_DEAD, __ATOMIC_SEQ_CST);
  tn_bell_wake(&post->start.state);
  for (int i = 0; i < TN_SLOTS; i++) {
    __atomic_store_n(&post->slots[i].state, TN_SLOT_DEAD, __ATOMIC_SEQ_CST);
    tn_bell_wake(&post->slots[i].state);
  }
  __atomic_store_n(&n->control->ends[child].told, n->numbers[child], __ATOMIC_SEQ_CST);
  tn_bell_wake(&n->control->ends[child].told);
  n->children[child] = 0;
}

/* What it may have started is of its group. */
static void reap(nursery_t *n) {
  for (uint32_t i = 0; i < n->control->child_count; i++) {
    siginfo_t info = {0};
    int status = 0;
    if (!n->children[i] ||
        waitid(P_PID, (id_t)n->children[i], &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        !info.si_pid)
      continue;
    kill(-n->children[i], SIGKILL);
    waitpid(n->children[i], &status, 0);
    report(n, i, status, 0);
  }
  while (waitpid(-1, NULL, WNOHANG) > 0) {
  } /* orphans of theirs */
}

static void become_child(nursery_t *n, uint32_t child, pid_t keeper) {
  static tn_control_t control; /* a copy: the child has no hold of the original */
  sigset_t none;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != keeper) _exit(1);
  setpgid(0, 0);
  prctl(PR_SET_NAME, "tenon-isolated");
  memcpy(&control, n->control, sizeof control);
  tn_shared_unmap(n->control, sizeof *n->control);
  close_from(TN_FD_ORDERS);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  tn_worker_run(n->mailbox, child, &control);
  _exit(1);
}

static void start(nursery_t *n, uint32_t child, uint32_t number) {
  n->numbers[child] = number;
  const pid_t keeper = getpid();
  const pid_t made = fork();
  if (made == 0) become_child(n, child, keeper);
  if (made < 0)
    report(n, child, -1, errno);
  else
    n->children[child] = made;
}

static bool obey(nursery_t *n) { /* false: the host has gone */
  tn_keeper_order_t order;
  ssize_t size = recv(TN_FD_ORDERS, &order, sizeof order, 0);
  if (size < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (size != sizeof order) return false;
  if (order.child >= n->control->child_count) return true;
  if (order.verb == TN_KEEPER_START && !n->children[order.child])
    start(n, order.child, order.number);
  if (order.verb == TN_KEEPER_KILL && n->children[order.child] &&
      n->numbers[order.child] == order.number) {
    kill(-n->children[order.child], SIGKILL);
    kill(n->children[order.child], SIGKILL);
  }
  return true;
}

static void serve(nursery_t *n) {
  struct pollfd polled[3] = {
      {TN_FD_ORDERS, POLLIN, 0}, {n->signals, POLLIN, 0}, {n->host, POLLIN, 0}};
  struct signalfd_siginfo info;
  for (;;) {
    if (poll(polled, n->host < 0 ? 2 : 3, -1) < 0 && errno != EINTR) return;
    if (n->host >= 0 && polled[2].revents) return;
    if (polled[1].revents && read(n->signals, &info, sizeof info) > 0) reap(n);
    if (polled[0].revents && !obey(n)) return;
  }
}

int tenon_isolate_main(void) {
  nursery_t n = {.host = -1};
  void *control, *mailbox;
  sigset_t child;
  close_from(TN_FD_OTHERS);
  prctl(PR_SET_NAME, "tenon-keeper");
  if (tn_shared_map(TN_FD_CONTROL, sizeof *n.control, &control) != TENON_OK) {
    fprintf(stderr, "isolate: this program runs isolated libraries of Tenon, and is started by "
                    "libtenon alone\n");
    return 2;
  }
  n.control = control;
  if (n.control->size != sizeof *n.control || strcmp(n.control->version, tenon_version()) != 0 ||
      tn_shared_map(TN_FD_MAILBOX, n.control->mailbox_size, &mailbox) != TENON_OK)
    return 2;
  n.mailbox = mailbox;
#if defined(SYS_pidfd_open)
  n.host = (int)syscall(SYS_pidfd_open, n.control->host, 0);
#endif
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, NULL);
  n.signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
  if (n.signals < 0 || tenon_start() != TENON_OK) return 2;
  serve(&n);
  for (uint32_t i = 0; i < n.control->child_count; i++) {
    if (!n.children[i]) continue;
    kill(-n.children[i], SIGKILL);
    kill(n.children[i], SIGKILL);
    waitpid(n.children[i], NULL, 0);
  }
  return 0;
}
