/* The seccomp filters of a worker process, written in classic BPF. Each lists the allowed system
 * calls, and compares arguments by value wherever a call could reach beyond the process: both
 * halves of pointers, and the one half that the kernel reads of an int. Any other call raises
 * SIGSYS, whose handler reports it (crash_posix.c) and ends the process. System call numbers
 * come from the kernel headers, so the lists serve every processor; calls that a processor does
 * not have are left out by #if. */
#include "isolation/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <linux/mempolicy.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <tenon/tenon.h>
#include <unistd.h>

#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#else
/* The system calls of this processor are not known here, so loading an isolated library reports
 * that the system refuses. */
#define MACHINE 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 }; /* sanitizers make calls of their own when they report */
#else
enum { SANITIZED = 0 };
#endif

/* Calls that reach nothing outside of the process, whatever their arguments are. The most
 * frequent come first. Calls on descriptors are here only if they cannot change what the
 * program's own output is, which descriptors 1 and 2 share with the program. */
static const int always[] = {
    SYS_sched_yield,
    SYS_nanosleep,
    SYS_munmap,
    SYS_mprotect,
    SYS_brk,
    SYS_write,
    SYS_writev,
    SYS_close,
    SYS_fstat,
    SYS_getpid,
    SYS_getppid,
    SYS_gettid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_getcpu,
    SYS_sched_get_priority_max,
    SYS_sched_get_priority_min,
    SYS_getrusage,
    SYS_getrlimit,
    SYS_gettimeofday,
    SYS_times,
    SYS_sysinfo,
    SYS_uname,
    SYS_getrandom,
    SYS_exit,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_rt_sigsuspend,
    SYS_rt_sigpending,
    SYS_rt_sigtimedwait,
    SYS_sigaltstack,
    SYS_restart_syscall,
    SYS_set_robust_list,
    SYS_set_tid_address,
    SYS_mlock,
    SYS_munlock,
    SYS_mincore,
    SYS_msync,
    SYS_eventfd2,
    SYS_pipe2,
    SYS_ppoll,
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_timerfd_settime,
    SYS_get_mempolicy,
    SYS_set_mempolicy,
    SYS_rseq,
#if defined(__x86_64__)
    SYS_time,
    SYS_pause,
    SYS_poll,
    SYS_pipe,
    SYS_epoll_wait,
    SYS_arch_prctl,
    SYS_alarm,
#endif
};
static const int processes[] = {
    SYS_clone3, SYS_execve, SYS_execveat, SYS_wait4, SYS_waitid,
#if defined(__x86_64__)
    SYS_fork,   SYS_vfork,
#endif
};
static const int network[] = {
    SYS_socket,   SYS_socketpair, SYS_connect,     SYS_bind,        SYS_listen,     SYS_accept,
    SYS_accept4,  SYS_sendto,     SYS_recvfrom,    SYS_sendmsg,     SYS_recvmsg,    SYS_sendmmsg,
    SYS_recvmmsg, SYS_shutdown,   SYS_getsockname, SYS_getpeername, SYS_setsockopt, SYS_getsockopt};
static const int reading[] = {
    SYS_getdents64, SYS_fstatfs,   SYS_newfstatat, SYS_statx,
    SYS_readlinkat, SYS_faccessat, SYS_statfs,     SYS_getcwd,
#if defined(SYS_faccessat2)
    SYS_faccessat2,
#endif
#if defined(__x86_64__)
    SYS_stat,       SYS_lstat,     SYS_readlink,   SYS_access,
#endif
};
static const int writing[] = {
    SYS_fsync,    SYS_fdatasync, SYS_mkdirat,   SYS_unlinkat, SYS_renameat, SYS_renameat2,
    SYS_truncate, SYS_fchmodat,  SYS_utimensat,
#if defined(__x86_64__)
    SYS_mkdir,    SYS_unlink,    SYS_rmdir,     SYS_rename,   SYS_chmod,    SYS_creat,
#endif
};

