/* Supervises a forked child on POSIX; see supervise.h. The child sends records through a pipe. The
 * supervisor asks for the child's end as well as for the end of the pipe, because processes that a
 * library has started may keep the pipe open. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

enum {
  STATE_RUNS,
  STATE_LOADS,
  STATE_FINISHED,
};

enum { NAME_CAPACITY = 1024, ASK_MS = 100 };

typedef struct record_t {
  int32_t state;
  int32_t code;
  char library[NAME_CAPACITY];
} record_t;

typedef struct watch_t {
  const supervise_t *settings;
  pid_t child;
  int pipe;
  record_t last;   /* what the child stated last */
  double deadline; /* 0: none */
  bool is_late;    /* the child was killed because of the deadline */
} watch_t;

static int pipe_to_supervisor = -1; /* in the child */
static volatile sig_atomic_t supervised_child;

static double clock_ms(void) {
  struct timespec now = {0, 0};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* A record is smaller than PIPE_BUF, so it is written as a whole. */
static void send_record(int32_t state, int32_t code, const char *library) {
  record_t record = {.state = state, .code = code};
  if (pipe_to_supervisor < 0) return;
  snprintf(record.library, sizeof record.library, "%s", library);
  while (write(pipe_to_supervisor, &record, sizeof record) < 0 && errno == EINTR)
    continue;
}

void supervise_loading(const char *library) { send_record(STATE_LOADS, 0, library); }

void supervise_loaded(void) { send_record(STATE_RUNS, 0, ""); }

int supervise_finished(int code) {
  send_record(STATE_FINISHED, code, "");
  return code;
}

double supervise_limit(void) {
  enum { SECONDS = 60 };
  const char *text = getenv("TENON_LOAD_LIMIT");
  char *end = NULL;
  double seconds = text ? strtod(text, &end) : SECONDS;
  /* The runtime prints that another value is ignored. */
  return (seconds > 0 && (!end || !*end) ? seconds : SECONDS) * 1e3;
}

/* A debugger follows one process, and the code to debug runs in the child. */
static bool is_debugged(void) {
  char line[256];
  long tracer = 0;
  FILE *file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file))
    if (strncmp(line, "TracerPid:", 10) == 0) tracer = strtol(line + 10, NULL, 10);
  if (file) fclose(file);
  return tracer != 0;
}

static void take_record(watch_t *watch) {
  record_t record;
  ssize_t size = read(watch->pipe, &record, sizeof record);
  if (size == 0 || (size < 0 && errno != EINTR)) {
    close(watch->pipe);
    watch->pipe = -1;
  }
  if (size != sizeof record) return;
  record.library[NAME_CAPACITY - 1] = 0;
  watch->last = record;
  bool has_limit = record.state == STATE_LOADS || record.state == STATE_FINISHED;
  watch->deadline = has_limit ? clock_ms() + watch->settings->limit_ms : 0;
}

/* Waits for the end of the child and returns its state; kills it after the deadline. */
static int wait_for_end(watch_t *watch) {
  int state = 0;
  for (;;) {
    struct pollfd entry = {watch->pipe, POLLIN, 0};
    double left = watch->deadline != 0 ? watch->deadline - clock_ms() : ASK_MS;
    if (left <= 0 && !watch->is_late) {
      watch->is_late = true;
      kill(watch->child, SIGKILL);
    }
    int wait_ms = left > 0 && left < ASK_MS ? (int)left + 1 : ASK_MS;
    if (watch->pipe < 0 && watch->deadline == 0) {
      if (waitpid(watch->child, &state, 0) == watch->child) return state;
      continue;
    }
    if (watch->pipe < 0) wait_ms = 1;
    bool has_record = poll(&entry, 1, wait_ms) > 0;
    if (has_record) {
      take_record(watch);
    } else if (waitpid(watch->child, &state, WNOHANG) == watch->child) {
      while (watch->pipe >= 0 && poll(&entry, 1, 0) > 0)
        take_record(watch); /* what the child stated before it ended */
      return state;
    }
  }
}

