/* A hostile library: each attempt tries to reach something outside of its own process, or to take
 * more than its limits allow. The variable TENON_ESCAPE names the attempt and TENON_ESCAPE_PHASE
 * when it is made: "load" means by a constructor, "call" by the kernel. TENON_ESCAPE_FILE names a
 * file that the library may read and write if isolation lets it. Some attempts have a first step,
 * which the constructor takes in both cases. escape_host.c loads the library and escape_test.py
 * states the expected outcomes. An attempt returns a positive number if it achieved something. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <linux/stat.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <tenon/op.h>

#define MIB ((size_t)1 << 20)

static int host; /* the process id of the program */
static int kept = -1, kept_folder = -1;
static char *secret; /* the address of a secret in the program */
static char room[4096];

static int number_of(const char *name) {
  const char *text = getenv(name);
  return text ? (int)strtol(text, NULL, 10) : 0;
}

/* A call that reached the kernel was not refused, even if its arguments are wrong. */
static long reached(long result) {
  if (result != -1) return 1;
  return errno == EFAULT || errno == EINVAL || errno == EBADF || errno == ESRCH || errno == ENOENT;
}
static long succeeded(long result) { return result >= 0; }

static int open_of_host(const char *name, int flags) {
  char path[200];
  snprintf(path, sizeof path, "/proc/%d/%s", host, name);
  return open(path, flags | O_CLOEXEC);
}

/* A handler of SIGSYS can make a refused call return anything, so what was opened is read. */
static long opened(int file) { return file >= 0 && read(file, room, 1) == 1; }

/* ---- processes */

static long try_fork(void) {
  const long made = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (made == 0) syscall(SYS_exit, 0);
  return made > 0;
}
static long try_clone3(void) {
  uint64_t arguments[11] = {0};
  arguments[4] = SIGCHLD;
  const long made = syscall(SYS_clone3, arguments, 88);
  if (made == 0) syscall(SYS_exit, 0);
  return made > 0;
}
#define AS_THREAD (CLONE_VM | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM)
static char stacks[2][65536];
static int nothing(void *argument) {
  (void)argument;
  return 0;
}
static long try_thread_with_own_descriptors(void) {
  return clone(nothing, stacks[0] + sizeof stacks[0] - 64, AS_THREAD, NULL) > 0;
}
static long try_thread_in_namespace(void) {
  return clone(nothing, stacks[1] + sizeof stacks[1] - 64, AS_THREAD | CLONE_FILES | CLONE_NEWNET,
               NULL) > 0;
}
static long try_execve(void) {
  char *const arguments[] = {(char *)"true", NULL};
  execve("/bin/true", arguments, NULL);
  return 0;
}
static long try_execveat(void) {
  return reached(syscall(SYS_execveat, AT_FDCWD, "/nowhere", NULL, NULL, 0));
}
static long try_unshare(void) { return reached(syscall(SYS_unshare, CLONE_NEWUSER)); }
static long try_setns(void) { return reached(syscall(SYS_setns, 99, 0)); }
static long try_setsid(void) { return reached(syscall(SYS_setsid)); }
static long try_setpgid(void) { return reached(syscall(SYS_setpgid, 0, getppid())); }
static long try_survive(void) { return succeeded(prctl(PR_SET_PDEATHSIG, 0)); }
static long try_dumpable(void) { return succeeded(prctl(PR_SET_DUMPABLE, 0)); }
static long try_personality(void) { return reached(syscall(SYS_personality, 0x0040000)); }
static long try_setuid(void) { return reached(syscall(SYS_setuid, 0)); }
static long try_capabilities(void) {
  char line[200];
  unsigned long long effective = 0;
  FILE *file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "CapEff: %llx", &effective) == 1) break;
  if (file) fclose(file);
  /* CAP_DAC_READ_SEARCH lets root open the files that it may open anyway. */
  return (effective & ~(1ull << 2)) != 0;
}

/* ---- signals */

