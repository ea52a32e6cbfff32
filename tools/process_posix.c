/* Runs other programs on POSIX systems; see process.h. A command is a list of arguments and never
 * passes through a shell. */
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

void process_set(const char *name, const char *value) { (void)setenv(name, value, 1); }

bool process_become(const texts_t *command, text_t *why) {
  char **arguments = calloc((size_t)command->count + 1, sizeof *arguments);
  if (!arguments) {
    text_add(why, "out of memory");
    return false;
  }
  for (int32_t i = 0; i < command->count; i++)
    arguments[i] = command->items[i];
  fflush(stdout);
  execv(arguments[0], arguments);
  text_add(why, "cannot run '%s': %s", arguments[0], strerror(errno));
  free(arguments);
  return false;
}

/* Waits for a forked child and returns its state. */
static int wait_for_child(pid_t id) {
  int state = 0;
  while (waitpid(id, &state, 0) < 0 && errno == EINTR)
    continue;
  return state;
}

int process_show(const texts_t *command, text_t *why) {
  char **arguments = calloc((size_t)command->count + 1, sizeof *arguments);
  if (!arguments) {
    text_add(why, "out of memory");
    return -1;
  }
  for (int32_t i = 0; i < command->count; i++)
    arguments[i] = command->items[i];
  fflush(stdout);
  fflush(stderr);
  const pid_t id = fork();
  if (id == 0) {
    execvp(arguments[0], arguments);
    fprintf(stderr, "tenon: cannot run '%s': %s\n", arguments[0], strerror(errno));
    _exit(127);
  }
  free(arguments);
  if (id < 0) {
    text_add(why, "cannot start a process: %s", strerror(errno));
    return -1;
  }
  const int state = wait_for_child(id);
  return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

static void exec_child(char **arguments, const char *name, const char *value, int errors) {
  int nothing = open("/dev/null", O_RDWR);
  if (value) (void)setenv(name, value, 1);
  (void)dup2(nothing, STDIN_FILENO);
  (void)dup2(nothing, STDOUT_FILENO);
  (void)dup2(errors, STDERR_FILENO);
  execv(arguments[0], arguments);
  dprintf(STDERR_FILENO, "cannot run '%s': %s", arguments[0], strerror(errno));
  _exit(127);
}

static void read_output(int from, text_t *out) {
  char room[4096];
  for (ssize_t size; (size = read(from, room, sizeof room)) > 0 || (size < 0 && errno == EINTR);)
    if (size > 0) text_bytes(out, room, (size_t)size);
  while (out->size && out->data[out->size - 1] == '\n')
    out->data[--out->size] = 0;
}

bool process_run(const texts_t *command, const char *name, const char *value, text_t *why) {
  int ends[2];
  int status = 0;
  char **arguments = calloc((size_t)command->count + 1, sizeof *arguments);
  text_t words = {NULL, 0, 0, false};
  if (!arguments || pipe(ends) != 0) {
    free(arguments);
    text_add(why, "cannot make a pipe: %s", strerror(errno));
    return false;
  }
  for (int32_t i = 0; i < command->count; i++)
    arguments[i] = command->items[i];
  fflush(stdout);
  fflush(stderr);
  pid_t id = fork();
  if (id == 0) exec_child(arguments, name, value, ends[1]);
  close(ends[1]);
  if (id > 0) read_output(ends[0], &words);
  close(ends[0]);
  if (id > 0) status = wait_for_child(id);
  bool fine = id > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (id < 0)
    text_add(why, "cannot start a process: %s", strerror(errno));
  else if (!fine && words.size)
    text_add(why, "%s", text_get(&words));
  else if (!fine && WIFSIGNALED(status))
    text_add(why, "the program was ended by signal %d", WTERMSIG(status));
  else if (!fine)
    text_add(why, "the program exited with status %d", WEXITSTATUS(status));
  free(arguments);
  text_free(&words);
  return fine;
}