static const char *describe_end(int state, char *out, size_t capacity) {
  if (WIFSIGNALED(state))
    snprintf(out, capacity, "signal %d (%s)", WTERMSIG(state), strsignal(WTERMSIG(state)));
  else
    snprintf(out, capacity, "exit or _exit with status %d", WEXITSTATUS(state));
  return out;
}

static void report_loading(const watch_t *watch, int state) {
  static const char advice[] = "`tenon doctor` inspects the file without running its code";
  const char *library = watch->last.library;
  char message[NAME_CAPACITY + 512], end[128];
  describe_end(state, end, sizeof end);
  if (watch->is_late)
    snprintf(message, sizeof message,
             "%s: loading the library did not end within %g s: a constructor, tenon_library() or "
             "TENON_OPEN hangs; %s",
             library, watch->settings->limit_ms / 1e3, advice);
  else if (WIFSIGNALED(state))
    snprintf(message, sizeof message, "%s: the library crashed while it was loaded: %s; %s",
             library, end, advice);
  else
    snprintf(message, sizeof message,
             "%s: the library ended the process while it was loaded: %s; %s", library, end, advice);
  watch->settings->report(message, false);
}

/* Reports a child that had finished its work and then did not end as it should. */
static void report_ending(const watch_t *watch, int state) {
  char message[512], end[128];
  describe_end(state, end, sizeof end);
  if (watch->is_late)
    snprintf(message, sizeof message,
             "the work is done, but the process did not end within %g s: a destructor or an atexit "
             "function of a library hangs",
             watch->settings->limit_ms / 1e3);
  else
    snprintf(message, sizeof message,
             "the work is done, but a destructor or an atexit function of a library ended the "
             "process: %s",
             end);
  watch->settings->report(message, true);
}

static void report_early_end(const watch_t *watch, int state) {
  char message[512], end[128];
  describe_end(state, end, sizeof end);
  if (WIFSIGNALED(state))
    snprintf(message, sizeof message, "the command was ended by %s before it had finished", end);
  else
    snprintf(message, sizeof message,
             "the command was ended before it had finished: code of a library called %s; an "
             "operator reports an error by tenon_fail",
             end);
  watch->settings->report(message, false);
}

/* Ends this process by the signal that ended the child, without a second core file. */
static void end_by_signal(int number) {
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  signal(number, SIG_DFL);
  raise(number);
}

/* Reports how the child ended, unless all is well, and returns the exit status of the command. */
static int judge_end(const watch_t *watch, int state) {
  int code = WIFEXITED(state) ? WEXITSTATUS(state) : watch->settings->failed;
  int number = WIFSIGNALED(state) ? WTERMSIG(state) : 0;
  bool is_asked = number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGPIPE;
  if (is_asked) end_by_signal(number);
  if (watch->last.state == STATE_LOADS) {
    report_loading(watch, state);
    return watch->settings->failed;
  }
  if (watch->last.state == STATE_FINISHED) {
    if (!number && code == watch->last.code) return code;
    report_ending(watch, state);
    return watch->last.code ? watch->last.code : watch->settings->failed;
  }
  report_early_end(watch, state);
  if (number) end_by_signal(number);
  return watch->settings->failed;
}

static void pass_signal_on(int number) { kill((pid_t)supervised_child, number); }

static void become_child(int descriptor, pid_t supervisor) {
  pipe_to_supervisor = descriptor;
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  if (getppid() != supervisor) _exit(1); /* the supervisor has ended already */
}

void supervise_begin(const supervise_t *settings) {
  int ends[2];
  pid_t self = getpid();
  if (pipe_to_supervisor >= 0 || is_debugged() || pipe2(ends, O_CLOEXEC) != 0) return;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    become_child(ends[1], self);
    return;
  }
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return;
  }
  supervised_child = child;
  signal(SIGINT, SIG_IGN); /* the child has them, too, and decides */
  signal(SIGQUIT, SIG_IGN);
  signal(SIGTERM, pass_signal_on);
  signal(SIGHUP, pass_signal_on);
  watch_t watch = {.settings = settings, .child = child, .pipe = ends[0]};
  int code = judge_end(&watch, wait_for_end(&watch));
  fflush(NULL);
  _exit(code);
}
