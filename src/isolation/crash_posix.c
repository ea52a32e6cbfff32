/* The signal handlers of a worker process, and the host's description of the report that they
 * write. The handlers run on a signal stack and use async-signal-safe functions only. */
#include "isolation/crash.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/thread.h"
#include "isolation/filter.h"

static tn_crash_t *report;
static _Thread_local int entry_index = -1;
static _Thread_local uintptr_t stack_low;

uint64_t tn_memory_used(uint64_t *out_addresses) {
  unsigned long addresses = 0;
  unsigned long data = 0;
  const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  FILE *file = fopen("/proc/self/statm", "re");
  if (file && fscanf(file, "%lu %*u %*u %*u %*u %lu", &addresses, &data) != 2) addresses = data = 0;
  if (file) fclose(file);
  *out_addresses = addresses * page;
  return data * page;
}

/* Returns: the most memory that the process has used so far. No file can be opened any more, and no
 * descriptor is kept, because the library could replace it. */
static uint64_t most_memory(void) {
  struct rusage usage;
  return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0;
}

enum { ARGUMENTS = 4 }; /* of a system call, that the handler reads */

#if defined(__x86_64__)
static void read_arguments(const ucontext_t *u, uint64_t *out) {
  out[0] = (uint64_t)u->uc_mcontext.gregs[REG_RDI];
  out[1] = (uint64_t)u->uc_mcontext.gregs[REG_RSI];
  out[2] = (uint64_t)u->uc_mcontext.gregs[REG_RDX];
  out[3] = (uint64_t)u->uc_mcontext.gregs[REG_R10];
}
static void set_result(ucontext_t *u, int64_t value) { u->uc_mcontext.gregs[REG_RAX] = value; }
static uintptr_t stack_pointer(const ucontext_t *u) {
  return (uintptr_t)u->uc_mcontext.gregs[REG_RSP];
}
#elif defined(__aarch64__)
static void read_arguments(const ucontext_t *u, uint64_t *out) {
  memcpy(out, u->uc_mcontext.regs, ARGUMENTS * sizeof *out);
}
static void set_result(ucontext_t *u, int64_t value) { u->uc_mcontext.regs[0] = (uint64_t)value; }
static uintptr_t stack_pointer(const ucontext_t *u) { return u->uc_mcontext.sp; }
#else /* no system call filter exists for this processor */
static void read_arguments(const ucontext_t *u, uint64_t *out) {
  (void)u;
  (void)out;
}
static void set_result(ucontext_t *u, int64_t value) {
  (void)u;
  (void)value;
}
static uintptr_t stack_pointer(const ucontext_t *u) { return (uintptr_t)u->uc_stack.ss_sp; }
#endif

/* Files that the C library and language runtimes read on their own initiative. Opening them fails
 * with EACCES instead of ending the process. */
static bool is_runtime_file(const char *path) {
  static const char *const folders[] = {"/proc/", "/sys/", "/etc/localtime", "/usr/share/zoneinfo/",
                                        "/usr/lib/locale/"};
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
    if (!strncmp(path, folders[i], strlen(folders[i]))) return true;
  return false;
}

static const char *path_of(int number, const uint64_t *arguments) {
  switch (number) {
#if defined(__x86_64__)
  case SYS_open:
  case SYS_creat:
  case SYS_unlink:
  case SYS_rename:
  case SYS_mkdir:
#endif
  case SYS_execve:
    return (const char *)arguments[0];
  case SYS_openat:
  case SYS_unlinkat:
  case SYS_mkdirat:
    return (const char *)arguments[1];
  default:
    return NULL;
  }
}

/* Does opening a file need TENON_ALLOW_WRITE, or, with O_RDWR for example, READ as well? */
static bool opens_for_writing(int number, const uint64_t *arguments, bool *out_reads) {
  const uint64_t flags = number == SYS_openat ? arguments[2] : arguments[1];
  *out_reads = (flags & O_ACCMODE) != O_WRONLY;
  return (flags & (O_ACCMODE | O_CREAT | O_TRUNC)) != 0;
}

static bool is_open(int number) {
#if defined(__x86_64__)
  if (number == SYS_open) return true;
#endif
  return number == SYS_openat;
}

