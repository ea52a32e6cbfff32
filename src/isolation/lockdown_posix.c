/* The order in which a worker process restricts itself on Linux. Each step needs rights that a
 * later one takes away. */
#include "isolation/lockdown.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <malloc.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include "isolation/crash.h"
#include "isolation/filter.h"
#include "isolation/gate.h"
#include "isolation/landlock.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 }; /* sanitizers map terabytes */
#else
enum { SANITIZED = 0 };
#endif

enum {
  OPEN_MOST = 256,
  ARENAS_MOST = 8,
};
#define STACK_MOST ((uint64_t)64 << 20)
/* Addresses beyond the memory limit: for stacks of threads and reserves of the allocator, which use
 * no memory. */
#define ADDRESSES_MORE ((uint64_t)2 << 30)

static bool set_limit(int what, uint64_t most) {
  struct rlimit now, less;
  if (getrlimit((__rlimit_resource_t)what, &now) != 0) return false;
  less.rlim_max = less.rlim_cur = now.rlim_max < most ? now.rlim_max : most;
  if (now.rlim_cur < less.rlim_cur) less.rlim_cur = now.rlim_cur;
  return setrlimit((__rlimit_resource_t)what, &less) == 0;
}

/* RLIMIT_DATA counts private memory that can be written to. Memory that was written to and is then
 * made read-only is not counted, so RLIMIT_AS bounds all mappings as well. */
static bool limit_resources(const tn_control_t *control) {
  uint64_t addresses;
  const uint64_t used = tn_memory_used(&addresses); /* both 0 without /proc */
  /* Each arena of the C library's allocator reserves addresses. */
  mallopt(M_ARENA_MAX, ARENAS_MOST);
  if (!set_limit(RLIMIT_CORE, 0) || !set_limit(RLIMIT_NOFILE, OPEN_MOST)) return false;
  if (!set_limit(RLIMIT_MSGQUEUE, 0)) return false;
  if (SANITIZED) return true;
  if (!set_limit(RLIMIT_STACK, STACK_MOST)) return false;
  if (!set_limit(RLIMIT_DATA, used + control->memory)) return false;
  return !addresses || set_limit(RLIMIT_AS, addresses + control->memory + ADDRESSES_MORE);
}

/* Gives up the capabilities of root, except that of opening files. Execution cannot bring them
 * back, because the process has no new privileges. */
static bool drop_capabilities(uint32_t allow) {
  struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct sets[2];
  uint32_t kept = 1u << CAP_DAC_READ_SEARCH;
  if (allow & TENON_ALLOW_WRITE) kept |= 1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER;
  if (syscall(SYS_capget, &head, sets) != 0) return false;
  for (int i = 0; i < 2; i++) {
    const uint32_t mask = i == 0 ? kept : 0;
    sets[i].effective &= mask;
    sets[i].permitted &= mask;
    sets[i].inheritable = 0;
  }
  return syscall(SYS_capset, &head, sets) == 0;
}

/* Makes the table of descriptors as large as it can become. A call that has to enlarge it waits
 * long in the kernel, past the filter, and could give a descriptor after the others have been
 * closed. */
static void enlarge_table(void) {
  const int last = dup2(STDIN_FILENO, OPEN_MOST - 1);
  if (last >= 0) close(last);
}

bool tn_lockdown_begin(const tn_control_t *control, int gate) {
  enlarge_table();
  const bool is_restricted = limit_resources(control) &&
                             prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                             tn_landlock_restrict(control) && drop_capabilities(control->allow);
  if (is_restricted) return tn_gate_enter(gate, control) && tn_filter_install(control, true);
  if (gate >= 0) close(gate);
  return false;
}

/* A local socket may hold descriptors that were sent to it. */
static bool is_local_socket(int descriptor) {
  int domain = AF_UNIX;
  socklen_t size = sizeof domain;
  return getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain == AF_UNIX;
}

/* May this descriptor stay open, by what the library is allowed to do at any time? */
static bool may_stay_open(int descriptor, uint32_t allow) {
  struct stat about;
  if (allow & TENON_ALLOW_READ) return true;
  if (fstat(descriptor, &about) != 0) return false;
  if (S_ISSOCK(about.st_mode)) return allow & TENON_ALLOW_NETWORK && !is_local_socket(descriptor);
  const int flags = fcntl(descriptor, F_GETFL);
  return allow & TENON_ALLOW_WRITE && flags >= 0 && (flags & O_ACCMODE) == O_WRONLY;
}

/* Returns: whether there were descriptors to close. */
static bool close_descriptors(uint32_t allow) {
  bool some = false;
  /* No descriptor can have a higher number. */
  for (int i = STDERR_FILENO + 1; i < OPEN_MOST; i++)
    if (!may_stay_open(i, allow)) some |= close(i) == 0;
  return some;
}

tn_lockdown_t tn_lockdown_finish(const tn_control_t *control) {
  enum { ROUNDS_MOST = 8 };
  if (!tn_filter_install(control, false)) return TN_LOCKDOWN_REFUSED;
  if (!tn_filter_is_final()) return TN_LOCKDOWN_EVADED;
  /* A thread of the library that had passed the filter before may get one more descriptor. */
  for (int i = 0; close_descriptors(control->allow) && i < ROUNDS_MOST; i++)
    sched_yield();
  return TN_LOCKDOWN_DONE;
}
