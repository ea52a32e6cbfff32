/* Running other programs over POSIX; see process.h.  Called by `tenon build` for compilers.
 * A command is an argument list, never a shell's text. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

bool process_start(const texts_t *command, bool quiet, int64_t *out_id, text_t *why) {
  pid_t id = -1;
  posix_spawn_file_actions_t actions;
  char **arguments = calloc((size_t)command->count + 1, sizeof *arguments);
  if (!arguments || posix_spawn_file_actions_init(&actions) != 0) {
    free(arguments);
    text_add(why, "out of memory");
    return false;
  }
  for (int32_t i = 0; i < command->count; i++) arguments[i] = command->items[i];
  int problem = 0;
  if (quiet) {
    problem = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (!problem) problem = posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  }
  fflush(stdout);
  if (!problem) problem = posix_spawnp(&id, arguments[0], &actions, NULL, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (problem) text_add(why, "cannot run '%s': %s", arguments[0], strerror(problem));
  free(arguments);
  *out_id = id;
  return problem == 0;
}

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

bool process_wait(int64_t id, const char *name, text_t *why) {
  int status = 0;
  while (waitpid((pid_t)id, &status, 0) < 0) {
    if (errno == EINTR) continue;
    text_add(why, "cannot wait for %s: %s", name, strerror(errno));
    return false;
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
  if (WIFSIGNALED(status)) text_add(why, "%s was ended by signal %d", name, WTERMSIG(status));
  else text_add(why, "%s failed with status %d", name, WEXITSTATUS(status));
  return false;
}