const char *tn_system_call_text(int number, const char **out_does, const char **out_allow) {
  static const struct {
    int number;
    const char *name;
    const char *does;
    const char *allow;
  } known[] = {
    {SYS_openat, "openat", "opened", NULL},
    {SYS_socket, "socket", "opened a socket", "TENON_ALLOW_NETWORK"},
    {SYS_socketpair, "socketpair", "opened a socket", "TENON_ALLOW_NETWORK"},
    {SYS_connect, "connect", "connected a socket", "TENON_ALLOW_NETWORK"},
    {SYS_clone, "clone", "started a process", "TENON_ALLOW_PROCESSES"},
    {SYS_fcntl, "fcntl", "arranged a signal to another process", NULL},
    {SYS_execve, "execve", "ran a program", "TENON_ALLOW_PROCESSES"},
    {SYS_execveat, "execveat", "ran a program", "TENON_ALLOW_PROCESSES"},
    {SYS_kill, "kill", "sent a signal to another process", NULL},
    {SYS_tkill, "tkill", "sent a signal to another process", NULL},
    {SYS_tgkill, "tgkill", "sent a signal to another process", NULL},
    {SYS_ptrace, "ptrace", "looked into another process", NULL},
    {SYS_process_vm_readv, "process_vm_readv", "looked into another process", NULL},
    {SYS_process_vm_writev, "process_vm_writev", "wrote to another process", NULL},
    {SYS_unlinkat, "unlinkat", "removed a file", "TENON_ALLOW_WRITE"},
    {SYS_mkdirat, "mkdirat", "made a folder", "TENON_ALLOW_WRITE"},
    {SYS_memfd_create, "memfd_create", "made shared memory", NULL},
    {SYS_mmap, "mmap", "made memory that its limit does not count", NULL},
    {SYS_shmget, "shmget", "made shared memory", NULL},
    {SYS_prctl, "prctl", "changed what its process is", NULL},
    {SYS_ftruncate, "ftruncate", "changed the size of a file", "TENON_ALLOW_WRITE"},
#if defined(__x86_64__)
    {SYS_open, "open", "opened", NULL},
    {SYS_creat, "creat", "wrote a file", "TENON_ALLOW_WRITE"},
    {SYS_unlink, "unlink", "removed a file", "TENON_ALLOW_WRITE"},
    {SYS_rename, "rename", "renamed a file", "TENON_ALLOW_WRITE"},
    {SYS_mkdir, "mkdir", "made a folder", "TENON_ALLOW_WRITE"},
    {SYS_fork, "fork", "started a process", "TENON_ALLOW_PROCESSES"},
    {SYS_vfork, "vfork", "started a process", "TENON_ALLOW_PROCESSES"},
#endif
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (known[i].number != number) continue;
    *out_does = known[i].does;
    *out_allow = known[i].allow;
    return known[i].name;
  }
  return NULL;
}

typedef struct filter_t {
  struct sock_filter code[600];
  unsigned short count;
} filter_t;

/* Offsets of the halves of argument i, on a little-endian processor. */
#define LOW(i) ((uint32_t)offsetof(struct seccomp_data, args) + 8 * (uint32_t)(i))
#define HIGH(i) (LOW(i) + 4)
#define REFUSE(error) (SECCOMP_RET_ERRNO | (error))
#define LENGTH(list) (sizeof(list) / sizeof *(list))

static void add_instruction(filter_t *f, uint16_t code, uint8_t if_so, uint8_t if_not, uint32_t k) {
  if (f->count < LENGTH(f->code))
    f->code[f->count++] = (struct sock_filter){code, if_so, if_not, k};
}
static void load_word(filter_t *f, uint32_t offset) {
  add_instruction(f, BPF_LD | BPF_W | BPF_ABS, 0, 0, offset);
}
static void return_action(filter_t *f, uint32_t action) {
  add_instruction(f, BPF_RET | BPF_K, 0, 0, action);
}
/* Returns `action` if the loaded word equals `k` (BPF_JEQ), has any bit of it (BPF_JSET), or is
 * greater (BPF_JGT). */
static void return_if(filter_t *f, uint16_t test, uint32_t k, uint32_t action) {
  add_instruction(f, BPF_JMP | test | BPF_K, 0, 1, k);
  return_action(f, action);
}
static void return_unless(filter_t *f, uint16_t test, uint32_t k, uint32_t action) {
  add_instruction(f, BPF_JMP | test | BPF_K, 1, 0, k);
  return_action(f, action);
}
static void on_call(filter_t *f, int number, uint32_t action) {
  return_if(f, BPF_JEQ, (uint32_t)number, action);
}
static void on_each_call(filter_t *f, const int *numbers, size_t count, uint32_t action) {
  for (size_t i = 0; i < count; i++)
    on_call(f, numbers[i], action);
}
#define ON_EACH(f, list, action) on_each_call(f, list, LENGTH(list), action)