static void end_process(int signal_number) {
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

/* Takes the report for this thread, before it writes to it. Several threads may crash at once: the
 * first one writes the report and ends the process, for which the others wait here. */
static void claim_report(int signal_number) {
  static int is_claimed;
  static _Thread_local bool is_mine;
  if (is_mine) end_process(signal_number); /* the thread crashed again, in its handler */
  if (__atomic_exchange_n(&is_claimed, 1, __ATOMIC_ACQ_REL))
    for (;;)
      pause();
  is_mine = true;
  report->entry = (uint32_t)(entry_index + 1);
  report->signal = signal_number;
}

static int64_t call_again(long number, uint64_t first, uint64_t second, uint64_t third) {
  const long result = syscall(number, first, second, third);
  return result == -1 ? -errno : result;
}

/* Makes a call that the filter cannot judge in a form that it allows. Whatever the library changes
 * meanwhile, the filter judges that form as well.
 *
 * Returns: false if the call has no such form. */
static bool rephrase(int number, const uint64_t *arguments, ucontext_t *u) {
  switch (number) {
  case SYS_newfstatat: {
    const char *path = (const char *)arguments[1];
    const bool is_empty = path && !*path;
    set_result(u, is_empty ? call_again(SYS_fstat, arguments[0], arguments[2], 0) : -EACCES);
    return true;
  }
  case SYS_sched_getaffinity:
  case SYS_sched_setaffinity:
  case SYS_sched_getparam:
  case SYS_sched_getscheduler: {
    const bool is_own = (pid_t)arguments[0] == (pid_t)syscall(SYS_gettid);
    set_result(u, is_own ? call_again(number, 0, arguments[1], arguments[2]) : -EPERM);
    return true;
  }
  default:
    return false;
  }
}

static void on_denied(int number, ucontext_t *u) {
  uint64_t arguments[ARGUMENTS] = {0};
  const int before = errno;
  read_arguments(u, arguments);
  if (rephrase(number, arguments, u)) {
    errno = before;
    return;
  }
  const char *path = path_of(number, arguments);
  bool reads;
  if (path && is_open(number) && !opens_for_writing(number, arguments, &reads) &&
      is_runtime_file(path)) {
    set_result(u, -EACCES);
    return;
  }
  claim_report(SIGSYS);
  report->number = number;
  memcpy(report->arguments, arguments, sizeof report->arguments);
  report->kind = number == SYS_exit_group ? TN_CRASH_EXIT : TN_CRASH_DENIED;
  for (size_t i = 0; path && path[i] && i < sizeof report->path - 1; i++)
    report->path[i] = path[i];
  end_process(SIGKILL);
}

static void on_signal(int number, siginfo_t *info, void *context) {
  const uintptr_t address = (uintptr_t)info->si_addr;
  if (number == SIGSYS && info->si_code == 1 /* SYS_SECCOMP */) {
    on_denied(info->si_syscall, context);
    return;
  }
  claim_report(number);
  const bool has_address = info->si_code > 0 && (number == SIGSEGV || number == SIGBUS);
  report->address = has_address ? address : UINT64_MAX;
  report->used = most_memory();
  const uintptr_t stack = stack_pointer(context);
  report->number = has_address && number == SIGSEGV && stack_low &&
                   stack < stack_low + (64 << 10) && address + (1 << 20) > stack &&
                   address < stack + (1 << 20);
  report->kind = TN_CRASH_SIGNAL;
  end_process(number);
}

void tn_crash_watch(tn_crash_t *crash) {
  static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
  struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
  action.sa_sigaction = on_signal;
  report = crash;
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
    sigaction(signals[i], &action, NULL);
}

void tn_crash_thread(int entry) {
  enum { SIZE = 64 << 10 };
  stack_t stack = {.ss_sp = tn_allocate(SIZE), .ss_size = SIZE};
  entry_index = entry;
  stack_low = tn_thread()->stack_low;
  if (stack.ss_sp) sigaltstack(&stack, NULL);
}

static void add_quoted(const char *path, tn_text_t *text) {
  char copy[sizeof((tn_crash_t *)0)->path];
  size_t i = 0;
  for (; path[i] && i < sizeof copy - 1; i++)
    copy[i] = path[i] >= ' ' && path[i] <= '~' ? path[i] : '?';
  copy[i] = 0;
  tn_text_add(text, " '%s'", copy);
}

static tenon_status_t describe_denied(const tn_crash_t *crash, tn_text_t *text) {
  const char *does = NULL;
  const char *allow = NULL;
  const char *name = tn_system_call_text(crash->number, &does, &allow);
  bool reads = true;
  if (is_open(crash->number)) {
    allow = "TENON_ALLOW_READ";
    if (opens_for_writing(crash->number, crash->arguments, &reads)) {
      does = reads ? "opened for reading and writing" : "opened for writing";
      allow = reads ? "TENON_ALLOW_READ and TENON_ALLOW_WRITE" : "TENON_ALLOW_WRITE";
    }
  }
  if (!name)
    tn_text_add(text, "made system call %d", crash->number);
  else
    tn_text_add(text, "%s", does);
  if (crash->path[0]) add_quoted(crash->path, text);
  if (name) tn_text_add(text, " (%s)", name);
  tn_text_add(text, ", which isolation does not allow");
  if (allow) tn_text_add(text, ": load the library with %s if it may", allow);
  return TENON_DENIED;
}

tenon_status_t tn_crash_describe(const tn_crash_t *crash, int status, uint64_t memory,
                                 tn_text_t *text) {
  tn_crash_t c = *crash;
  c.path[sizeof c.path - 1] = 0;
  const bool was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  if (c.kind == TN_CRASH_DENIED && was_killed) return describe_denied(&c, text);
  if (c.kind == TN_CRASH_EXIT && was_killed) {
    tn_text_add(text, "ended its process: exit(%d)", (int)(c.arguments[0] & 255));
    return TENON_ABORTED;
  }
  if (WIFEXITED(status)) {
    tn_text_add(text, "ended its process: exit(%d)", WEXITSTATUS(status));
    return TENON_ABORTED;
  }
  if (was_killed) {
    tn_text_add(
        text,
        "was killed (SIGKILL), but not by this program: the system may have run out of memory");
    return TENON_ABORTED;
  }
  const int number = WTERMSIG(status);
  const char *name = sigabbrev_np(number);
  const bool is_known = c.kind == TN_CRASH_SIGNAL && c.signal == number;
  if (number == SIGABRT)
    tn_text_add(text, "aborted (SIGABRT)");
  else if (is_known && c.number == 1)
    tn_text_add(text, "overflowed its stack (SIGSEGV)");
  else
    tn_text_add(text, "crashed: SIG%s", name ? name : "?");
  if (is_known && c.number != 1 && c.address != UINT64_MAX)
    tn_text_add(text, " at address 0x%llx", (unsigned long long)c.address);
  if (is_known && c.used)
    tn_text_add(
        text,
        "; it had %llu MiB of memory, and may have %llu MiB more than Tenon needs in the process",
        (unsigned long long)(c.used >> 20), (unsigned long long)(memory >> 20));
  return TENON_ABORTED;
}
