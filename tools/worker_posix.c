/* Runs numbered items of work in forked children that report through pipes; see process.h. Called
 * by `tenon verify` and by the conformance suite of operators. A child writes a record when it
 * begins an item and when it ends one, so the parent knows which item a death belongs to. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process.h"
#include "system.h"

enum { EVENT_BEGIN = 0, EVENT_END = 1, EVENT_REFUSED = 2, /* the start function failed */ };

typedef struct record_t { /* followed by `size` bytes of text */
  int32_t event;
  int32_t item;
  int32_t outcome;
  uint32_t size;
} record_t;

typedef struct worker_t {
  pid_t id; /* 0: none */
  int descriptor;
  int32_t next;  /* the item that a new child begins with */
  int32_t item;  /* the item being run; -1: none */
  double begun;  /* clock time when the item began */
  bool late;     /* the child was killed because of the time limit */
  bool has_done; /* this child has finished an item */
  text_t buffer; /* records received so far */
} worker_t;

static bool send_all(int descriptor, const void *data, size_t size) {
  const char *at = data;
  while (size > 0) {
    ssize_t sent = write(descriptor, at, size);
    if (sent < 0 && errno != EINTR) return false;
    if (sent > 0) {
      at += sent;
      size -= (size_t)sent;
    }
  }
  return true;
}

static bool send_record(int descriptor, int32_t event, int32_t item, int32_t outcome,
                        const char *words) {
  record_t record = {event, item, outcome, (uint32_t)strlen(words)};
  return send_all(descriptor, &record, sizeof record) && send_all(descriptor, words, record.size);
}

static void run_child(const workers_t *workers, int32_t first, int descriptor) {
  text_t words = {NULL, 0, 0, false};
  if (!workers->start(workers->context, &words)) {
    send_record(descriptor, EVENT_REFUSED, 0, 0, text_get(&words));
    _exit(1);
  }
  for (int32_t item = first; item < workers->count; item += workers->jobs) {
    text_clear(&words);
    if (!send_record(descriptor, EVENT_BEGIN, item, 0, "")) _exit(1);
    int32_t outcome = workers->run(workers->context, item, &words);
    if (!send_record(descriptor, EVENT_END, item, outcome, text_get(&words))) _exit(1);
    if (workers->spoiled && outcome == workers->spoiled) break;
  }
  _exit(0); /* not exit(): open files and buffers belong to the parent */
}

static bool start_child(const workers_t *workers, worker_t *worker, text_t *why) {
  int ends[2];
  if (pipe(ends) != 0) {
    text_add(why, "cannot make a pipe: %s", strerror(errno));
    return false;
  }
  fflush(stdout);
  fflush(stderr);
  pid_t id = fork();
  if (id == 0) {
    close(ends[0]);
    run_child(workers, worker->next, ends[1]);
  }
  close(ends[1]);
  if (id < 0) {
    close(ends[0]);
    text_add(why, "cannot start a process: %s", strerror(errno));
    return false;
  }
  worker->id = id;
  worker->descriptor = ends[0];
  worker->item = -1;
  worker->late = worker->has_done = false;
  text_clear(&worker->buffer);
  return true;
}

/* Handles the complete records; false: the start function failed in the child, or memory is
 * exhausted. */
static bool take_records(const workers_t *workers, worker_t *worker, text_t *why) {
  size_t at = 0;
  record_t record;
  bool fine = !worker->buffer.failed;
  if (!fine) text_add(why, "out of memory");
  for (; fine && worker->buffer.size - at >= sizeof record; at += sizeof record + record.size) {
    memcpy(&record, worker->buffer.data + at, sizeof record);
    if (worker->buffer.size - at - sizeof record < record.size) break;
    text_t words = {NULL, 0, 0, false};
    text_bytes(&words, worker->buffer.data + at + sizeof record, record.size);
    if (record.event == EVENT_BEGIN) {
      worker->item = record.item;
      worker->begun = system_clock_ms();
    } else if (record.event == EVENT_END) {
      workers->done(workers->context, record.item, record.outcome, text_get(&words));
      worker->item = -1;
      worker->has_done = true;
      worker->next = record.item + workers->jobs;
    } else {
      text_add(why, "%s", text_get(&words));
      fine = false;
    }
    text_free(&words);
  }
  if (fine && at > 0) {
    memmove(worker->buffer.data, worker->buffer.data + at, worker->buffer.size - at + 1);
    worker->buffer.size -= at;
  }
  return fine;
}