/* Begins the rules for one system call. They end with close_rules, and each path through them
 * returns, because they load other words than the number of the call. */
static unsigned short open_rules(filter_t *f, int number) {
  add_instruction(f, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, (uint32_t)number);
  return (unsigned short)(f->count - 1);
}
static void close_rules(filter_t *f, unsigned short at, uint32_t otherwise) {
  return_action(f, otherwise);
  if (f->count < LENGTH(f->code)) f->code[at].jf = (uint8_t)(f->count - at - 1);
}

/* Allows the call if argument `i`, an int, has one of the listed values. */
static void on_values(filter_t *f, int number, int i, const uint32_t *values, size_t count,
                      uint32_t otherwise) {
  const unsigned short rules = open_rules(f, number);
  load_word(f, LOW(i));
  for (size_t v = 0; v < count; v++)
    return_if(f, BPF_JEQ, values[v], SECCOMP_RET_ALLOW);
  close_rules(f, rules, otherwise);
}
#define ON_VALUES(f, number, i, list, otherwise)                                                   \
  on_values(f, number, i, list, LENGTH(list), otherwise)

/* If argument `i`, an int, has any of the bits, then `so`, else `otherwise`. */
static void on_bits(filter_t *f, int number, int i, uint32_t bits, uint32_t so,
                    uint32_t otherwise) {
  const unsigned short rules = open_rules(f, number);
  load_word(f, LOW(i));
  return_if(f, BPF_JSET, bits, so);
  close_rules(f, rules, otherwise);
}

/* The first argument is a descriptor, and 0 to `last` are not allowed. */
static void on_descriptor_above(filter_t *f, int number, uint32_t last, uint32_t otherwise) {
  const unsigned short rules = open_rules(f, number);
  load_word(f, LOW(0));
  return_if(f, BPF_JGT, last, SECCOMP_RET_ALLOW);
  close_rules(f, rules, otherwise);
}

/* Descriptors 0 to 2 belong to the program as well: /dev/null, and its output. The process may
 * write to the output, and neither read it, move in it, change its flags, nor copy its
 * descriptor, because a copy would evade these rules. Without `may_copy` no descriptor can be
 * copied: a thread of the library could else move one away from those that are being closed. */
static void restrict_descriptors(filter_t *f, bool may_write, bool may_copy) {
  static const int reads[] = {SYS_read, SYS_readv};
  static const int positions[] = {SYS_lseek, SYS_pread64, SYS_pwrite64};
  static const int changes[] = {SYS_ftruncate, SYS_fallocate, SYS_fchmod, SYS_flock};
  static const int copies[] = {
    SYS_dup,
    SYS_dup3,
#if defined(__x86_64__)
    SYS_dup2,
#endif
  };
  for (size_t i = 0; i < LENGTH(reads); i++) {
    const unsigned short rules = open_rules(f, reads[i]);
    load_word(f, LOW(0));
    return_if(f, BPF_JEQ, STDOUT_FILENO, REFUSE(EBADF));
    return_if(f, BPF_JEQ, STDERR_FILENO, REFUSE(EBADF));
    close_rules(f, rules, SECCOMP_RET_ALLOW);
  }
  for (size_t i = 0; i < LENGTH(positions); i++)
    on_descriptor_above(f, positions[i], STDERR_FILENO, REFUSE(ESPIPE));
  for (size_t i = 0; i < LENGTH(copies) && may_copy; i++)
    on_descriptor_above(f, copies[i], STDERR_FILENO, REFUSE(EPERM));
  ON_EACH(f, copies, REFUSE(EPERM));
  for (size_t i = 0; i < LENGTH(changes) && may_write; i++)
    on_descriptor_above(f, changes[i], STDERR_FILENO, REFUSE(EPERM));
}

