/* Resource limits, Landlock and seccomp on Linux. The filter lists the allowed system calls. Any
 * other call raises SIGSYS, whose handler reports it (crash_posix.c) and ends the process. System
 * call numbers come from the kernel headers, so the lists serve every processor; calls that a
 * processor does not have are left out by #if. */
#include "isolation/lockdown.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include "isolation/crash.h"

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
enum { SANITIZED = 1 }; /* sanitizers map terabytes, and read files when they report */
#else
enum { SANITIZED = 0 };
#endif

/* The most frequent calls come first. Calls on descriptors are harmless, because the process has no
 * descriptors but those for output. */
static const int always[] = {
    SYS_futex,
    SYS_sched_yield,
    SYS_clock_gettime,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_madvise,
    SYS_munmap,
    SYS_mprotect,
    SYS_mremap,
    SYS_brk,
    SYS_write,
    SYS_read,
    SYS_writev,
    SYS_readv,
    SYS_pread64,
    SYS_pwrite64,
    SYS_lseek,
    SYS_close,
    SYS_fstat,
    SYS_dup,
    SYS_dup3,
    SYS_fcntl,
    SYS_getpid,
    SYS_getppid,
    SYS_gettid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_getcpu,
    SYS_sched_getaffinity,
    SYS_sched_setaffinity,
    SYS_sched_getparam,
    SYS_sched_getscheduler,
    SYS_sched_get_priority_max,
    SYS_sched_get_priority_min,
    SYS_getrusage,
    SYS_getrlimit,
    SYS_gettimeofday,
    SYS_clock_getres,
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
    SYS_get_robust_list,
    SYS_set_tid_address,
    SYS_membarrier,
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
    SYS_timerfd_create,
    SYS_timerfd_settime,
    SYS_get_mempolicy,
    SYS_mbind,
    SYS_set_mempolicy,
    SYS_rseq,
#if defined(__x86_64__)
    SYS_time,
    SYS_pause,
    SYS_poll,
    SYS_dup2,
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
    SYS_ftruncate, SYS_fallocate, SYS_fsync,    SYS_fdatasync, SYS_mkdirat,  SYS_unlinkat,
    SYS_renameat,  SYS_renameat2, SYS_truncate, SYS_fchmod,    SYS_fchmodat, SYS_utimensat,
    SYS_flock,
#if defined(__x86_64__)
    SYS_mkdir,     SYS_unlink,    SYS_rmdir,    SYS_rename,    SYS_chmod,    SYS_creat,
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
    {SYS_mmap, "mmap", "made shared memory", NULL},
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
  struct sock_filter code[400];
  unsigned short count;
} filter_t;

#define ARGUMENT(i)                                                                                \
  ((uint32_t)offsetof(struct seccomp_data, args) +                                                 \
   8 * (uint32_t)(i)) /* Offset of the low half of argument i (little-endian). */
#define REFUSE(error) (SECCOMP_RET_ERRNO | (error))

