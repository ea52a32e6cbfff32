/* Starts, commands and stops the supervisor process of an isolated library on POSIX systems. The
 * socket to the supervisor carries the orders, and its end ends the supervisor. */
#include "isolation/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"

enum {
  PATH_SIZE = 4096,
  /* Inherited descriptors are first copied to numbers from here on, so that dup2 to the low numbers
   * overwrites none of them. */
  LEAST_DESCRIPTOR = 16,
};

tenon_status_t tn_supervisor_find(char *out_path, size_t capacity) {
  static const char *const relative_paths[] = {"isolate", "libexec/tenon/isolate",
                                               "../libexec/tenon/isolate",
                                               "../../libexec/tenon/isolate"};
  char own[PATH_SIZE];
  if (!tn_file_of_address((const void *)relative_paths, own, sizeof own)) own[0] = 0;
  const char *slash = strrchr(own, '/');
  const int folder = slash ? (int)(slash - own) : 0;
  for (size_t i = 0; i < sizeof relative_paths / sizeof *relative_paths; i++) {
    int size = snprintf(out_path, capacity, "%.*s/%s", folder, own, relative_paths[i]);
    if (size > 0 && (size_t)size < capacity && tn_file_exists(out_path)) return TENON_OK;
  }
  return tn_fail(TENON_NOT_FOUND,
                 "the program isolate, in which isolated libraries run, was not found in ., "
                 "libexec/tenon, ../libexec/tenon or ../../libexec/tenon of %.*s: reinstall Tenon, "
                 "or build the target isolate",
                 folder, own);
}

static int spawn_with(const char *path, const int *descriptors, pid_t *out_process) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t none, all;
  char *const arguments[] = {(char *)(uintptr_t) "tenon-isolate", NULL};
  sigemptyset(&none);
  sigfillset(&all);
  int problem = posix_spawn_file_actions_init(&actions);
  if (problem) return problem;
  if ((problem = posix_spawnattr_init(&attributes))) {
    posix_spawn_file_actions_destroy(&actions);
    return problem;
  }
  problem = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  for (int i = 0; i < TN_FD_OTHERS - TN_FD_ORDERS && !problem; i++)
    problem = posix_spawn_file_actions_adddup2(&actions, descriptors[i], TN_FD_ORDERS + i);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0); /* keeps a terminal's signals from the supervisor */
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  char **environment = tn_environment_of_strangers();
  if (!environment) problem = ENOMEM;
  if (!problem)
    problem = posix_spawn(out_process, path, &actions, &attributes, arguments, environment);
  tn_release_memory(environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return problem;
}

tenon_status_t tn_supervisor_start(int control, int mailbox, tn_supervisor_t *out_supervisor) {
  char path[PATH_SIZE];
  int pair[2], high[3];
  pid_t process = 0;
  TN_TRY(tn_supervisor_find(path, sizeof path));
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    return tn_fail(TENON_UNAVAILABLE,
                   "cannot create a socket for the supervisor of an isolated library: %s",
                   strerror(errno));
  const int low[3] = {pair[1], control, mailbox};
  int problem = 0;
  for (int i = 0; i < 3; i++)
    if ((high[i] = fcntl(low[i], F_DUPFD_CLOEXEC, LEAST_DESCRIPTOR)) < 0) problem = errno;
  if (!problem) problem = spawn_with(path, high, &process);
  for (int i = 0; i < 3; i++)
    if (high[i] >= 0) close(high[i]);
  close(pair[1]);
  if (problem) {
    close(pair[0]);
    return tn_fail(TENON_UNAVAILABLE, "cannot run '%s': %s", path, strerror(problem));
  }
  *out_supervisor = (tn_supervisor_t){process, pair[0]};
  return TENON_OK;
}

bool tn_supervisor_order(const tn_supervisor_t *supervisor, uint32_t verb, uint32_t child,
                         uint32_t number) {
  const tn_supervisor_order_t order = {verb, child, number};
  if (!supervisor->process) return false;
  ssize_t sent;
  do
    sent = send(supervisor->orders, &order, sizeof order, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent == sizeof order;
}

bool tn_supervisor_is_alive(tn_supervisor_t *supervisor) {
  char byte;
  if (!supervisor->process) return false;
  ssize_t got = recv(supervisor->orders, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

static void wait_for_end(pid_t process) {
  while (waitpid(process, NULL, 0) < 0 && errno == EINTR) {
  }
}

void tn_supervisor_stop(tn_supervisor_t *supervisor) {
  if (!supervisor->process) return;
  /* The supervisor ends its worker processes and then itself. A shutdown reaches it even if copies
   * of the socket exist. */
  shutdown(supervisor->orders, SHUT_RDWR);
  close(supervisor->orders);
  wait_for_end((pid_t)supervisor->process);
  *supervisor = (tn_supervisor_t){0, -1};
}

void tn_supervisor_forget(tn_supervisor_t *supervisor) {
  if (supervisor->process) close(supervisor->orders);
  *supervisor = (tn_supervisor_t){0, -1};
}

int32_t tn_process_id(void) { return getpid(); }