static void restrict_fcntl(filter_t *f, bool may_write, bool may_copy) {
  static const uint32_t harmless[] = {F_GETFD, F_SETFD, F_GETFL};
  static const uint32_t copies[] = {F_DUPFD, F_DUPFD_CLOEXEC, F_SETFL};
  static const uint32_t locks[] = {F_GETLK,     F_SETLK,     F_SETLKW,
                                   F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW};
  static const uint32_t signals[] = {F_SETOWN, F_SETOWN_EX, F_SETSIG};
  const unsigned short rules = open_rules(f, SYS_fcntl);
  load_word(f, LOW(1));
  for (size_t i = 0; i < LENGTH(harmless); i++)
    return_if(f, BPF_JEQ, harmless[i], SECCOMP_RET_ALLOW);
  for (size_t i = 0; i < LENGTH(signals); i++)
    return_if(f, BPF_JEQ, signals[i], SECCOMP_RET_TRAP);
  for (size_t i = 0; i < LENGTH(copies); i++) {
    if (copies[i] != F_SETFL && !may_copy) return_if(f, BPF_JEQ, copies[i], REFUSE(EPERM));
    const unsigned short copy = open_rules(f, (int)copies[i]);
    load_word(f, LOW(0));
    return_unless(f, BPF_JGT, STDERR_FILENO, REFUSE(EPERM));
    load_word(f, LOW(2));
    if (copies[i] == F_SETFL) return_if(f, BPF_JSET, O_ASYNC, SECCOMP_RET_TRAP);
    close_rules(f, copy, SECCOMP_RET_ALLOW);
  }
  for (size_t i = 0; i < LENGTH(locks) && may_write; i++) {
    const unsigned short lock = open_rules(f, (int)locks[i]);
    load_word(f, LOW(0));
    return_if(f, BPF_JGT, STDERR_FILENO, SECCOMP_RET_ALLOW);
    close_rules(f, lock, REFUSE(EPERM));
  }
  close_rules(f, rules, REFUSE(EINVAL));
}

/* Forbids memory that the limits on data and addresses do not count, or that is scarce for all
 * processes: anonymous shared memory, stacks that grow, and huge pages of the pool. */
static void restrict_memory(filter_t *f) {
  static const uint32_t advice[] = {MADV_NORMAL,
                                    MADV_RANDOM,
                                    MADV_SEQUENTIAL,
                                    MADV_WILLNEED,
                                    MADV_DONTNEED,
                                    MADV_FREE,
                                    MADV_DONTFORK,
                                    MADV_DOFORK,
                                    MADV_HUGEPAGE,
                                    MADV_NOHUGEPAGE,
                                    MADV_DONTDUMP,
                                    MADV_DODUMP,
                                    MADV_WIPEONFORK,
                                    MADV_KEEPONFORK,
                                    MADV_COLD,
                                    MADV_PAGEOUT,
                                    22 /* POPULATE_READ */,
                                    23 /* POPULATE_WRITE */,
                                    25 /* COLLAPSE */};
  unsigned short rules = open_rules(f, SYS_mmap);
  load_word(f, LOW(3));
  return_if(f, BPF_JSET, MAP_GROWSDOWN, SECCOMP_RET_TRAP);
  return_if(f, BPF_JSET, MAP_HUGETLB, REFUSE(ENOMEM));
  add_instruction(f, BPF_ALU | BPF_AND | BPF_K, 0, 0, MAP_SHARED | MAP_ANONYMOUS);
  return_if(f, BPF_JEQ, MAP_SHARED | MAP_ANONYMOUS, SECCOMP_RET_TRAP);
  close_rules(f, rules, SECCOMP_RET_ALLOW);
  ON_VALUES(f, SYS_madvise, 2, advice, REFUSE(EINVAL));
  /* A stack that mremap enlarges is not counted, so memory is not enlarged in place at all. The C
   * library allocates a new block and copies. Words: 1 is the old size, 2 the new one. */
  rules = open_rules(f, SYS_mremap);
  load_word(f, HIGH(1));
  add_instruction(f, BPF_MISC | BPF_TAX, 0, 0, 0);
  load_word(f, HIGH(2));
  add_instruction(f, BPF_JMP | BPF_JGT | BPF_X, 0, 1, 0);
  return_action(f, REFUSE(ENOMEM));
  add_instruction(f, BPF_JMP | BPF_JEQ | BPF_X, 1, 0, 0);
  return_action(f, SECCOMP_RET_ALLOW);
  load_word(f, LOW(1));
  add_instruction(f, BPF_MISC | BPF_TAX, 0, 0, 0);
  load_word(f, LOW(2));
  add_instruction(f, BPF_JMP | BPF_JGT | BPF_X, 0, 1, 0);
  return_action(f, REFUSE(ENOMEM));
  close_rules(f, rules, SECCOMP_RET_ALLOW);
  /* MPOL_MF_MOVE_ALL moves pages of other processes. */
  on_bits(f, SYS_mbind, 5, ~(uint32_t)(MPOL_MF_STRICT | MPOL_MF_MOVE), REFUSE(EPERM),
          SECCOMP_RET_ALLOW);
}