static long try_kill(void) { return succeeded(syscall(SYS_kill, host, SIGUSR1)); }
static long try_kill_group(void) { return succeeded(syscall(SYS_kill, 0, 0)); }
static long try_kill_all(void) { return succeeded(syscall(SYS_kill, -1, 0)); }
static long try_kill_supervisor(void) { return succeeded(syscall(SYS_kill, getppid(), SIGKILL)); }
static long try_tkill(void) { return succeeded(syscall(SYS_tkill, host, SIGUSR1)); }
static long try_tgkill(void) { return succeeded(syscall(SYS_tgkill, host, host, SIGUSR1)); }
static long try_sigqueue(void) {
  siginfo_t info = {.si_signo = SIGUSR1, .si_code = -1};
  return succeeded(syscall(SYS_rt_sigqueueinfo, host, SIGUSR1, &info));
}
static long try_tgsigqueue(void) {
  siginfo_t info = {.si_signo = SIGUSR1, .si_code = -1};
  return succeeded(syscall(SYS_rt_tgsigqueueinfo, host, host, SIGUSR1, &info));
}
static long try_pidfd(void) { return reached(syscall(SYS_pidfd_open, host, 0)); }
static long try_pidfd_signal(void) {
  return reached(syscall(SYS_pidfd_send_signal, 99, SIGUSR1, NULL, 0));
}
static long signal_by_pipe(int command, void *owner, long owner_value) {
  int ends[2];
  if (pipe(ends) != 0) return 0;
  const long argument = owner ? (long)(intptr_t)owner : owner_value;
  if (syscall(SYS_fcntl, ends[0], command, argument) != 0) return 0;
  syscall(SYS_fcntl, ends[0], F_SETSIG, SIGUSR1);
  if (syscall(SYS_fcntl, ends[0], F_SETFL, O_ASYNC) != 0) return 0;
  return write(ends[1], "x", 1) == 1;
}
static long try_owner(void) { return signal_by_pipe(F_SETOWN, NULL, host); }
static long try_owner_ex(void) {
  struct f_owner_ex owner = {F_OWNER_PID, host};
  return signal_by_pipe(F_SETOWN_EX, &owner, 0);
}
static long try_async(void) {
  int ends[2];
  return pipe(ends) == 0 && succeeded(fcntl(ends[0], F_SETFL, O_ASYNC));
}
static long try_ioctl_owner(void) {
  int ends[2];
  int owner = host;
  return pipe(ends) == 0 && succeeded(syscall(SYS_ioctl, ends[0], 0x8901 /* FIOSETOWN */, &owner));
}
static long try_timer(void) {
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
  int timer;
  return reached(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer));
}
static long try_setitimer(void) { return reached(syscall(SYS_setitimer, 0, NULL, NULL)); }
static long try_dnotify(void) {
  return succeeded(fcntl(kept_folder >= 0 ? kept_folder : 3, 1026 /* F_NOTIFY */, 1));
}
static long try_lease(void) { return succeeded(fcntl(3, 1024 /* F_SETLEASE */, F_RDLCK)); }

/* ---- memory and data of other processes */

static long try_ptrace(void) { return reached(syscall(SYS_ptrace, 16, host, 0, 0)); }
static long try_read_memory(void) {
  struct iovec own = {room, 8}, other = {secret, 8};
  return reached(syscall(SYS_process_vm_readv, host, &own, 1, &other, 1, 0));
}
static long try_write_memory(void) {
  struct iovec own = {room, 8}, other = {secret, 8};
  return reached(syscall(SYS_process_vm_writev, host, &own, 1, &other, 1, 0));
}
static long try_process_madvise(void) {
  struct iovec other = {secret, 8};
  return reached(syscall(440, 99, &other, 1, MADV_PAGEOUT, 0));
}
static long try_get_descriptor(void) { return reached(syscall(438, 99, 0, 0)); }
static long try_kcmp(void) { return reached(syscall(SYS_kcmp, host, host, 0, 0, 0)); }
static long try_robust_list(void) {
  void *head = NULL;
  size_t size;
  return syscall(SYS_get_robust_list, host, &head, &size) == 0;
}
static long read_secret(int file) {
  memset(room, 0, sizeof room);
  return file >= 0 && pread(file, room, 16, (off_t)(intptr_t)secret) > 0 && strstr(room, "xyzzy");
}
static long try_proc_memory(void) { return read_secret(open_of_host("mem", O_RDONLY)); }
static long try_proc_environment(void) {
  const int file = open_of_host("environ", O_RDONLY);
  return file >= 0 && read(file, room, sizeof room) > 0;
}
static long try_proc_maps(void) {
  const int file = open_of_host("maps", O_RDONLY);
  return file >= 0 && read(file, room, sizeof room) > 0;
}
static long try_proc_status(void) { return open_of_host("status", O_RDONLY) >= 0; }
static long try_proc_command(void) { return open_of_host("cmdline", O_RDONLY) >= 0; }
static long try_proc_descriptor(void) { return open_of_host("fd/0", O_RDONLY) >= 0; }
static long try_proc_root(void) { return open_of_host("root/etc/passwd", O_RDONLY) >= 0; }
static long try_proc_by_self(void) {
  char path[200];
  snprintf(path, sizeof path, "/proc/self/root/proc/%d/maps", host);
  return open(path, O_RDONLY) >= 0;
}
static long try_proc_by_working_folder(void) {
  char path[200];
  snprintf(path, sizeof path, "%d/maps", host);
  return chdir("/proc") == 0 && open(path, O_RDONLY) >= 0;
}
static long try_proc_thread(void) {
  char path[200];
  snprintf(path, sizeof path, "/proc/%d/task/%d/maps", host, host);
  return open(path, O_RDONLY) >= 0;
}
static long try_proc_supervisor(void) {
  char path[200];
  snprintf(path, sizeof path, "/proc/%d/environ", getppid());
  const int file = open(path, O_RDONLY);
  return file >= 0 && read(file, room, sizeof room) > 0;
}
static long try_proc_write(void) { return open_of_host("oom_score_adj", O_WRONLY) >= 0; }
static long try_proc_memory_write(void) { return open_of_host("mem", O_RDWR) >= 0; }
static long keep_memory(void) { return kept = open_of_host("mem", O_RDONLY); }
static long try_kept_memory(void) { return read_secret(kept); }
static long keep_environment(void) { return kept = open_of_host("environ", O_RDONLY); }
static long try_kept_file(void) { return kept >= 0 && pread(kept, room, 16, 0) > 0; }
static long try_environment(void) { return getenv("SECRET_KEY") != NULL; }
static long try_own_environ(void) {
  const int file = open("/proc/self/environ", O_RDONLY);
  const ssize_t size = file < 0 ? 0 : read(file, room, sizeof room);
  return size > 0 && memmem(room, (size_t)size, "SECRET_KEY", 10);
}