static void add_instruction(filter_t *f, uint16_t code, uint8_t if_so, uint8_t if_not, uint32_t k) {
  if (f->count < sizeof f->code / sizeof *f->code)
    f->code[f->count++] = (struct sock_filter){code, if_so, if_not, k};
}
static void return_action(filter_t *f, uint32_t action) {
  add_instruction(f, BPF_RET | BPF_K, 0, 0, action);
}
static void load_number(filter_t *f) {
  add_instruction(f, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
}
static void on_call(filter_t *f, int number, uint32_t action) {
  add_instruction(f, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (uint32_t)number);
  return_action(f, action);
}
static void on_each_call(filter_t *f, const int *numbers, size_t count, uint32_t action) {
  for (size_t i = 0; i < count; i++)
    on_call(f, numbers[i], action);
}
#define ON_EACH(f, list, action) on_each_call(f, list, sizeof(list) / sizeof *(list), action)
/* For system call `number`: if argument `i` has any of the bits `k` (JSET) or equals `k` (JEQ),
 * then `so`, else `otherwise`. */
static void on_argument(filter_t *f, int number, int i, uint16_t test, uint32_t k, uint32_t so,
                        uint32_t otherwise) {
  add_instruction(f, BPF_JMP | BPF_JEQ | BPF_K, 0, 4, (uint32_t)number);
  add_instruction(f, BPF_LD | BPF_W | BPF_ABS, 0, 0, ARGUMENT(i));
  add_instruction(f, BPF_JMP | test | BPF_K, 0, 1, k);
  return_action(f, so);
  return_action(f, otherwise);
}

/* Forbids anonymous shared memory, which would not count towards the memory limit. */
static void restrict_memory(filter_t *f) {
  add_instruction(f, BPF_JMP | BPF_JEQ | BPF_K, 0, 5, SYS_mmap);
  add_instruction(f, BPF_LD | BPF_W | BPF_ABS, 0, 0, ARGUMENT(3));
  add_instruction(f, BPF_ALU | BPF_AND | BPF_K, 0, 0, MAP_SHARED | MAP_ANONYMOUS);
  add_instruction(f, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, MAP_SHARED | MAP_ANONYMOUS);
  return_action(f, SECCOMP_RET_TRAP);
  return_action(f, SECCOMP_RET_ALLOW);
}

static void restrict_files(filter_t *f, uint32_t allow, bool is_loading) {
  const uint32_t writes = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;
  const bool reads = is_loading || allow & TENON_ALLOW_READ;
  const bool may_write = allow & TENON_ALLOW_WRITE;
  const uint32_t read_action = reads ? SECCOMP_RET_ALLOW : SECCOMP_RET_TRAP;
  const uint32_t write_action = may_write ? SECCOMP_RET_ALLOW : SECCOMP_RET_TRAP;
  on_argument(f, SYS_openat, 2, BPF_JSET, writes, write_action, read_action);
#if defined(__x86_64__)
  on_argument(f, SYS_open, 1, BPF_JSET, writes, write_action, read_action);
#endif
  if (reads || may_write) ON_EACH(f, reading, SECCOMP_RET_ALLOW);
  on_argument(f, SYS_newfstatat, 3, BPF_JSET, 0x1000 /* AT_EMPTY_PATH: about a descriptor */,
              SECCOMP_RET_ALLOW, REFUSE(EACCES));
  ON_EACH(f, reading, REFUSE(EACCES));
  if (may_write) ON_EACH(f, writing, SECCOMP_RET_ALLOW);
}

static void build_filter(filter_t *f, const tn_control_t *control, bool is_loading) {
  const uint32_t self = (uint32_t)getpid();
  add_instruction(f, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch));
  add_instruction(f, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, MACHINE);
  return_action(f, SECCOMP_RET_KILL_PROCESS);
  load_number(f);
#if defined(__x86_64__)
  add_instruction(f, BPF_JMP | BPF_JGE | BPF_K, 0, 1, 0x40000000); /* numbers of the x32 ABI */
  return_action(f, SECCOMP_RET_KILL_PROCESS);
#endif
  ON_EACH(f, always, SECCOMP_RET_ALLOW);
  if (control->allow & TENON_ALLOW_PROCESSES)
    ON_EACH(f, processes, SECCOMP_RET_ALLOW), on_call(f, SYS_clone, SECCOMP_RET_ALLOW);
  if (control->allow & TENON_ALLOW_NETWORK) ON_EACH(f, network, SECCOMP_RET_ALLOW);
  /* The filter cannot see the flags of clone3. With ENOSYS the C library calls clone instead. */
  on_call(f, SYS_clone3, REFUSE(ENOSYS));
  restrict_memory(f);
  on_call(f, SYS_ioctl, REFUSE(ENOTTY));
  restrict_files(f, control->allow, is_loading);
  on_argument(f, SYS_clone, 0, BPF_JSET, CLONE_THREAD, SECCOMP_RET_ALLOW, SECCOMP_RET_TRAP);
  on_argument(f, SYS_kill, 0, BPF_JEQ, self, SECCOMP_RET_ALLOW, SECCOMP_RET_TRAP);
  on_argument(f, SYS_tgkill, 0, BPF_JEQ, self, SECCOMP_RET_ALLOW, SECCOMP_RET_TRAP);
  /* reading limits only */
  on_argument(f, SYS_prlimit64, 2, BPF_JEQ, 0, SECCOMP_RET_ALLOW, REFUSE(EPERM));
  on_argument(f, SYS_prctl, 0, BPF_JEQ, PR_SET_NAME, SECCOMP_RET_ALLOW, REFUSE(EPERM));
  /* The next filter is the final one. Landlock's calls were made before this filter. */
  if (is_loading) {
    on_call(f, SYS_seccomp, SECCOMP_RET_ALLOW);
    on_call(f, SYS_exit_group, SECCOMP_RET_ALLOW);
  }
  return_action(f, SANITIZED && !is_loading ? SECCOMP_RET_ALLOW : SECCOMP_RET_TRAP);
}