/* Clocks by number: a negative one is that of another process or thread. */
static void restrict_clocks(filter_t *f) {
  static const int calls[] = {SYS_clock_gettime, SYS_clock_getres, SYS_clock_nanosleep,
                              SYS_timerfd_create};
  enum { CLOCK_LAST = 11 /* CLOCK_TAI */ };
  for (size_t i = 0; i < LENGTH(calls); i++) {
    const unsigned short rules = open_rules(f, calls[i]);
    load_word(f, LOW(0));
    return_if(f, BPF_JGT, CLOCK_LAST, REFUSE(EINVAL));
    close_rules(f, rules, SECCOMP_RET_ALLOW);
  }
}

/* Argument 0 of these calls is a process or thread. */
static void restrict_processes(filter_t *f) {
  const uint32_t self = (uint32_t)getpid();
  const uint32_t own[] = {self};
  const uint32_t own_or_none[] = {0, self};
  /* A thread may name itself by its id, which the filter does not know: the handler of SIGSYS makes
   * the same call with 0 (crash_posix.c). */
  static const int scheduling[] = {SYS_sched_getaffinity, SYS_sched_setaffinity, SYS_sched_getparam,
                                   SYS_sched_getscheduler};
  /* The thread sanitizer asks in new threads, in which it cannot run the handler yet. */
  if (SANITIZED) on_call(f, SYS_sched_getaffinity, SECCOMP_RET_ALLOW);
  for (size_t i = 0; i < LENGTH(scheduling); i++)
    ON_VALUES(f, scheduling[i], 0, own_or_none, SECCOMP_RET_TRAP);
  ON_VALUES(f, SYS_kill, 0, own, SECCOMP_RET_TRAP);
  ON_VALUES(f, SYS_tgkill, 0, own, SECCOMP_RET_TRAP);
  /* Limits can be read, not set: the pointer to new limits, argument 2, is NULL. */
  const unsigned short rules = open_rules(f, SYS_prlimit64);
  load_word(f, LOW(2));
  return_unless(f, BPF_JEQ, 0, REFUSE(EPERM));
  load_word(f, HIGH(2));
  return_unless(f, BPF_JEQ, 0, REFUSE(EPERM));
  load_word(f, LOW(0));
  return_if(f, BPF_JEQ, 0, SECCOMP_RET_ALLOW);
  return_if(f, BPF_JEQ, self, SECCOMP_RET_ALLOW);
  close_rules(f, rules, REFUSE(EPERM));
}

/* A thread shares everything with its process, also its descriptors, which are closed for all
 * threads when loading ends. */
static void restrict_threads(filter_t *f) {
  const uint32_t needed = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD;
  const uint32_t others = CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID |
                          CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID | CLONE_DETACHED;
  const unsigned short rules = open_rules(f, SYS_clone);
  load_word(f, HIGH(0));
  return_unless(f, BPF_JEQ, 0, SECCOMP_RET_TRAP);
  load_word(f, LOW(0));
  return_if(f, BPF_JSET, ~(needed | others | CSIGNAL), SECCOMP_RET_TRAP);
  add_instruction(f, BPF_ALU | BPF_AND | BPF_K, 0, 0, needed);
  return_if(f, BPF_JEQ, needed, SECCOMP_RET_ALLOW);
  close_rules(f, rules, SECCOMP_RET_TRAP);
}

/* What happens when a file is opened in a way that needs READ, WRITE, or both: O_RDWR, and O_RDONLY
 * with flags that create or truncate the file, give a descriptor that can be read. */
typedef struct open_actions_t {
  uint32_t read;
  uint32_t write;
  uint32_t both;
} open_actions_t;

