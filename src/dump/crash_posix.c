/* The signal handlers of crash reports; see crash.h. Handlers that were installed before are called
 * afterwards, and the process ends as it would have without a report. A fault outside a call of an
 * operator is left to those handlers. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <tenon/tenon.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include "base/environment.h"
#include "base/status.h"
#include "base/thread.h"
#include "dump/crash.h"
#include "dump/watch.h"

enum {
  STACK = 64 << 10,
  GUARD = 64 << 10, /* around it, so that no overrun reaches it */
  COPY_STACK = 1 << 20,
  SECONDS = 10,
};
static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
enum { SIGNALS = sizeof signals / sizeof *signals };
static struct sigaction previous[SIGNALS];
static int is_on;         /* protected by the lock */
static int64_t reporting; /* atomic: the thread that reports; 0: none */
static tn_mutex_t lock = TN_MUTEX_INIT;
static tn_crash_t crash;

void tn_crash_write(const char *text, size_t size) {
  while (size) {
    ssize_t written = write(STDERR_FILENO, text, size);
    if (written <= 0 && errno != EINTR) return;
    if (written > 0) {
      text += written;
      size -= (size_t)written;
    }
  }
}

/* Gives a thread a signal stack, so that a stack overflow can be reported. A thread that already
 * has a signal stack keeps it. */
static void *add_signal_stack(void) {
  stack_t own = {0};
  stack_t fresh = {0};
  if (sigaltstack(NULL, &own) != 0 || !(own.ss_flags & SS_DISABLE)) return NULL;
  char *memory =
      mmap(NULL, STACK + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) return NULL;
  fresh.ss_sp = memory + GUARD;
  fresh.ss_size = STACK;
  if (mprotect(fresh.ss_sp, STACK, PROT_READ | PROT_WRITE) == 0 && sigaltstack(&fresh, NULL) == 0)
    return fresh.ss_sp;
  (void)munmap(memory, STACK + 2 * GUARD);
  return NULL;
}

static void remove_signal_stack(void *memory) {
  stack_t own = {0};
  stack_t none = {.ss_flags = SS_DISABLE};
  if (sigaltstack(NULL, &own) == 0 && own.ss_sp == memory && sigaltstack(&none, NULL) != 0)
    return; /* in use: it stays */
  (void)munmap((char *)memory - GUARD, STACK + 2 * GUARD);
}

