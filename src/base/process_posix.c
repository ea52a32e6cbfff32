/* Child processes over POSIX (posix_spawn and waitpid). */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"

void tn_words_add(tn_words_t *words, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  tn_text_list(&words->text, format, arguments);
  va_end(arguments);
  tn_text_bytes(&words->text, "", 1);
  words->count++;
}

void tn_words_clear(tn_words_t *words) {
  tn_text_clear(&words->text);
  words->count = 0;
}

bool tn_process_find(const char *name, char *path, size_t capacity) {
  const char *folders = strchr(name, '/') ? "" : tn_environment("PATH");
  for (const char *part = folders ? folders : "/usr/bin:/bin"; part;) {
    size_t size = strcspn(part, ":");
    const char *slash = size && !strchr(name, '/') ? "/" : "";
    int length = snprintf(path, capacity, "%.*s%s%s", (int)size, part, slash, name);
    if (length > 0 && (size_t)length < capacity && access(path, X_OK) == 0 && tn_file_exists(path))
      return true;
    part = part[size] ? part + size + 1 : NULL;
  }
  return false;
}

static int redirect_files(posix_spawn_file_actions_t *actions, const char *output,
                          const char *errors) {
  const int how = O_WRONLY | O_CREAT | O_APPEND;
  int problem = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (!problem)
    problem = posix_spawn_file_actions_addopen(actions, STDOUT_FILENO, output, how, 0600);
  if (!problem)
    problem = posix_spawn_file_actions_addopen(actions, STDERR_FILENO, errors, how, 0600);
  return problem;
}

tenon_status_t tn_process_start(const tn_words_t *words, const char *output, const char *errors,
                                int64_t *out_id) {
  pid_t id = -1;
  size_t count = 0;
  posix_spawn_file_actions_t actions;
  char path[4096];
  char **arguments =
      words->text.failed ? NULL : tn_allocate_zero(words->count + 1, sizeof *arguments);
  if (!arguments) return tn_no_memory("a command", words->text.size);
  TN_EACH_WORD(word, words) arguments[count++] = (char *)(uintptr_t)word;
  int problem = tn_process_find(arguments[0], path, sizeof path)
                    ? posix_spawn_file_actions_init(&actions)
                    : ENOENT;
  if (!problem) {
    problem = redirect_files(&actions, output, errors);
    if (!problem)
      problem = posix_spawn(&id, path, &actions, NULL, arguments, tn_environment_of_children());
    posix_spawn_file_actions_destroy(&actions);
  }
  if (problem)
    (void)tn_fail(TENON_UNAVAILABLE, "cannot run '%s': %s", arguments[0], strerror(problem));
  tn_release_memory(arguments);
  *out_id = id;
  return problem ? TENON_UNAVAILABLE : TENON_OK;
}

tenon_status_t tn_process_wait(int64_t id, const char *name) {
  int state = 0;
  /* ECHILD: the host program ignores or reaps its children itself */
  while (waitpid((pid_t)id, &state, 0) < 0)
    if (errno != EINTR)
      return tn_fail(TENON_UNKNOWN, "cannot determine how %s ended: %s", name, strerror(errno));
  if (WIFEXITED(state) && WEXITSTATUS(state) == 0) return TENON_OK;
  return WIFSIGNALED(state)
             ? tn_fail(TENON_ABORTED, "%s was killed by signal %d", name, WTERMSIG(state))
             : tn_fail(TENON_INVALID, "%s failed with status %d", name, WEXITSTATUS(state));
}
