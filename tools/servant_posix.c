/* A forked child that works when it is asked; see servant.h.  A question is a byte, an answer a
 * number. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "servant.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void serve(int (*work)(void *context), void *context, int asks, int answers) {
  char question;
  while (read(asks, &question, 1) == 1) {
    int answer = work(context);
    fflush(stdout);
    fflush(stderr);
    if (write(answers, &answer, sizeof answer) != sizeof answer) break;
  }
  _exit(0);
}

bool servant_begin(servant_t *servant, int (*work)(void *context), void *context, text_t *why) {
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
    serve(work, context, asks[0], answers[1]);
  }
  close(asks[0]);
  close(answers[1]);
  *servant = (servant_t){id, asks[1], answers[0]};
  if (id < 0) text_add(why, "cannot start a process: %s", strerror(errno));
  return id > 0;
}

static void describe(int state, text_t *why) {
  if (WIFSIGNALED(state))
    text_add(why, "it was ended by signal %d (%s)", WTERMSIG(state), strsignal(WTERMSIG(state)));
  else
    text_add(why, "it ended the process with exit status %d", WEXITSTATUS(state));
}

static void reap(servant_t *servant, text_t *why) {
  int state = 0;
  close(servant->asks);
  close(servant->answers);
  while (waitpid((pid_t)servant->id, &state, 0) < 0 && errno == EINTR)
    continue;
  if (why) describe(state, why);
  *servant = (servant_t){0, -1, -1};
}

bool servant_ask(servant_t *servant, int *out_answer, text_t *why) {
  ssize_t size;
  if (write(servant->asks, "?", 1) == 1) {
    while ((size = read(servant->answers, out_answer, sizeof *out_answer)) < 0 && errno == EINTR)
      continue;
    if (size == sizeof *out_answer) return true;
  }
  reap(servant, why);
  return false;
}

void servant_end(servant_t *servant) {
  if (servant->id > 0) reap(servant, NULL); /* its pipe ends, and so does it */
}