/* Handles the end of a child, whose pipe is closed: its current item has failed, and a new child
 * runs the remaining items. */
static bool finish_child(const workers_t *workers, worker_t *worker, text_t *why) {
  int status = 0;
  text_t words = {NULL, 0, 0, false};
  close(worker->descriptor);
  while (waitpid(worker->id, &status, 0) < 0 && errno == EINTR)
    continue;
  worker->id = 0;
  if (worker->late)
    text_add(&words, "no result after %g s", workers->timeout_ms / 1e3);
  else if (WIFSIGNALED(status))
    text_add(&words, "crashed with signal %d", WTERMSIG(status));
  else
    text_add(&words, "exited with status %d", WEXITSTATUS(status));
  /* A child that exits after its item, or that was killed just after it, has not failed. */
  const bool has_finished =
      worker->late || (worker->has_done && WIFEXITED(status) && !WEXITSTATUS(status));
  bool fine = true;
  if (worker->item >= 0) {
    workers->done(workers->context, worker->item, workers->crashed, text_get(&words));
    worker->next = worker->item + workers->jobs;
  } else if (worker->next < workers->count && !has_finished) {
    text_add(why, "a child process %s before its first item", text_get(&words));
    fine = false;
  }
  text_free(&words);
  return fine && (worker->next >= workers->count || start_child(workers, worker, why));
}

/* Returns the milliseconds until the next time limit, and kills children that have exceeded
 * theirs. */
static int watch_time(const workers_t *workers, worker_t *children) {
  double least = -1;
  for (int32_t i = 0; workers->timeout_ms > 0 && i < workers->jobs; i++) {
    worker_t *worker = &children[i];
    if (!worker->id || worker->item < 0) continue;
    double left = worker->begun + workers->timeout_ms - system_clock_ms();
    if (left <= 0 && !worker->late) {
      kill(worker->id, SIGKILL);
      worker->late = true;
    }
    if (left < 0) left = 0;
    if (least < 0 || left < least) least = left;
  }
  if (least < 0) return -1;
  return least > 60000 ? 60000 : (int)least + 1;
}

/* Waits once for events of any child and handles them. */
static bool handle_events(const workers_t *workers, worker_t *children, struct pollfd *polls,
                          text_t *why) {
  char bytes[4096];
  for (int32_t i = 0; i < workers->jobs; i++)
    polls[i] = (struct pollfd){children[i].id ? children[i].descriptor : -1, POLLIN, 0};
  if (poll(polls, (nfds_t)workers->jobs, watch_time(workers, children)) < 0)
    return errno == EINTR ||
           (text_add(why, "cannot wait for child processes: %s", strerror(errno)), false);
  for (int32_t i = 0; i < workers->jobs; i++) {
    worker_t *worker = &children[i];
    if (!worker->id || !polls[i].revents) continue;
    ssize_t size = read(worker->descriptor, bytes, sizeof bytes);
    if (size > 0) {
      text_bytes(&worker->buffer, bytes, (size_t)size);
      if (!take_records(workers, worker, why)) return false;
    } else if (size == 0 || errno != EINTR) {
      if (!finish_child(workers, worker, why)) return false;
    }
  }
  return true;
}

static bool has_live_child(const worker_t *children, int32_t count) {
  for (int32_t i = 0; i < count; i++)
    if (children[i].id) return true;
  return false;
}

bool workers_run(const workers_t *workers, text_t *why) {
  bool fine = true;
  worker_t *children = calloc((size_t)workers->jobs, sizeof *children);
  struct pollfd *polls = calloc((size_t)workers->jobs, sizeof *polls);
  if (!children || !polls) {
    text_add(why, "out of memory");
    fine = false;
  }
  for (int32_t i = 0; fine && i < workers->jobs && i < workers->count; i++) {
    children[i].next = i;
    fine = start_child(workers, &children[i], why);
  }
  while (fine && has_live_child(children, workers->jobs))
    fine = handle_events(workers, children, polls, why);
  for (int32_t i = 0; children && i < workers->jobs; i++) {
    if (children[i].id) { /* reached only after a failure */
      kill(children[i].id, SIGKILL);
      close(children[i].descriptor);
      waitpid(children[i].id, NULL, 0);
    }
    text_free(&children[i].buffer);
  }
  free(children);
  free(polls);
  return fine;
}
