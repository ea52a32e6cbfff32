/* The program that a hostile library tries to harm: escape_host LIBRARY USER ATTEMPT PHASE ALLOW
 * loads the library isolated, as user number USER (-1: as it is) and with the rights ALLOW (a sum
 * of TENON_ALLOW_...), calls it once, and prints what came of it in one line: the status of the
 * call, the library's own answer, what has changed in this program, and the message.
 * escape_test.py runs it once for each attempt. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tenon/tenon.h>

static volatile sig_atomic_t signals;
static void count_signal(int number) {
  (void)number;
  signals++;
}

typedef struct state_t {
  struct rlimit files;
  cpu_set_t processors;
  int scheduler;
  int priority;
  int output_flags;
  off_t output_position;
  off_t output_size;
} state_t;

static state_t state_now(void) {
  state_t now;
  struct stat about;
  memset(&now, 0, sizeof now);
  getrlimit(RLIMIT_NOFILE, &now.files);
  sched_getaffinity(0, sizeof now.processors, &now.processors);
  now.scheduler = sched_getscheduler(0);
  now.priority = getpriority(PRIO_PROCESS, 0);
  now.output_flags = fcntl(1, F_GETFL);
  now.output_position = lseek(1, 0, SEEK_CUR);
  now.output_size = fstat(1, &about) == 0 ? about.st_size : -1;
  return now;
}

static const char *change(const state_t *before) {
  const state_t now = state_now();
  if (signals) return "signal";
  if (memcmp(&now.files, &before->files, sizeof now.files) != 0) return "limits";
  if (!CPU_EQUAL(&now.processors, &before->processors)) return "processors";
  if (now.scheduler != before->scheduler || now.priority != before->priority) return "scheduling";
  if (now.output_flags != before->output_flags) return "output-flags";
  if (now.output_position != before->output_position || now.output_size != before->output_size)
    return "output";
  return "nothing";
}

static void set_variables(const char *attempt, const char *phase, const char *secret) {
  char text[64];
  setenv("TENON_ESCAPE", attempt, 1);
  setenv("TENON_ESCAPE_PHASE", phase, 1);
  snprintf(text, sizeof text, "%d", getpid());
  setenv("TENON_ESCAPE_HOST", text, 1);
  snprintf(text, sizeof text, "%p", (const void *)secret);
  setenv("TENON_ESCAPE_SECRET", text, 1);
  setenv("SECRET_KEY", "xyzzy", 1);
}

static tenon_status_t call_library(const char *path, uint32_t allow, float *out) {
  const tenon_isolation_t isolation = {.size = sizeof isolation,
                                       .memory = 256 << 20,
                                       .deadline_ms = 20000,
                                       .thread_count = 2,
                                       .allow = allow};
  const tenon_op_t *op = NULL;
  float number = 0;
  int64_t shape[1] = {1};
  int64_t in_room[1], out_room[1];
  tenon_tensor_t in, result;
  tenon_tensor_t *input = &in;
  tenon_tensor_t *output = &result;
  tenon_status_t status = tenon_library_load_isolated(path, 0, &isolation, NULL);
  if (status == TENON_OK) status = tenon_op_find("escape::act", &op);
  if (status != TENON_OK) return status;
  tenon_tensor_view(&in, &number, tenon_dtype(TENON_F32), 1, shape, NULL, in_room);
  tenon_tensor_view(&result, out, tenon_dtype(TENON_F32), 1, shape, NULL, out_room);
  return tenon_op_call_into(op, NULL, &input, &output);
}

int main(int argc, char **argv) {
  if (argc != 6) {
    fprintf(stderr, "usage: escape_host LIBRARY USER ATTEMPT PHASE ALLOW\n");
    return 2;
  }
  const int user = atoi(argv[2]);
  char *secret = strdup("xyzzy, a secret");
  float answer = -1;
  if (user >= 0 && (setgroups(0, NULL) || setgid((gid_t)user) || setuid((uid_t)user))) return 3;
  prctl(PR_SET_DUMPABLE, 1); /* as in a program that this user started */
  set_variables(argv[3], argv[4], secret);
  signal(SIGUSR1, count_signal);
  signal(SIGIO, count_signal);
  const char begun[] = "begun\n";
  if (write(1, begun, sizeof begun - 1) < 0) return 4;
  const state_t before = state_now();
  const tenon_status_t status = call_library(argv[1], (uint32_t)atoi(argv[5]), &answer);
  char message[2048];
  snprintf(message, sizeof message, "%s", status == TENON_OK ? "" : tenon_error());
  const char *changed = change(&before);
  fprintf(stderr, "RESULT %d %g %s %s\n", (int)status, (double)answer, changed, message);
  tenon_shutdown();
  free(secret);
  return 0;
}
