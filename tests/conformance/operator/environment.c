/* Checks that a call leaves the state of the process unchanged: rounding mode, locale, current
 * folder, signal handlers and open files. */
#include <dirent.h>
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run.h"

enum {
  FILES = 256,
  SIGNALS = 64,
};

typedef struct open_file_t {
  int descriptor;
  dev_t device;
  ino_t node;
  mode_t kind;
} open_file_t;

typedef struct environment_t {
  int rounding;
  unsigned control; /* floating-point control: flushing of denormals, exception masks */
  mode_t mask;
  char locale[256];
  char folder[4096];
  void (*handlers[SIGNALS])(int);
  sigset_t blocked;
  int file_count;
  open_file_t files[FILES];
} environment_t;

static unsigned float_control(void) {
#if defined(__x86_64__)
  return __builtin_ia32_stmxcsr() & 0xffc0u; /* without the status flags */
#elif defined(__aarch64__)
  unsigned long control;
  __asm__("mrs %0, fpcr" : "=r"(control));
  return (unsigned)control;
#else
  return 0;
#endif
}

static void list_files(environment_t *e) {
  DIR *folder = opendir("/proc/self/fd");
  struct stat status;
  if (!folder) return;
  for (struct dirent *entry; (entry = readdir(folder)) && e->file_count < FILES;) {
    int descriptor = atoi(entry->d_name);
    if (entry->d_name[0] == '.' || descriptor == dirfd(folder) || fstat(descriptor, &status) != 0)
      continue;
    e->files[e->file_count++] =
        (open_file_t){descriptor, status.st_dev, status.st_ino, status.st_mode & S_IFMT};
  }
  closedir(folder);
}

static void read_environment(environment_t *e) {
  memset(e, 0, sizeof *e);
  e->rounding = fegetround();
  e->control = float_control();
  e->mask = umask(0);
  umask(e->mask);
  const char *locale = setlocale(LC_ALL, NULL);
  snprintf(e->locale, sizeof e->locale, "%s", locale ? locale : "?");
  if (!getcwd(e->folder, sizeof e->folder)) snprintf(e->folder, sizeof e->folder, "?");
  for (int s = 1; s < SIGNALS; s++) {
    struct sigaction action;
    if (sigaction(s, NULL, &action) == 0)
      e->handlers[s] = action.sa_flags & SA_SIGINFO ? (void (*)(int))(uintptr_t)action.sa_sigaction
                                                    : action.sa_handler;
  }
  pthread_sigmask(SIG_SETMASK, NULL, &e->blocked);
  list_files(e);
}

static const open_file_t *find_file(const environment_t *e, const open_file_t *file) {
  for (int i = 0; i < e->file_count; i++)
    if (e->files[i].descriptor == file->descriptor) return &e->files[i];
  return NULL;
}

static void compare_files(const example_t *example, const environment_t *before,
                          const environment_t *after) {
  static const char id[] = "environment.files";
  static const char expected[] = "a call leaves open files unchanged";
  static const char advice[] = "close the files that the library opened, and no others";
  for (int i = 0; i < before->file_count; i++) {
    const open_file_t *then = &before->files[i];
    const open_file_t *now = find_file(after, then);
    if (!now)
      finding(example, id, expected, advice,
              "file descriptor %d, which was open before the call, is closed", then->descriptor);
    else if (now->device != then->device || now->node != then->node)
      finding(example, id, expected, advice, "file descriptor %d refers to a different file",
              then->descriptor);
  }
  for (int i = 0; i < after->file_count; i++)
    if (!find_file(before, &after->files[i]))
      finding(example, id, expected, advice,
              "file descriptor %d was opened by the call and is still open",
              after->files[i].descriptor);
}

static void compare_environments(const example_t *example, const environment_t *before,
                                 const environment_t *after) {
  if (before->rounding != after->rounding || before->control != after->control)
    finding(example, "environment.floats", "a call leaves the floating-point environment unchanged",
            "restore what fegetenv returned at the start, also on early returns",
            "the rounding mode was %d and is %d; the control word was 0x%x and is 0x%x",
            before->rounding, after->rounding, before->control, after->control);
  if (strcmp(before->locale, after->locale) != 0)
    finding(example, "environment.locale", "a call leaves the locale of the process unchanged",
            "use newlocale and the functions whose names end in _l", "the locale was %s and is %s",
            before->locale, after->locale);
  if (strcmp(before->folder, after->folder) != 0 || before->mask != after->mask)
    finding(example, "environment.folder",
            "a call leaves the current folder and the umask unchanged",
            "use openat, or absolute paths",
            "the folder was %s and is %s; the umask was %03o and is %03o", before->folder,
            after->folder, before->mask, after->mask);
  for (int s = 1; s < SIGNALS; s++)
    if (before->handlers[s] != after->handlers[s] ||
        sigismember(&before->blocked, s) != sigismember(&after->blocked, s))
      finding(example, "environment.signals",
              "a call leaves signal handlers and masks to the program",
              "handle errors where they occur",
              "%s is handled, ignored or blocked differently after the call", strsignal(s));
  compare_files(example, before, after);
}

/* Lets the host allocate what it needs once; this is not the operator's doing. */
static void warm_up(void) {
  const tenon_op_t *add;
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *y = NULL;
  int64_t shape[1] = {1 << 16};
  if (tenon_op_find("core::add", &add) != TENON_OK ||
      tenon_tensor_create(tenon_dtype(TENON_F32), 1, shape, &x) != TENON_OK)
    return;
  memset(x->data, 0, (size_t)shape[0] * 4);
  if (tenon_op_call(add, NULL, (tenon_tensor_t *[]){x, x}, &y, 0) == TENON_OK)
    tenon_tensor_release(y);
  tenon_tensor_release(x);
}

static void run_environment(const subject_t *subject) {
  examples_t all = examples(subject, false);
  warm_up();
  for (example_t *t; !has_findings() && (t = examples_next(&all));) {
    environment_t before, after;
    ran_t ran;
    read_environment(&before);
    run_plainly(t, &ran);
    read_environment(&after);
    fesetround(before.rounding);
    compare_environments(t, &before, &after);
    ran_free(&ran);
  }
}

static const char *lacks_kernel(const subject_t *subject) {
  return subject_runs_code(subject) ? NULL : "it has no kernel";
}

const check_t checks_environment[] = {{"environment.kept",
                                       "A call leaves rounding mode, locale, current folder, "
                                       "signals and open files of the process unchanged.",
                                       "environment.floats environment.locale environment.folder "
                                       "environment.signals environment.files",
                                       lacks_kernel, run_environment},
                                      {NULL, NULL, NULL, NULL, NULL}};
