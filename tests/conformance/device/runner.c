/* Runs the cases in child processes. A child runs many cases until there is a finding, a crash, or
 * no progress; the next child continues after that case. */
#include "rig.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct batch_t { /* cases of one ordinal, or of the plug-in (-1) */
  const case_t *cases[CASES_MOST];
  int32_t count;
  int32_t ordinal;
} batch_t;

/* The child has opened the device before, or ended. */
static void opens(tenon_on_t on) { (void)on; }
static const case_t open_case = {
    "lifecycle.open", "enumerate, start and properties succeed for the ordinal.", 0, opens};

static int is_chosen(const char *name, const char *const *cases) {
  if (!cases) return 1;
  for (; *cases; cases++)
    if (strncmp(name, *cases, strlen(*cases)) == 0) return 1;
  return 0;
}

static void choose(batch_t *batch, const char *const *names, uint32_t plugin) {
  batch->count = 0;
  for (const case_t *const *group = conformance_groups; *group; group++)
    for (const case_t *c = *group; c->name; c++)
      if ((c->needs & PLUGIN) == plugin && is_chosen(c->name, names) && batch->count < CASES_MOST)
        batch->cases[batch->count++] = c;
}

static void end(int32_t i, int32_t outcome, const char *text) {
  snprintf(rig.board->results[i].text, sizeof rig.board->results[i].text, "%s", text);
  rig.board->results[i].outcome = outcome;
}

static void open_ordinal(int32_t ordinal) {
  enumerate();
  must(start(ordinal), "start of ordinal %d", ordinal);
  rig.properties = (tenon_device_properties_t){.size = sizeof rig.properties};
  doing("properties()");
  must(rig.table->properties(&rig.contexts[ordinal], &rig.properties), "properties");
  delay_ready(&rig.contexts[ordinal]);
}

static void child(const batch_t *batch, int32_t from) {
  const char *why;
  rig.seed = rig.options->seed;
  rig.quick = rig.options->quick != 0;
  rig.rounds = rig.quick ? 2 : 4;
  for (int32_t i = from; i < batch->count; i++) {
    const case_t *c = batch->cases[i];
    tenon_on_t on = NULL;
    if (c->needs & ALONE && i > from) break; /* runs in the next child */
    rig.board->current = i;
    rig.board->doing[0] = 0;
    if (batch->ordinal >= 0) {
      if (!rig.count) open_ordinal(batch->ordinal);
      on = &rig.contexts[batch->ordinal];
    }
    if ((why = lacks(c->needs, on))) {
      end(i, CONFORMANCE_SKIPPED, why);
      continue;
    }
    c->run(on);
    if (on) must_finish(on);
    if (rig.unseen)
      end(i, CONFORMANCE_SKIPPED, "contents are not compared (--no-contents)");
    else
      end(i, CONFORMANCE_PASSED, "");
    rig.unseen = 0;
    if (c->needs & ALONE) break;
  }
  for (int32_t k = 0; k < rig.count; k++)
    stop(k);
  _exit(0);
}

typedef struct run_t {
  const conformance_sink_t *sink;
  int findings;
  int ended; /* nothing more is to be run */
} run_t;

static void tell(run_t *run, const batch_t *batch, int32_t i, int32_t outcome, const char *text) {
  conformance_result_t result = {sizeof result,         batch->ordinal,         outcome, 0,
                                 batch->cases[i]->name, batch->cases[i]->about, text};
  run->findings += outcome == CONFORMANCE_FAILED;
  run->ended |= outcome == CONFORMANCE_FAILED && rig.options->first;
  run->sink->result(run->sink->context, &result);
}

static int64_t seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec;
}

/* Reports the cases that the child has completed, from case i on. Returns the first case that is
 * not done. */
static int32_t tell_done(run_t *run, const batch_t *batch, int32_t i) {
  for (; i < batch->count && rig.board->results[i].outcome != RUNNING; i++)
    tell(run, batch, i, rig.board->results[i].outcome, rig.board->results[i].text);
  return i;
}

