/* Compiles TENON_SOURCE_C with the C compiler of the system, which is started as a process without
 * a shell. The compiled code is the bytes of a shared object. Line numbers in compiler messages are
 * those of the author's source. */
#include "compile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plugin.h"

enum {
  OPTIONS = 64,
  MESSAGES = 4096,
};
extern char **environ;

typedef struct job_t { /* files in a temporary folder of its own */
  char folder[256];
  char source[300];
  char code[300];
  char messages[300];
} job_t;

static bool job_open(job_t *job) {
  const char *root = secure_getenv("TMPDIR");
  if (snprintf(job->folder, sizeof job->folder, "%s/tenon-sim-XXXXXX",
               root && *root ? root : "/tmp") >= (int)sizeof job->folder)
    return false;
  if (!mkdtemp(job->folder)) return false;
  snprintf(job->source, sizeof job->source, "%s/source.c", job->folder);
  snprintf(job->code, sizeof job->code, "%s/code.so", job->folder);
  snprintf(job->messages, sizeof job->messages, "%s/messages", job->folder);
  return true;
}

static void job_close(const job_t *job) {
  unlink(job->source);
  unlink(job->code);
  unlink(job->messages);
  rmdir(job->folder);
}

static bool source_write(const job_t *job, const tenon_source_t *source) {
  FILE *file = fopen(job->source, "w");
  if (!file) return false;
  fputs("#line 1 \"", file);
  for (const char *s = source->file ? source->file : "source"; *s; s++) {
    if (*s == '"' || *s == '\\') fputc('\\', file);
    fputc(*s == '\n' ? ' ' : *s, file);
  }
  fputs("\"\n", file);
  bool written = fwrite(source->text, 1, source->text_size, file) == source->text_size;
  return !fclose(file) && written;
}

/* Returns the wait status of the compiler: 0 means success, -1 means that it could not be started
 * (see errno). */
static int compiler_run(const job_t *job, char *options) {
  const char *words[OPTIONS + 12] = {"cc",        "-x",      "c",      "-std=c11",
                                     "-O2",       "-shared", "-fPIC",  "-ffp-contract=off",
                                     job->source, "-o",      job->code};
  int count = 11;
  int state = -1;
  char *rest = options;
  for (char *word; count < OPTIONS + 11 && (word = strtok_r(rest, " \t\n", &rest));)
    words[count++] = word;
  posix_spawn_file_actions_t actions;
  pid_t child;
  if (getauxval(AT_SECURE)) {
    /* In a setuid process the environment, which the compiler reads, belongs to another user. */
    errno = EPERM;
    return -1;
  }
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, job->messages, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 2, 1);
  int error =
      posix_spawnp(&child, words[0], &actions, NULL, (char *const *)(uintptr_t)words, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error) {
    errno = error;
    return -1;
  }
  while (waitpid(child, &state, 0) < 0)
    if (errno != EINTR) /* other code in the process reaped the child: look for its output */
      return access(job->code, R_OK) ? 1 : 0;
  return state;
}

static tenon_status_t code_give(tenon_on_t on, const job_t *job, tenon_sink_t *sink) {
  FILE *file = fopen(job->code, "r");
  long size = file && !fseek(file, 0, SEEK_END) ? ftell(file) : -1;
  if (size <= 0) {
    if (file) fclose(file);
    return tenon_fail(on, TENON_INTERNAL, "sim: the compiler left no code in %s", job->code);
  }
  rewind(file);
  void *bytes = sink->reserve(sink, (uint64_t)size);
  bool read = bytes && fread(bytes, 1, (size_t)size, file) == (size_t)size;
  fclose(file);
  if (!bytes) return TENON_MEMORY; /* the sink has reported the failure */
  return read ? TENON_OK : tenon_fail(on, TENON_INTERNAL, "sim: %s cannot be read", job->code);
}

static tenon_status_t refuse(tenon_on_t on, const job_t *job, const tenon_source_t *source) {
  char text[MESSAGES];
  FILE *file = fopen(job->messages, "r");
  size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
  if (file) fclose(file);
  text[size] = 0;
  return tenon_fail(on, TENON_INVALID, "sim: %s does not compile:\n%s",
                    source->file ? source->file : "the source", text);
}

tenon_status_t sim_compile(tenon_on_t on, const tenon_source_t *source, tenon_sink_t *out_code) {
  job_t job;
  TENON_TRY(sim_enter(on));
  TENON_TRY(sim_leave(sim_inject(on, SIM_CALL_COMPILE)));
  if (source->language != TENON_SOURCE_C)
    return tenon_fail(on, TENON_UNIMPLEMENTED,
                      "sim: language %" PRIu32 " of %s; it compiles C (%d)", source->language,
                      source->file ? source->file : "the source", TENON_SOURCE_C);
  char *options = strdup(source->options ? source->options : "");
  if (!options) return tenon_fail(on, TENON_MEMORY, "sim: no host memory to compile");
  if (!job_open(&job)) {
    free(options);
    return tenon_fail(on, TENON_UNAVAILABLE,
                      "sim: cannot create the temporary folder %s to compile in: %s; set TMPDIR to "
                      "a writable folder",
                      job.folder, strerror(errno));
  }
  tenon_status_t status;
  if (!source_write(&job, source)) {
    status = tenon_fail(on, TENON_UNAVAILABLE, "sim: %s cannot be written: %s", job.source,
                        strerror(errno));
  } else {
    int state = compiler_run(&job, options);
    if (state < 0 || (WIFEXITED(state) && WEXITSTATUS(state) == 127))
      status = tenon_fail(on, TENON_UNAVAILABLE,
                          "sim: the C compiler `cc` cannot be run: %s; install one",
                          strerror(state < 0 ? errno : ENOENT));
    else
      status = state ? refuse(on, &job, source) : code_give(on, &job, out_code);
  }
  job_close(&job);
  free(options);
  return status;
}