static bool install_filter(const tn_control_t *control, bool is_loading) {
  filter_t filter = {.count = 0};
  if (!MACHINE) {
    errno = ENOSYS;
    return false;
  }
  build_filter(&filter, control, is_loading);
  const struct sock_fprog program = {filter.count, filter.code};
  if (filter.count == sizeof filter.code / sizeof *filter.code) {
    errno = E2BIG;
    return false;
  }
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, is_loading ? 0 : SECCOMP_FILTER_FLAG_TSYNC,
                 &program) == 0;
}

enum {
  READS = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
  WRITES = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
           LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
           LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
           LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
           LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM,
  OF_FILES =
      LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE,
};

/* A path that does not exist cannot be opened either, so it needs no rule. */
static bool add_folder(int rules, const char *path, uint64_t access) {
  struct stat about;
  const int folder = open(path, O_PATH | O_CLOEXEC);
  if (folder < 0) return errno == ENOENT || errno == EACCES;
  if (fstat(folder, &about) == 0 && !S_ISDIR(about.st_mode)) access &= OF_FILES;
  const struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = folder};
  const bool good =
      syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
  close(folder);
  return good;
}

/* Allows the folders that the program named, and the folders of the system's libraries and of this
 * library, so that it can be loaded. */
static bool restrict_folders(const tn_control_t *control) {
  static const char *const libraries[] = {"/lib",       "/lib64",         "/usr/lib",
                                          "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache",
                                          "/proc/self"};
  const struct landlock_ruleset_attr all = {.handled_access_fs = READS | WRITES};
  const int rules =
      (int)syscall(SYS_landlock_create_ruleset, &all, sizeof all.handled_access_fs, 0);
  char own[sizeof control->path];
  if (rules < 0) return false;
  bool good = true;
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries && good; i++)
    good = add_folder(rules, libraries[i], READS);
  memcpy(own, control->path, sizeof own);
  *strrchr(own, '/') = 0;
  good = good && add_folder(rules, *own ? own : "/", READS);
  for (const char *at = control->readable; *at && good; at += strlen(at) + 1)
    good = add_folder(rules, at, READS);
  for (const char *at = control->writable; *at && good; at += strlen(at) + 1)
    good = add_folder(rules, at, READS | WRITES);
  good = good && syscall(SYS_landlock_restrict_self, rules, 0) == 0;
  close(rules);
  return good;
}

static bool set_limit(int what, uint64_t most) {
  struct rlimit now, less;
  if (getrlimit((__rlimit_resource_t)what, &now) != 0) return false;
  less.rlim_max = less.rlim_cur = now.rlim_max < most ? now.rlim_max : most;
  return setrlimit((__rlimit_resource_t)what, &less) == 0;
}

bool tn_lockdown_begin(const tn_control_t *control) {
  enum { OPEN_MOST = 256 };
  const uint64_t used = tn_memory_used();
  if (!set_limit(RLIMIT_CORE, 0) || !set_limit(RLIMIT_NOFILE, OPEN_MOST)) return false;
  if (!SANITIZED && !set_limit(RLIMIT_DATA, used + control->memory)) return false;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  if (control->has_folders && !restrict_folders(control)) return false;
  return install_filter(control, true);
}

bool tn_lockdown_finish(const tn_control_t *control) { return install_filter(control, false); }