/* Runs one child from case i on. Returns the first case that is not done. */
static int32_t run_child(run_t *run, const batch_t *batch, int32_t i) {
  int64_t limit = rig.options->limit ? rig.options->limit : 60;
  int64_t since = seconds();
  int status = 0;
  int hangs = 0;
  uint64_t progress = rig.board->progress;
  char text[700];
  rig.board->current = i;
  fflush(NULL);
  pid_t process = fork();
  if (process == 0) child(batch, i);
  if (process < 0) {
    run->ended = 1;
    run->findings = -1;
    return i;
  }
  while (waitpid(process, &status, WNOHANG) == 0) {
    nanosleep(&(struct timespec){0, 2000000}, NULL);
    i = tell_done(run, batch, i);
    if (progress != rig.board->progress) {
      progress = rig.board->progress;
      since = seconds();
    }
    if (seconds() - since < limit) continue;
    kill(process, SIGKILL);
    waitpid(process, &status, 0);
    hangs = 1;
    break;
  }
  i = tell_done(run, batch, i);
  int32_t last = rig.board->current;
  if (i > last) { /* the case is done; only stop, which follows passed cases, can have failed */
    if ((WIFEXITED(status) && WEXITSTATUS(status) == 0) ||
        rig.board->results[last].outcome != CONFORMANCE_PASSED)
      return i;
    i = last;
  }
  const char *in = rig.board->doing[0] ? rig.board->doing : "opening the device";
  if (hangs)
    snprintf(text, sizeof text, "hangs: no progress for %lld s; the last call was %s",
             (long long)limit, in);
  else if (WIFSIGNALED(status))
    snprintf(text, sizeof text, "crashes: %s; the last call was %s", strsignal(WTERMSIG(status)),
             in);
  else
    snprintf(text, sizeof text, "ends the process (exit status %d); the last call was %s",
             WEXITSTATUS(status), in);
  tell(run, batch, i, CONFORMANCE_FAILED, text);
  return i + 1;
}

static void run_batch(run_t *run, const batch_t *batch) {
  for (int32_t i = 0; i < CASES_MOST; i++)
    rig.board->results[i].outcome = RUNNING;
  for (int32_t i = 0; i < batch->count && !run->ended;)
    i = run_child(run, batch, i);
}

int conformance_device_run(const tenon_device_table_t *table, const conformance_options_t *options,
                           const conformance_sink_t *sink) {
  static batch_t batch, opening;
  run_t run = {sink, 0, 0};
  rig.table = table;
  rig.options = options;
  rig.board =
      mmap(NULL, sizeof *rig.board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (rig.board == MAP_FAILED) return -1;
  batch.ordinal = -1;
  choose(&batch, options->cases, PLUGIN);
  run_batch(&run, &batch);
  choose(&batch, options->cases, 0);
  int32_t count = 1; /* until the first child has counted the ordinals */
  for (int32_t ordinal = options->ordinal > 0 ? options->ordinal : 0; ordinal < count && !run.ended;
       ordinal++) {
    opening = (batch_t){.cases = {&open_case}, .count = 1, .ordinal = ordinal};
    batch.ordinal = ordinal;
    run_batch(&run, &opening);
    int32_t outcome = rig.board->results[0].outcome;
    char why[1500];
    snprintf(why, sizeof why, "%s",
             outcome == CONFORMANCE_SKIPPED ? rig.board->results[0].text
                                            : "the ordinal cannot be opened");
    if (options->ordinal < 0 && rig.board->count > count) count = rig.board->count;
    if (outcome == CONFORMANCE_PASSED)
      run_batch(&run, &batch);
    else
      for (int32_t i = 0; i < batch.count && !run.ended; i++)
        tell(&run, &batch, i, CONFORMANCE_SKIPPED, why);
  }
  munmap(rig.board, sizeof *rig.board);
  return run.findings;
}

void conformance_device_list(const conformance_sink_t *sink) {
  for (const case_t *const *group = conformance_groups; *group; group++)
    for (const case_t *c = *group; c->name; c++)
      sink->result(sink->context, &(conformance_result_t){sizeof(conformance_result_t), -1, 0, 0,
                                                          c->name, c->about, ""});
}

uint32_t conformance_device_tables(const tenon_item_t *items,
                                   const tenon_device_table_t **out_tables, uint32_t room) {
  uint32_t count = 0;
  for (const tenon_item_t *item = items; item && item->tag != TENON_TAG_END && count < room;
       item++) {
    if ((item->tag & ~TENON_MUST) == TENON_TAG_DEVICE && item->text)
      out_tables[count++] = item->text;
    if ((item->tag & ~TENON_MUST) == TENON_TAG_GROUP)
      count += conformance_device_tables(item->text, out_tables + count, room - count);
  }
  return count;
}