/* ---- files */

static long try_read_file(void) { return opened(open("/etc/passwd", O_RDONLY)); }
static long try_read_creat(void) {
  return syscall(SYS_openat, AT_FDCWD, "/etc/passwd", O_RDWR) >= 0;
}
/* Makes refused calls fail instead of ending the process, so that more can be tried. */
static void fail_call(int number, siginfo_t *info, void *context) {
  ucontext_t *u = context;
#if defined(__x86_64__)
  u->uc_mcontext.gregs[REG_RAX] = -EPERM;
#else
  u->uc_mcontext.regs[0] = (uint64_t)-EPERM;
#endif
}
static void survive_refusals(void) {
  struct sigaction action = {.sa_flags = SA_SIGINFO | SA_NODEFER};
  action.sa_sigaction = fail_call;
  sigaction(SIGSYS, &action, NULL);
}
/* Opens the file with every combination of an access mode and flags, and tries to read. */
static long try_every_flag(void) {
  static const int flags[] = {O_CREAT, O_TRUNC,     O_EXCL,   O_APPEND,  O_NONBLOCK,
                              O_PATH,  O_DIRECTORY, O_DIRECT, O_NOFOLLOW};
  enum { FLAGS = sizeof flags / sizeof *flags };
  const char *path = getenv("TENON_ESCAPE_FILE");
  long reads = 0;
  survive_refusals();
  for (int mode = 0; mode <= O_ACCMODE; mode++)
    for (int set = 0; set < 1 << FLAGS; set++) {
      int wanted = mode | O_CLOEXEC;
      for (int i = 0; i < FLAGS; i++)
        if (set >> i & 1) wanted |= flags[i];
      const int file = (int)syscall(SYS_openat, AT_FDCWD, path, wanted, 0666);
      if (file < 0) continue;
      reads += pread(file, room, 1, 0) >= 0;
      void *mapped = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0);
      reads += mapped != MAP_FAILED && munmap(mapped, 4096) == 0;
      close(file);
    }
  return reads;
}
static int open_to_write(int flags) {
  return (int)syscall(SYS_openat, AT_FDCWD, getenv("TENON_ESCAPE_FILE"), O_WRONLY | flags);
}
/* Opens the file of a descriptor once more, which may be read. */
static long open_again(int file, int flags) {
  char path[100];
  survive_refusals();
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  return file >= 0 && opened((int)syscall(SYS_openat, AT_FDCWD, path, flags));
}
static long try_open_again(void) { return open_again(open_to_write(0), O_RDONLY); }
static long try_open_again_to_write(void) { return open_again(open_to_write(0), O_RDWR); }
static long try_open_path_again(void) { return open_again(open_to_write(O_PATH), O_RDONLY); }
static long try_mode_by_fcntl(void) {
  const int file = open_to_write(0);
  return file >= 0 && fcntl(file, F_SETFL, O_RDWR) == 0 && opened(file);
}
static long try_sendfile(void) {
  const int file = open_to_write(0);
  return reached(syscall(SYS_sendfile, 1, file, NULL, 1));
}
static long try_open_old(void) {
#if defined(__x86_64__)
  return opened((int)syscall(SYS_open, getenv("TENON_ESCAPE_FILE"), O_RDWR));
#else
  return 0;
#endif
}
static long try_open_with_create(void) {
  return opened((int)syscall(SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY | O_CREAT, 0));
}
static long try_openat2(void) {
  uint64_t how[3] = {0};
  return reached(syscall(437, AT_FDCWD, "/etc/passwd", how, sizeof how));
}
static long keep_file(void) { return kept = open("/etc/passwd", O_RDONLY); }
static long keep_folder(void) { return kept_folder = open("/etc", O_RDONLY | O_DIRECTORY); }
static long keep_writable(void) { return kept = open(getenv("TENON_ESCAPE_FILE"), O_RDWR); }
static long keep_path(void) { return kept = open("/etc/passwd", O_PATH); }
static long try_kept_path(void) { return open_again(kept, O_RDONLY); }
/* Sends a descriptor to the library's own socket. */
static long keep_sent(void) {
  int ends[2];
  char control[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec part = {room, 1};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  const int file = open("/etc/passwd", O_RDONLY);
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 0;
  struct cmsghdr *head = CMSG_FIRSTHDR(&message);
  *head = (struct cmsghdr){CMSG_LEN(sizeof file), SOL_SOCKET, SCM_RIGHTS};
  memcpy(CMSG_DATA(head), &file, sizeof file);
  kept = ends[1];
  return sendmsg(ends[0], &message, 0) == 1;
}
static long try_kept_sent(void) {
  int file = -1;
  char control[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec part = {room, 1};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  if (kept < 0 || recvmsg(kept, &message, 0) != 1 || !CMSG_FIRSTHDR(&message)) return 0;
  memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
  return opened(file);
}
/* Threads that copy descriptors of a file to other numbers while loading ends. */
enum { MOVERS = 8 };
static int must_stop;
static void *move_descriptor(void *argument) {
  int *at = argument;
  for (int i = 0; !__atomic_load_n(&must_stop, __ATOMIC_ACQUIRE); i++) {
    const int next = fcntl(*at, F_DUPFD, i % 2 ? 100 : 3);
    if (next < 0) break;
    close(*at);
    *at = next;
  }
  return argument;
}
static pthread_t movers[MOVERS];
static int moved[MOVERS];
static long keep_moving(void) {
  for (int i = 0; i < MOVERS; i++) {
    moved[i] = open("/etc/passwd", O_RDONLY);
    pthread_create(&movers[i], NULL, move_descriptor, &moved[i]);
  }
  return 0;
}
static long try_kept_moving(void) {
  __atomic_store_n(&must_stop, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < MOVERS; i++)
    pthread_join(movers[i], NULL);
  for (int i = 0; i < MOVERS; i++)
    if (pread(moved[i], room, 1, 0) == 1) return 1;
  return 0;
}
static long keep_many(void) {
  for (int i = 0; i < 200; i++)
    kept = open("/etc/passwd", O_RDONLY);
  return kept = dup2(kept, 255) >= 0 ? 255 : kept;
}
static long try_kept_folder(void) {
  return kept_folder >= 0 && opened(openat(kept_folder, "passwd", O_RDONLY));
}
static long try_kept_metadata(void) {
  struct stat about;
  return syscall(SYS_newfstatat, kept_folder, "shadow", &about, 0x1000) == 0;
}
static long try_metadata(void) {
  struct stat about;
  return syscall(SYS_newfstatat, AT_FDCWD, "/etc/shadow", &about, 0x1000) == 0;
}
static long try_statx(void) {
  struct statx about;
  return syscall(SYS_statx, AT_FDCWD, "/etc/shadow", 0x1000, STATX_SIZE, &about) == 0;
}
static long try_access(void) { return syscall(SYS_faccessat, AT_FDCWD, "/etc/shadow", F_OK) == 0; }
static long try_link_target(void) {
  return syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", room, sizeof room) > 0;
}
static long try_handle(void) { return reached(syscall(SYS_open_by_handle_at, 99, room, 0)); }
static long try_write_file(void) { return open("/tmp/escaped", O_WRONLY | O_CREAT, 0600) >= 0; }
static long try_rename(void) {
  return reached(syscall(SYS_renameat, AT_FDCWD, "/nowhere1", AT_FDCWD, "/nowhere2"));
}
static long try_unlink(void) { return reached(syscall(SYS_unlinkat, AT_FDCWD, "/nowhere1", 0)); }
static long try_link(void) {
  return reached(syscall(SYS_linkat, AT_FDCWD, "/nowhere1", AT_FDCWD, "/nowhere2", 0));
}
static long try_symlink(void) { return reached(syscall(SYS_symlinkat, "/etc", AT_FDCWD, "/no/w")); }
static long try_mknod(void) { return reached(syscall(SYS_mknodat, AT_FDCWD, "/no/w", 0600, 0)); }
static long try_chmod(void) { return reached(syscall(SYS_fchmodat, AT_FDCWD, "/nowhere", 0600)); }
static long try_chdir_root(void) { return reached(syscall(SYS_chroot, "/nowhere")); }
static long try_mount(void) { return reached(syscall(SYS_mount, "a", "/no", "tmpfs", 0, NULL)); }
static long try_inotify(void) { return reached(syscall(SYS_inotify_init1, 0)); }
static long try_fanotify(void) { return reached(syscall(SYS_fanotify_init, 0, 0)); }
static long try_named_memory(void) {
  const int file = open(NAMED_MEMORY, O_RDONLY);
  return file >= 0 && read(file, room, 4) > 0;
}
static long keep_named_memory(void) { return kept = open(NAMED_MEMORY, O_RDONLY); }
static long try_device(void) { return open("/dev/kmsg", O_RDONLY) >= 0; }
static long try_message_queue(void) { return reached(syscall(SYS_mq_open, "/a", O_RDONLY, 0, 0)); }
static long try_copy_range(void) {
  return reached(syscall(SYS_copy_file_range, 1, NULL, 1, NULL, 1, 0));
}
static long try_splice(void) { return reached(syscall(SYS_splice, 1, NULL, 1, NULL, 1, 0)); }

/* ---- descriptors 0 to 2, which the program has as well */

static long try_output_flags(void) { return succeeded(fcntl(1, F_SETFL, O_NONBLOCK)); }
static long try_output_flags_by_copy(void) {
  const int copy = dup(1);
  return copy >= 0 && succeeded(fcntl(copy, F_SETFL, O_NONBLOCK));
}
static long try_output_flags_by_dupfd(void) {
  const int copy = fcntl(1, F_DUPFD, 10);
  return copy >= 0 && succeeded(fcntl(copy, F_SETFL, O_NONBLOCK));
}
static long try_output_position(void) { return lseek(1, 0, SEEK_SET) == 0; }
static long try_output_overwrite(void) { return pwrite(1, "#", 1, 0) == 1; }
static long try_output_read(void) { return pread(1, room, 1, 0) == 1; }
static long try_output_truncate(void) { return succeeded(syscall(SYS_ftruncate, 1, 0)); }
static long try_terminal_input(void) { return succeeded(syscall(SYS_ioctl, 1, 0x5412, "x")); }
static long try_output_lock(void) {
  struct flock lock = {.l_type = F_WRLCK};
  return succeeded(fcntl(1, F_SETLK, &lock));
}

/* ---- limits and scheduling of the program */

static long try_limit(void) {
  const struct rlimit less = {100, 100};
  return syscall(SYS_prlimit64, host, RLIMIT_NOFILE, &less, NULL) == 0;
}
static long try_limit_at_high_address(void) {
  struct rlimit *less = mmap((void *)0x100000000, 4096, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (less == MAP_FAILED) return 0;
  *less = (struct rlimit){100, 100};
  return syscall(SYS_prlimit64, host, RLIMIT_NOFILE, less, NULL) == 0;
}
static long try_own_limit_at_high_address(void) {
  struct rlimit *more = mmap((void *)0x200000000, 4096, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (more == MAP_FAILED) return 0;
  *more = (struct rlimit){RLIM_INFINITY, RLIM_INFINITY};
  return syscall(SYS_prlimit64, 0, RLIMIT_DATA, more, NULL) == 0;
}
static long try_read_limit(void) {
  struct rlimit now;
  return syscall(SYS_prlimit64, host, RLIMIT_NOFILE, NULL, &now) == 0;
}
static long try_setrlimit(void) {
  const struct rlimit more = {RLIM_INFINITY, RLIM_INFINITY};
  return syscall(SYS_setrlimit, RLIMIT_DATA, &more) == 0;
}
static long try_priority(void) { return reached(syscall(SYS_setpriority, PRIO_PROCESS, host, 19)); }
static long try_io_priority(void) { return reached(syscall(SYS_ioprio_set, 1, host, 0)); }
static long try_affinity(void) {
  const unsigned long one = 1;
  return syscall(SYS_sched_setaffinity, host, sizeof one, &one) == 0;
}
static long try_read_affinity(void) {
  unsigned long mask[16];
  return syscall(SYS_sched_getaffinity, host, sizeof mask, mask) > 0;
}
static long try_scheduler(void) {
  const struct sched_param param = {0};
  return reached(syscall(SYS_sched_setscheduler, host, SCHED_IDLE, &param));
}
static long try_scheduler_attributes(void) {
  return reached(syscall(SYS_sched_setattr, host, NULL, 0));
}
static long try_read_scheduler(void) { return syscall(SYS_sched_getscheduler, host) >= 0; }
static long try_read_parameters(void) {
  struct sched_param param;
  return syscall(SYS_sched_getparam, host, &param) == 0;
}
static long try_clock(void) {
  struct timespec now;
  const clockid_t clock = (clockid_t)(~(unsigned)host << 3 | 2);
  return syscall(SYS_clock_gettime, clock, &now) == 0;
}
static long try_priority_futex(void) {
  static uint32_t word;
  const struct timespec soon = {0, 1};
  word = (uint32_t)host;
  return reached(syscall(SYS_futex, &word, FUTEX_LOCK_PI, 0, &soon, NULL, 0)) || errno == ETIMEDOUT;
}
static long try_barrier(void) { return syscall(SYS_membarrier, 1 /* GLOBAL */, 0, 0) == 0; }
static long try_move_pages(void) {
  return reached(syscall(SYS_move_pages, host, 0, NULL, NULL, NULL, 0));
}
static long try_migrate_pages(void) {
  return reached(syscall(SYS_migrate_pages, host, 0, NULL, NULL));
}
static long try_bind_all(void) {
  return syscall(SYS_mbind, room, 0, 0, NULL, 0, 4 /* MPOL_MF_MOVE_ALL */) == 0;
}

/* ---- memory beyond the limit of 256 MiB */

enum { STEP = 32 };
/* Touches memory in steps until it has `most` MiB. */
static long touch(void *(*take)(size_t), size_t most) {
  size_t got = 0;
  for (; got < most; got += STEP) {
    char *block = take(STEP * MIB);
    if (!block) break;
    for (size_t i = 0; i < STEP * MIB; i += 4096)
      block[i] = 1;
  }
  return got >= most;
}
static void *block_of(void *mapped) { return mapped == MAP_FAILED ? NULL : mapped; }
static void *take_plain(size_t size) {
  return block_of(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}
static void *take_stack(size_t size) {
  return block_of(mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_NORESERVE, -1, 0));
}
static void *take_shared(size_t size) {
  return block_of(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
}
static void *take_read_only(size_t size) { /* returns the block before it makes it read-only */
  static char *last;
  static size_t last_size;
  if (last) mprotect(last, last_size, PROT_READ);
  last = take_plain(size);
  last_size = size;
  return last;
}
static long try_memory(void) { return touch(take_plain, 512); }
static long try_growing_stack(void) { return touch(take_stack, 512); }
static long try_shared_memory(void) { return touch(take_shared, 512); }
static long try_read_only_memory(void) { return touch(take_read_only, 1024); }
static long try_read_only_memory_without_end(void) { return touch(take_read_only, 3584); }
static long try_remapped_stack(void) {
  char line[400];
  unsigned long begin = 0, end = 0;
  FILE *file = fopen("/proc/self/maps", "r");
  while (file && fgets(line, sizeof line, file))
    if (strstr(line, "[stack]") && sscanf(line, "%lx-%lx", &begin, &end) == 2) break;
  if (file) fclose(file);
  if (!begin) return 0;
  char *moved = mremap((void *)begin, 4096, 600 * MIB, MREMAP_MAYMOVE);
  if (moved == MAP_FAILED) return 0;
  for (size_t i = 4096; i < 600 * MIB; i += 4096)
    moved[i] = 1;
  return 1;
}
static long try_main_stack(void) { /* the stack of the first thread grows by itself */
  struct rlimit now;
  return getrlimit(RLIMIT_STACK, &now) == 0 && now.rlim_cur > 64 * MIB;
}
static long try_memfd(void) { return reached(syscall(SYS_memfd_create, "a", 0)); }
static long try_memfd_secret(void) { return reached(syscall(447, 0)); }
static long try_shmget(void) { return reached(syscall(SYS_shmget, 0, 4096, 0)); }
static long try_shmat(void) { return reached(syscall(SYS_shmat, 0, NULL, 0)); }
static long try_huge_pages(void) {
  return mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1,
              0) != MAP_FAILED ||
         errno != ENOMEM;
}
static long try_zero_device(void) {
  const int file = open("/dev/zero", O_RDONLY);
  volatile char *block = mmap(NULL, 600 * MIB, PROT_READ, MAP_SHARED, file, 0);
  if (file < 0 || block == MAP_FAILED) return 0;
  long sum = 1;
  for (size_t i = 0; i < 600 * MIB; i += 4096)
    sum += block[i];
  return sum;
}
static long try_lock_all(void) { return reached(syscall(SYS_mlockall, 1)); }
static long try_pipe_size(void) {
  int ends[2];
  return pipe(ends) == 0 && fcntl(ends[0], 1031 /* F_SETPIPE_SZ */, 1 << 20) > 0;
}
static long try_poison(void) {
  return reached(syscall(SYS_madvise, 16, 4096, 100)) && errno != EINVAL;
}
static long try_merge(void) {
  void *block = take_plain(4096);
  return block && syscall(SYS_madvise, block, 4096, MADV_MERGEABLE) == 0;
}
static long try_userfaultfd(void) { return reached(syscall(SYS_userfaultfd, 0)); }

/* ---- threads */

static void *sleep_forever(void *argument) {
  for (;;)
    pause();
  return argument;
}
static long try_threads(void) {
  enum { MOST = 4000, ENOUGH = 1500 };
  pthread_attr_t attributes;
  pthread_t thread;
  int count = 0;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 16384);
  while (count < MOST && pthread_create(&thread, &attributes, sleep_forever, NULL) == 0)
    count++;
  return count > ENOUGH;
}

/* ---- network and kernel services */

static long try_socket(void) { return reached(socket(AF_INET, SOCK_STREAM, 0)); }
static long try_unix_socket(void) { return reached(socket(AF_UNIX, SOCK_STREAM, 0)); }
static long try_netlink(void) { return reached(socket(AF_NETLINK, SOCK_RAW, 0)); }
static long try_crypto_socket(void) { return reached(socket(38 /* AF_ALG */, SOCK_SEQPACKET, 0)); }
static long try_socket_pair(void) {
  int ends[2];
  return reached(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
}
static long keep_socket(void) { return kept = socket(AF_INET, SOCK_DGRAM, 0); }
static long try_kept_socket(void) { return kept >= 0 && fcntl(kept, F_GETFD) >= 0; }
static long try_received_descriptor(void) { return reached(syscall(SYS_recvmsg, 3, NULL, 0)); }
static long try_io_uring(void) { return reached(syscall(425, 8, room)); }
static long try_bpf(void) { return reached(syscall(SYS_bpf, 0, NULL, 0)); }
static long try_perf(void) { return reached(syscall(SYS_perf_event_open, NULL, host, -1, -1, 0)); }
static long try_keys(void) { return reached(syscall(SYS_keyctl, 0, -3, 0, 0, 0)); }
static long try_add_key(void) { return reached(syscall(SYS_add_key, "user", "a", "b", 1, -3)); }
static long try_modules(void) { return reached(syscall(SYS_init_module, NULL, 0, "")); }
static long try_reboot(void) { return reached(syscall(SYS_reboot, 0, 0, 0, NULL)); }
static long try_time(void) { return reached(syscall(SYS_clock_settime, 0, NULL)); }
static long try_syslog(void) { return reached(syscall(SYS_syslog, 10, NULL, 0)); }
static long try_aio(void) { return reached(syscall(SYS_io_setup, 0, NULL)); }

/* ---- the filters themselves */

static long install(struct sock_filter *code, unsigned short size, unsigned flags) {
  struct sock_fprog program = {size, code};
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
/* Answers the call that installs the last filter with success, so that it is not installed. */
static long fake_success(void) {
  struct sock_filter code[] = {LOAD(nr), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 0, 1),
                               BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 0),
                               BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  return install(code, 4, SECCOMP_FILTER_FLAG_TSYNC);
}
/* The same, and the call that checks the filter fails as it should. */
static long fake_everything(void) {
  struct sock_filter code[] = {LOAD(nr),
                               BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 0, 4),
                               LOAD(args[2]),
                               BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
                               BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                               BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 0),
                               BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  return install(code, 7, SECCOMP_FILTER_FLAG_TSYNC);
}
static long fake_notification(void) { /* a filter whose answers come from a listener of its own */
  struct sock_filter code[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF)};
  return install(code, 1, SECCOMP_FILTER_FLAG_NEW_LISTENER);
}
static long try_listener(void) { return fake_notification() >= 0; }
static long try_seccomp(void) {
  struct sock_filter code[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  return install(code, 1, 0) == 0;
}
static long try_prctl_seccomp(void) { return succeeded(prctl(PR_SET_SECCOMP, 1, 0)); }
static long try_ignored_signal(void) {
  signal(SIGSYS, SIG_IGN);
  return opened(open("/etc/passwd", O_RDONLY));
}
static long try_own_handler(void) {
  signal(SIGSYS, (void (*)(int))(void *)nothing);
  return opened(open("/etc/passwd", O_RDONLY));
}
static long try_blocked_signal(void) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  return opened(open("/etc/passwd", O_RDONLY));
}
static long try_other_numbers(void) {
#if defined(__x86_64__)
  return syscall(0x40000000 | SYS_getppid) > 0; /* x32 */
#else
  return 0;
#endif
}
static long try_other_machine(void) {
#if defined(__x86_64__)
  long result;
  __asm__ volatile("int $0x80" : "=a"(result) : "a"(64 /* getppid */) : "memory");
  return result > 0;
#else
  return 0;
#endif
}
/* A thread of the constructor that opens a file after loading. */
static int from_thread = -1, may_go;
static void *open_later(void *argument) {
  while (!__atomic_load_n(&may_go, __ATOMIC_ACQUIRE))
    sched_yield();
  __atomic_store_n(&from_thread, open("/etc/passwd", O_RDONLY), __ATOMIC_RELEASE);
  return argument;
}
static pthread_t later;
static long start_thread(void) { return pthread_create(&later, NULL, open_later, NULL); }
static long try_thread_of_loading(void) {
  __atomic_store_n(&may_go, 1, __ATOMIC_RELEASE);
  pthread_join(later, NULL);
  return opened(from_thread);
}

typedef struct attempt_t {
  const char *name;
  long (*act)(void);
  long (*before)(void); /* what the constructor does first */
} attempt_t;
#define ATTEMPT(name)                                                                              \
  { #name, try_##name, NULL }
static const attempt_t attempts[] = {
    ATTEMPT(fork),
    ATTEMPT(clone3),
    ATTEMPT(thread_with_own_descriptors),
    ATTEMPT(thread_in_namespace),
    ATTEMPT(execve),
    ATTEMPT(execveat),
    ATTEMPT(unshare),
    ATTEMPT(setns),
    ATTEMPT(setsid),
    ATTEMPT(setpgid),
    ATTEMPT(survive),
    ATTEMPT(dumpable),
    ATTEMPT(personality),
    ATTEMPT(setuid),
    ATTEMPT(capabilities),
    ATTEMPT(kill),
    ATTEMPT(kill_group),
    ATTEMPT(kill_all),
    ATTEMPT(kill_supervisor),
    ATTEMPT(tkill),
    ATTEMPT(tgkill),
    ATTEMPT(sigqueue),
    ATTEMPT(tgsigqueue),
    ATTEMPT(pidfd),
    ATTEMPT(pidfd_signal),
    ATTEMPT(owner),
    ATTEMPT(owner_ex),
    ATTEMPT(async),
    ATTEMPT(ioctl_owner),
    ATTEMPT(timer),
    ATTEMPT(setitimer),
    {"dnotify", try_dnotify, keep_folder},
    {"lease", try_lease, keep_file},
    ATTEMPT(ptrace),
    ATTEMPT(read_memory),
    ATTEMPT(write_memory),
    ATTEMPT(process_madvise),
    ATTEMPT(get_descriptor),
    ATTEMPT(kcmp),
    ATTEMPT(robust_list),
    ATTEMPT(proc_memory),
    ATTEMPT(proc_environment),
    ATTEMPT(proc_maps),
    ATTEMPT(proc_status),
    ATTEMPT(proc_command),
    ATTEMPT(proc_descriptor),
    ATTEMPT(proc_root),
    ATTEMPT(proc_by_self),
    ATTEMPT(proc_by_working_folder),
    ATTEMPT(proc_thread),
    ATTEMPT(proc_supervisor),
    ATTEMPT(proc_write),
    ATTEMPT(proc_memory_write),
    {"kept_memory", try_kept_memory, keep_memory},
    ATTEMPT(environment),
    ATTEMPT(own_environ),
    ATTEMPT(read_file),
    ATTEMPT(read_creat),
    ATTEMPT(open_with_create),
    ATTEMPT(open_old),
    ATTEMPT(every_flag),
    ATTEMPT(open_again),
    ATTEMPT(open_again_to_write),
    ATTEMPT(open_path_again),
    ATTEMPT(mode_by_fcntl),
    ATTEMPT(sendfile),
    ATTEMPT(openat2),
    {"kept_folder", try_kept_folder, keep_folder},
    {"kept_metadata", try_kept_metadata, keep_folder},
    ATTEMPT(metadata),
    ATTEMPT(statx),
    ATTEMPT(access),
    ATTEMPT(link_target),
    ATTEMPT(handle),
    ATTEMPT(write_file),
    ATTEMPT(rename),
    ATTEMPT(unlink),
    ATTEMPT(link),
    ATTEMPT(symlink),
    ATTEMPT(mknod),
    ATTEMPT(chmod),
    ATTEMPT(chdir_root),
    ATTEMPT(mount),
    ATTEMPT(inotify),
    ATTEMPT(fanotify),
    ATTEMPT(named_memory),
    ATTEMPT(device),
    ATTEMPT(message_queue),
    ATTEMPT(copy_range),
    ATTEMPT(splice),
    ATTEMPT(output_flags),
    ATTEMPT(output_flags_by_copy),
    ATTEMPT(output_flags_by_dupfd),
    ATTEMPT(output_position),
    ATTEMPT(output_overwrite),
    ATTEMPT(output_read),
    ATTEMPT(output_truncate),
    ATTEMPT(terminal_input),
    ATTEMPT(output_lock),
    ATTEMPT(limit),
    ATTEMPT(limit_at_high_address),
    ATTEMPT(own_limit_at_high_address),
    ATTEMPT(read_limit),
    ATTEMPT(setrlimit),
    ATTEMPT(priority),
    ATTEMPT(io_priority),
    ATTEMPT(affinity),
    ATTEMPT(read_affinity),
    ATTEMPT(scheduler),
    ATTEMPT(scheduler_attributes),
    ATTEMPT(read_scheduler),
    ATTEMPT(read_parameters),
    ATTEMPT(clock),
    ATTEMPT(priority_futex),
    ATTEMPT(barrier),
    ATTEMPT(move_pages),
    ATTEMPT(migrate_pages),
    ATTEMPT(bind_all),
    ATTEMPT(memory),
    ATTEMPT(growing_stack),
    ATTEMPT(shared_memory),
    ATTEMPT(read_only_memory),
    ATTEMPT(read_only_memory_without_end),
    ATTEMPT(remapped_stack),
    ATTEMPT(main_stack),
    ATTEMPT(memfd),
    ATTEMPT(memfd_secret),
    ATTEMPT(shmget),
    ATTEMPT(shmat),
    ATTEMPT(huge_pages),
    ATTEMPT(zero_device),
    ATTEMPT(lock_all),
    ATTEMPT(pipe_size),
    ATTEMPT(poison),
    ATTEMPT(merge),
    ATTEMPT(userfaultfd),
    ATTEMPT(threads),
    ATTEMPT(socket),
    ATTEMPT(unix_socket),
    ATTEMPT(netlink),
    ATTEMPT(crypto_socket),
    ATTEMPT(socket_pair),
    ATTEMPT(received_descriptor),
    ATTEMPT(io_uring),
    ATTEMPT(bpf),
    ATTEMPT(perf),
    ATTEMPT(keys),
    ATTEMPT(add_key),
    ATTEMPT(modules),
    ATTEMPT(reboot),
    ATTEMPT(time),
    ATTEMPT(syslog),
    ATTEMPT(aio),
    ATTEMPT(listener),
    ATTEMPT(seccomp),
    ATTEMPT(prctl_seccomp),
    ATTEMPT(ignored_signal),
    ATTEMPT(own_handler),
    ATTEMPT(blocked_signal),
    ATTEMPT(other_numbers),
    ATTEMPT(other_machine),
    {"thread_of_loading", try_thread_of_loading, start_thread},
    {"kept_file", try_kept_file, keep_file},
    {"kept_environment", try_kept_file, keep_environment},
    {"kept_of_many", try_kept_file, keep_many},
    {"kept_named_memory", try_kept_file, keep_named_memory},
    {"kept_writable", try_kept_file, keep_writable},
    {"kept_path", try_kept_path, keep_path},
    {"kept_moving", try_kept_moving, keep_moving},
    {"kept_socket", try_kept_socket, keep_socket},
    {"kept_sent", try_kept_sent, keep_sent},
    {"faked_filter", try_read_file, fake_success},
    {"faked_filter_and_check", try_read_file, fake_everything},
    {"faked_filter_and_check_to_write", try_read_creat, fake_everything},
    {"faked_filter_metadata", try_access, fake_everything},
};

static const attempt_t *chosen;
static long outcome = -1;

__attribute__((constructor)) static void begin(void) {
  const char *name = getenv("TENON_ESCAPE");
  const char *phase = getenv("TENON_ESCAPE_PHASE");
  const char *address = getenv("TENON_ESCAPE_SECRET");
  host = number_of("TENON_ESCAPE_HOST");
  secret = address ? (char *)(uintptr_t)strtoull(address, NULL, 16) : NULL;
  for (size_t i = 0; name && i < sizeof attempts / sizeof *attempts; i++)
    if (!strcmp(attempts[i].name, name)) chosen = &attempts[i];
  if (!chosen || !phase) return;
  if (chosen->before) chosen->before();
  if (!strcmp(phase, "load")) outcome = chosen->act() > 0;
}

static tenon_status_t act(tenon_call_t *call) {
  const char *phase = getenv("TENON_ESCAPE_PHASE");
  if (!chosen || !phase) return tenon_fail(call, TENON_NOT_FOUND, "there is no such attempt");
  if (!strcmp(phase, "call")) outcome = chosen->act() > 0;
  ((float *)call->outputs[0]->data)[0] = (float)outcome;
  return TENON_OK;
}

TENON_LIBRARY(escape, "1.0.0",
              TENON_OP("act(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"),
                       TENON_SHAPES("out = x"), TENON_KERNEL("cpu", act)))