static void read_registers(const ucontext_t *context) {
  tn_stack_t *stack = &crash.stack;
#if defined(__x86_64__)
  stack->registers[0] = (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
  crash.program_counter = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
  stack->register_count = 1;
  for (int i = 0; i < 16; i++)
    if (i != REG_RSP)
      stack->registers[stack->register_count++] = (uintptr_t)context->uc_mcontext.gregs[i];
#elif defined(__aarch64__)
  stack->registers[0] = (uintptr_t)context->uc_mcontext.sp;
  crash.program_counter = (uintptr_t)context->uc_mcontext.pc;
  stack->register_count = 1;
  for (int i = 0; i < 31; i++)
    stack->registers[stack->register_count++] = (uintptr_t)context->uc_mcontext.regs[i];
#else
  (void)context;
  stack->registers[0] = (uintptr_t)__builtin_frame_address(0);
  stack->register_count = 1;
#endif
}

/* Finds the return addresses from the crash on. After a jump to an invalid address, the first one
 * is taken from the stack. */
static void read_frames(void) {
  tn_stack_t *stack = &crash.stack;
  static void *all[TN_STACK_FRAMES + 8];
  int count = backtrace(all, TN_STACK_FRAMES + 8);
  int first = 0;
  uintptr_t back = 0;
  while (first < count && (uintptr_t)all[first] != crash.program_counter)
    first++;
  stack->frame_count = 0;
  if (first == count) {
    stack->frames[stack->frame_count++] = (void *)crash.program_counter;
    if (tn_peek((const void *)stack->registers[0], &back, sizeof back))
      stack->frames[stack->frame_count++] = (void *)back;
  }
  for (; first < count && stack->frame_count < TN_STACK_FRAMES; first++)
    stack->frames[stack->frame_count++] = all[first];
  for (int i = 0; i < stack->frame_count; i++)
    stack->functions[i] = _Unwind_FindEnclosingFunction((char *)stack->frames[i] - (i > 0));
}

/* A stack of its own, because a handler's stack may be small. */
static char *copy_stack;

static int copy_main(void *work) {
  sigset_t none;
  for (int i = 0; i < SIGNALS; i++)
    (void)signal(signals[i], SIG_DFL);
  (void)signal(SIGALRM, SIG_DFL);
  sigemptyset(&none);
  (void)sigprocmask(SIG_SETMASK, &none, NULL);
  (void)alarm(SECONDS);
  _exit((*(bool (**)(const tn_crash_t *))work)(&crash) ? 0 : 1);
}

/* Runs work that needs an allocator, locks and files in a copy of the process, where it can do no
 * more damage, for a limited time. */
static bool run_in_copy(bool (*work)(const tn_crash_t *crash)) {
  int status = 0;
  pid_t child = copy_stack ? clone(copy_main, copy_stack + COPY_STACK, SIGCHLD, &work) : -1;
  if (child < 0) return false;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return false;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* A report reads memory that the crash may have destroyed: the heap that the loader and the
 * unwinder use, for example. A fault within a step ends this step only. */
static sigjmp_buf escape;
static volatile sig_atomic_t can_escape;

static bool run_guarded(void (*step)(void)) {
  if (sigsetjmp(escape, 0) != 0) {
    can_escape = 0;
    return false;
  }
  can_escape = 1;
  step();
  can_escape = 0;
  return true;
}

static volatile bool has_call; /* the report names the call */

static void write_call(void) {
  tn_stack_search(&crash.stack);
  has_call = tn_crash_write_call(&crash);
}

static void write_details(void) {
  static const char title[] = "  stack\n";
  tn_crash_write(title, sizeof title - 1);
  if (!run_in_copy(tn_crash_write_frames))
    backtrace_symbols_fd(crash.stack.frames, crash.stack.frame_count, STDERR_FILENO);
  const char *words =
      tn_record_is_on()
          ? "  not saved\n"
          : "  to save such calls for `tenon replay`, set TENON_RECORD=FOLDER in the environment\n";
  if (!tn_record_is_on() || !run_in_copy(tn_crash_save_call)) tn_crash_write(words, strlen(words));
}

static void write_report(void) {
  has_call = false;
  bool is_whole = run_guarded(read_frames);
  if (!is_whole) {
    crash.stack.frames[0] = (void *)crash.program_counter;
    crash.stack.functions[0] = NULL;
    crash.stack.frame_count = 1;
  }
  is_whole &= run_guarded(write_call);
  if (!has_call || !run_guarded(write_details)) (void)tn_crash_write_location(&crash, is_whole);
}

/* Reports that a function of an operator calls exit(), which ends the program without an error. */
static void handle_exit(int status, void *context) {
  int64_t none = 0;
  (void)context;
  if (!is_on || !__atomic_compare_exchange_n(&reporting, &none, tn_thread_id(), 0, __ATOMIC_ACQ_REL,
                                             __ATOMIC_ACQUIRE))
    return;
  memset(&crash, 0, sizeof crash);
  crash.exit_status = status;
  crash.stack.is_exact = true;
  crash.stack.registers[0] = (uintptr_t)__builtin_frame_address(0);
  crash.stack.register_count = 1;
  crash.stack.frame_count = backtrace(crash.stack.frames, TN_STACK_FRAMES);
  for (int i = 0; i < crash.stack.frame_count; i++)
    crash.stack.functions[i] = _Unwind_FindEnclosingFunction((char *)crash.stack.frames[i] - 1);
  tn_stack_search(&crash.stack);
  (void)tn_crash_write_call(&crash);
  __atomic_store_n(&reporting, 0, __ATOMIC_RELEASE);
}

static void call_previous_handler(int number, siginfo_t *info, void *context) {
  int i = 0;
  while (i < SIGNALS && signals[i] != number)
    i++;
  const struct sigaction *old = &previous[i];
  if (old->sa_flags & SA_SIGINFO && old->sa_sigaction) {
    old->sa_sigaction(number, info, context);
  } else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN) {
    old->sa_handler(number);
  } else {
    struct sigaction standard = {.sa_handler = SIG_DFL};
    (void)sigaction(number, &standard,
                    /* The instruction faults again. A signal that was sent is sent again. */
                    NULL);
    if (info->si_code <= 0) (void)syscall(SYS_tgkill, getpid(), gettid(), number);
  }
}

static void handle_signal(int number, siginfo_t *info, void *context) {
  int64_t none = 0;
  int64_t me = tn_thread_id();
  int error = errno;
  if (__atomic_compare_exchange_n(&reporting, &none, me, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    memset(&crash, 0, sizeof crash);
    crash.signal = number;
    crash.code = info->si_code;
    crash.address = (uintptr_t)info->si_addr;
    crash.thread = me;
    crash.stack_low = tn_thread_block ? tn_thread_block->stack_low : 0;
    read_registers(context);
    write_report();
    __atomic_store_n(&reporting, 0, __ATOMIC_RELEASE);
  } else if (none == me && can_escape) {
    siglongjmp(escape, 1);
  } else if (none != me) {
    /* Another thread's report is written first. */
    for (int i = 0; i < 2 * SECONDS * 100 && __atomic_load_n(&reporting, __ATOMIC_ACQUIRE); i++)
      (void)nanosleep(&(struct timespec){0, 10000000}, NULL);
  }
  errno = error;
  call_previous_handler(number, info, context);
}

tenon_status_t tenon_crash_report(int32_t wanted) {
  void *frames[2];
  struct sigaction action = {.sa_sigaction = handle_signal,
                             .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
  tenon_status_t status = TENON_OK;
  tn_mutex_lock(&lock);
  if (wanted && !is_on) {
    /* Loads what backtrace() needs now rather than in a handler. */
    (void)backtrace(frames, 2);
    void *memory = copy_stack ? copy_stack
                              : mmap(NULL, COPY_STACK, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!copy_stack) (void)on_exit(handle_exit, NULL);
    copy_stack = memory == MAP_FAILED ? NULL : memory; /* never freed */
    tn_thread_hooks_set(add_signal_stack, remove_signal_stack);
    for (int i = 0; i < SIGNALS; i++)
      if (sigaction(signals[i], &action, &previous[i]) != 0)
        status = tn_fail(TENON_UNAVAILABLE, "crash reports: cannot install a signal handler: %s",
                         strerror(errno));
  }
  for (int i = 0; !wanted && is_on && i < SIGNALS; i++) {
    struct sigaction now;
    /* Otherwise a later handler calls ours. */
    if (sigaction(signals[i], NULL, &now) == 0 && now.sa_sigaction == handle_signal)
      (void)sigaction(signals[i], &previous[i], NULL);
  }
  if (!wanted) tn_thread_hooks_set(NULL, remove_signal_stack);
  is_on = wanted != 0;
  tn_mutex_unlock(&lock);
  return status;
}

void tn_crash_start(void) {
  const char *said = tn_environment("TENON_CRASH");
  if (said && strcmp(said, "1") == 0) (void)tenon_crash_report(1);
}
