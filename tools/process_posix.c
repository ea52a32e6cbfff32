/* Running other programs over POSIX; see process.h.  Called by `tenon check`, which is a program of its own.
 * A command is an argument list, never a shell's text. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

bool process_become(const texts_t *command, text_t *why) {
  char **arguments = calloc((size_t)command->count + 1, sizeof *arguments);
  if (!arguments) return text_add(why, "out of memory"), false;
  for (int32_t i = 0; i < command->count; i++) arguments[i] = command->items[i];
  fflush(stdout);
  execv(arguments[0], arguments);
  text_add(why, "cannot run '%s': %s", arguments[0], strerror(errno));
  free(arguments);
  return false;
}

/* A forked child's state when it has ended. */
static int wait_for(pid_t id) {
  int state = 0;
  while (waitpid(id, &state, 0) < 0 && errno == EINTR) continue;
  return state;
}

int process_show(const texts_t *command, text_t *why) {
  char **arguments = calloc((size_t)command->count + 1, sizeof *arguments);
  if (!arguments) return text_add(why, "out of memory"), -1;
  for (int32_t i = 0; i < command->count; i++) arguments[i] = command->items[i];
  fflush(stdout), fflush(stderr);
  const pid_t id = fork();
  if (id == 0) {
    execvp(arguments[0], arguments);
    fprintf(stderr, "tenon: cannot run '%s': %s\n", arguments[0], strerror(errno));
    _exit(127);
  }
  free(arguments);
  if (id < 0) return text_add(why, "cannot start a process: %s", strerror(errno)), -1;
  const int state = wait_for(id);
  return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

bool process_run(const texts_t *command, text_t *why) {
  fflush(stdout), fflush(stderr);
  const pid_t id = fork();
  if (id < 0) return text_add(why, "cannot start a process: %s", strerror(errno)), false;
  if (id == 0) {
    const int nowhere = open("/dev/null", O_WRONLY);
    text_t reason = {NULL, 0, 0, false};
    if (nowhere >= 0) dup2(nowhere, STDOUT_FILENO);
    process_become(command, &reason);
    fprintf(stderr, "tenon: %s\n", text_get(&reason));
    _exit(127);
  }
  const int state = wait_for(id);
  if (WIFEXITED(state) && WEXITSTATUS(state) == 0) return true;
  if (WIFSIGNALED(state)) text_add(why, "'%s' ended by signal %d", command->items[0], WTERMSIG(state));
  else text_add(why, "'%s' ended with exit status %d", command->items[0], WEXITSTATUS(state));
  return false;
}
