/* A forked child that works on request; see persistent_worker.h. A request is one byte, an answer
 * one int. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "persistent_worker.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void serve_requests(int (*work)(void *context), void *context, int asks, int answers) {
  char question;
  while (read(asks, &question, 1) == 1) {
    int answer = work(context);
    fflush(stdout);
    fflush(stderr);
    if (write(answers, &answer, sizeof answer) != sizeof answer) break;
  }
  _exit(0);
}

bool persistent_worker_start(persistent_worker_t *worker, int (*work)(void *context), void *context,
                             text_t *why) {
  int asks[2], answers[2];
  if (pipe(asks) != 0 || pipe(answers) != 0) {
    text_add(why, "cannot make a pipe: %s", strerror(errno));
    return false;
  }
  fflush(stdout);
  fflush(stderr);
  const pid_t id = fork();
  if (id == 0) {
    close(asks[1]);
    close(answers[0]);
    serve_requests(work, context, asks[0], answers[1]);
  }
  close(asks[0]);
  close(answers[1]);
  *worker = (persistent_worker_t){id, asks[1], answers[0]};
  if (id < 0) text_add(why, "cannot start a process: %s", strerror(errno));
  return id > 0;
}

static void describe_end(int state, text_t *why) {
  if (WIFSIGNALED(state))
    text_add(why, "ended by signal %d (%s)", WTERMSIG(state), strsignal(WTERMSIG(state)));
  else
    text_add(why, "exited with status %d", WEXITSTATUS(state));
}

static void reap_worker(persistent_worker_t *worker, text_t *why) {
  int state = 0;
  close(worker->asks);
  close(worker->answers);
  while (waitpid((pid_t)worker->id, &state, 0) < 0 && errno == EINTR)
    continue;
  if (why) describe_end(state, why);
  *worker = (persistent_worker_t){0, -1, -1};
}

bool persistent_worker_ask(persistent_worker_t *worker, int *out_answer, text_t *why) {
  ssize_t size;
  if (write(worker->asks, "?", 1) == 1) {
    while ((size = read(worker->answers, out_answer, sizeof *out_answer)) < 0 && errno == EINTR)
      continue;
    if (size == sizeof *out_answer) return true;
  }
  reap_worker(worker, why);
  return false;
}

void persistent_worker_stop(persistent_worker_t *worker) {
  if (worker->id > 0) reap_worker(worker, NULL); /* closing its pipe ends the child */
}