/* Argument `i` of the call has the flags of opening a file. */
static void on_opening(filter_t *f, int number, int i, open_actions_t actions) {
  const unsigned short rules = open_rules(f, number);
  load_word(f, LOW(i));
  return_unless(f, BPF_JSET, O_ACCMODE | O_CREAT | O_TRUNC, actions.read);
  add_instruction(f, BPF_ALU | BPF_AND | BPF_K, 0, 0, O_ACCMODE);
  return_if(f, BPF_JEQ, O_WRONLY, actions.write);
  close_rules(f, rules, actions.both);
}

static void on_each_opening(filter_t *f, open_actions_t actions) {
  on_opening(f, SYS_openat, 2, actions);
#if defined(__x86_64__)
  on_opening(f, SYS_open, 1, actions);
#endif
}

static void restrict_files(filter_t *f, uint32_t allow, bool is_loading) {
  const bool reads = is_loading || allow & TENON_ALLOW_READ;
  const bool may_write = allow & TENON_ALLOW_WRITE;
  on_each_opening(
      f, (open_actions_t){.read = reads ? SECCOMP_RET_ALLOW : SECCOMP_RET_TRAP,
                          .write = may_write ? SECCOMP_RET_ALLOW : SECCOMP_RET_TRAP,
                          .both = reads && may_write ? SECCOMP_RET_ALLOW : SECCOMP_RET_TRAP});
  if (reads || may_write) ON_EACH(f, reading, SECCOMP_RET_ALLOW);
  /* The C library asks with an empty path about a descriptor. The filter cannot read the path, so
   * the handler of SIGSYS does, and makes the call fstat (crash_posix.c). */
  on_bits(f, SYS_newfstatat, 3, 0x1000 /* AT_EMPTY_PATH */, SECCOMP_RET_TRAP, REFUSE(EACCES));
  ON_EACH(f, reading, REFUSE(EACCES));
  if (may_write) ON_EACH(f, writing, SECCOMP_RET_ALLOW);
}

static void restrict_rest(filter_t *f) {
  /* Not those with priority inheritance, which take the id of a thread of any process. */
  static const uint32_t futexes[] = {FUTEX_WAIT,       FUTEX_WAKE,        FUTEX_REQUEUE,
                                     FUTEX_WAKE_OP,    FUTEX_CMP_REQUEUE, FUTEX_WAIT_BITSET,
                                     FUTEX_WAKE_BITSET};
  /* Not those that interrupt all processors. */
  static const uint32_t barriers[] = {MEMBARRIER_CMD_QUERY,
                                      MEMBARRIER_CMD_PRIVATE_EXPEDITED,
                                      MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED,
                                      MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE,
                                      MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE,
                                      MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ,
                                      MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ};
  static const uint32_t names[] = {PR_SET_NAME, PR_GET_NAME};
  const unsigned short rules = open_rules(f, SYS_futex);
  load_word(f, LOW(1));
  add_instruction(f, BPF_ALU | BPF_AND | BPF_K, 0, 0,
                  ~(uint32_t)(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME));
  for (size_t i = 0; i < LENGTH(futexes); i++)
    return_if(f, BPF_JEQ, futexes[i], SECCOMP_RET_ALLOW);
  close_rules(f, rules, REFUSE(ENOSYS));
  ON_VALUES(f, SYS_membarrier, 0, barriers, REFUSE(EINVAL));
  ON_VALUES(f, SYS_prctl, 0, names, REFUSE(EPERM));
  on_call(f, SYS_ioctl, REFUSE(ENOTTY));
}

/* Code of the library can make the call for the final filter as well as tn_lockdown_finish. What it
 * installs can only refuse more, and the gate holds in any case. */
static void restrict_filters(filter_t *f, bool is_loading) {
  if (!is_loading) {
    on_call(f, SYS_seccomp, REFUSE(EPERM));
    return;
  }
  const unsigned short rules = open_rules(f, SYS_seccomp);
  load_word(f, LOW(0));
  return_unless(f, BPF_JEQ, SECCOMP_SET_MODE_FILTER, REFUSE(EPERM));
  load_word(f, LOW(1));
  return_if(f, BPF_JEQ, SECCOMP_FILTER_FLAG_TSYNC, SECCOMP_RET_ALLOW);
  close_rules(f, rules, REFUSE(EPERM));
  on_call(f, SYS_exit_group, SECCOMP_RET_ALLOW);
}

static void begin_filter(filter_t *f) {
  load_word(f, offsetof(struct seccomp_data, arch));
  add_instruction(f, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, MACHINE);
  return_action(f, SECCOMP_RET_KILL_PROCESS);
  load_word(f, offsetof(struct seccomp_data, nr));
#if defined(__x86_64__)
  add_instruction(f, BPF_JMP | BPF_JGE | BPF_K, 0, 1, 0x40000000); /* numbers of the x32 ABI */
  return_action(f, SECCOMP_RET_KILL_PROCESS);
#endif
}

static void build_filter(filter_t *f, const tn_control_t *control, bool is_loading) {
  const bool may_write = control->allow & TENON_ALLOW_WRITE;
  const bool may_copy = is_loading || control->allow & TENON_ALLOW_READ;
  begin_filter(f);
  restrict_rest(f);
  ON_EACH(f, always, SECCOMP_RET_ALLOW);
  restrict_memory(f);
  restrict_descriptors(f, may_write, may_copy);
  restrict_fcntl(f, may_write, may_copy);
  restrict_clocks(f);
  if (control->allow & TENON_ALLOW_PROCESSES) {
    ON_EACH(f, processes, SECCOMP_RET_ALLOW);
    on_call(f, SYS_clone, SECCOMP_RET_ALLOW);
  }
  if (control->allow & TENON_ALLOW_NETWORK) ON_EACH(f, network, SECCOMP_RET_ALLOW);
  /* The filter cannot see the flags of clone3. With ENOSYS the C library calls clone instead. */
  on_call(f, SYS_clone3, REFUSE(ENOSYS));
  restrict_files(f, control->allow, is_loading);
  restrict_threads(f);
  restrict_processes(f);
  restrict_filters(f, is_loading);
  return_action(f, SANITIZED && !is_loading ? SECCOMP_RET_ALLOW : SECCOMP_RET_TRAP);
}

static long install_filter(const filter_t *f, unsigned flags) {
  const struct sock_fprog program = {f->count, (struct sock_filter *)(uintptr_t)f->code};
  if (f->count == LENGTH(f->code)) {
    errno = E2BIG;
    return -1;
  }
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

bool tn_filter_install(const tn_control_t *control, bool is_loading) {
  filter_t filter = {.count = 0};
  if (!MACHINE) {
    errno = ENOSYS;
    return false;
  }
  build_filter(&filter, control, is_loading);
  return install_filter(&filter, is_loading ? 0 : (unsigned)SECCOMP_FILTER_FLAG_TSYNC) == 0;
}

bool tn_filter_is_final(void) {
  /* In the filter for loading, the kernel would answer EFAULT. */
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, NULL) == -1 &&
         errno == EPERM;
}

/* The gate hands over what may be done while loading and not afterwards, and each new thread. */
static void build_gate(filter_t *f, uint32_t allow) {
  const bool may_write = allow & TENON_ALLOW_WRITE;
  begin_filter(f);
  if (!(allow & TENON_ALLOW_PROCESSES)) on_call(f, SYS_clone, SECCOMP_RET_USER_NOTIF);
  if (!(allow & TENON_ALLOW_READ)) {
    on_each_opening(
        f, (open_actions_t){.read = SECCOMP_RET_USER_NOTIF,
                            .write = may_write ? SECCOMP_RET_ALLOW : SECCOMP_RET_USER_NOTIF,
                            .both = SECCOMP_RET_USER_NOTIF});
    if (!may_write) ON_EACH(f, reading, SECCOMP_RET_USER_NOTIF);
  }
  return_action(f, SECCOMP_RET_ALLOW);
}

int tn_filter_install_gate(const tn_control_t *control) {
  filter_t filter = {.count = 0};
  if (!MACHINE) return -1;
  /* A kernel that knows this flag (Linux 5.7) can also let a call go on. */
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC_ESRCH, NULL) != -1 ||
      errno != EFAULT)
    return -1;
  build_gate(&filter, control->allow);
  return (int)install_filter(&filter, SECCOMP_FILTER_FLAG_NEW_LISTENER);
}
