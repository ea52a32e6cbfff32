/* Runs the checks in child processes; see runner.h. The plain calls of all operators come first: an
 * operator that crashes or hangs there is not checked further. A child continues with its next item
 * until it reports a finding or ends; then a new child takes its place. */
#include "runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/source.h"
#include "base/text.h"
#include "operator/op.h"
#include "process.h"
#include "ranks.h"
#include "system.h"
#include <dlfcn.h>

enum {
  OUTCOME_FINE = 0,
  OUTCOME_SPOILED = 1,
  OUTCOME_CRASHED = 2,
  SAID_MOST = 100,
};

typedef struct item_t {
  const subject_t *subject;
  const check_t *check;
  int32_t subject_index;
} item_t;

typedef struct run_t {
  item_t *items;
  int32_t count;
  int32_t done;
  int32_t jobs;
  int32_t rank;
  char(*blocks)
      /* For each operator the id of its first finding, which prevents checks of later ranks; "" if
       * none. */
      [48];
  char (*seen)[256]; /* for each operator the ids that its plain or guarded calls revealed */
  void (*tell)(const outcome_t *);
  tn_sources_t *sources;
  bool ended;
} run_t;

bool is_chosen(const char *id) {
  for (int32_t i = 0; i < options.case_count; i++)
    if (strncmp(id, options.cases[i], strcspn(options.cases[i], "@")) == 0) return true;
  return options.case_count == 0;
}

bool is_label_chosen(const char *label) {
  bool any = false;
  for (int32_t i = 0; i < options.case_count; i++) {
    const char *at = strchr(options.cases[i], '@');
    any |= at != NULL;
    if (at && strcmp(at + 1, label) == 0) return true;
  }
  return !any;
}

/* Whether --except has "ID" or "ns::name:ID". */
static bool is_excepted(const subject_t *subject, const char *id) {
  size_t size = strlen(subject->name);
  for (int32_t i = 0; i < options.except_count; i++) {
    const char *e = options.excepts[i];
    if (strncmp(e, subject->name, size) == 0 && e[size] == ':') e += size + 1;
    if (strcmp(e, id) == 0) return true;
  }
  return false;
}

static bool is_check_chosen(const check_t *check) {
  char id[64];
  if (is_chosen(check->id)) return true;
  for (const char *at = check->also; at && *at; at += strspn(at, " ")) {
    size_t size = strcspn(at, " ");
    snprintf(id, sizeof id, "%.*s", (int)size, at);
    if (is_chosen(id)) return true;
    at += size;
  }
  return false;
}

static bool start_child(void *context, text_t *why) {
  (void)context;
  (void)why;
  board_watch();
  return true;
}

static int32_t run_item(void *context, int32_t index, text_t *out_words) {
  const run_t *run = context;
  const item_t *item = &run->items[index];
  board = board_of(index % run->jobs);
  board_begin(board);
  board_limit(options.limit);
  item->check->run(item->subject);
  board_limit(0);
  text_bytes(out_words, board->report, board->used);
  return board->findings || rank_is_fresh(run->rank) ? OUTCOME_SPOILED : OUTCOME_FINE;
}

/* Adds the stack frames that belong to the library, with source lines if debug information is
 * available. */
static void add_frames(run_t *run, const board_t *b, tn_text_t *text) {
  int shown = 0;
  if (!run->sources) run->sources = tn_sources_open();
  for (int32_t i = 0; i < b->frame_count && shown < 4; i++) {
    Dl_info info, own;
    if (!dladdr(b->frames[i], &info) || !dladdr((void *)(uintptr_t)run_all, &own)) continue;
    bool is_of_it = options.library ? info.dli_fname && strcmp(text_file_name(info.dli_fname),
                                                               text_file_name(options.library)) == 0
                                    : info.dli_fbase == own.dli_fbase;
    if (!is_of_it) continue;
    tn_text_add(text, "%s", shown++ ? ", called by " : "; in ");
    tn_source_at(run->sources, (uintptr_t)b->frames[i] - (i > 0), text);
  }
}

static const char *signal_name(int number) {
  const char *name = strsignal(number);
  return name ? name : "a signal";
}

/* Describes how the child ended. */
static said_t describe_crash(run_t *run, const item_t *item, const board_t *b, const char *words,
                             char id[64], tn_text_t *text) {
  bool is_plain = strcmp(item->check->id, "call.plain") == 0;
  const char *kind = "crash.signal";
  const char *advice =
      "run the command below under gdb, or build the library with -g to see source lines";
  if (b->hangs || strstr(words, "no result after")) {
    kind = "crash.hang";
    advice = "look for a loop that does not terminate";
    tn_text_add(text, "the call did not return: it was stopped after %g s", options.limit);
  } else if (b->signal && b->is_stack) {
    kind = "crash.stack";
    advice = "look for unbounded recursion, or for large arrays on the stack";
    tn_text_add(text, "the stack overflowed");
  } else if (b->signal == 6) {
    kind = b->is_exception ? "crash.throws" : "crash.abort";
    advice = b->is_exception
                 ? "catch every exception inside the function, for example by TENON_GUARD"
                 : "return an error by tenon_fail instead";
    tn_text_add(text,
                b->is_exception ? "an exception left the function" : "the library called abort");
  } else if (b->signal) {
    tn_text_add(text, "the call crashed: %s", signal_name(b->signal));
    if (b->has_guard)
      tn_text_add(text, ": it %s", b->guard_text);
    else if (b->address)
      tn_text_add(text, ", address %p", b->address);
  } else {
    kind = "crash.exit";
    advice = "return an error by tenon_fail instead";
    tn_text_add(text, "the process %s", words);
  }
  add_frames(run, b, text);
  bool is_plainly_guarded =
      is_plain || b->is_of_attributes || strcmp(item->check->id, "write.outside") == 0;
  bool is_guarded = b->has_guard && !b->is_stack && is_plainly_guarded;
  const char *found_id = is_plain ? kind : item->check->id;
  if (b->crash_id[0]) found_id = b->crash_id;
  if (is_guarded) found_id = b->guard_id;
  snprintf(id, 64, "%s", found_id);
  if (b->has_guard)
    advice = "compare the bounds of the loop with the number of elements, and the pointer steps "
             "with the strides";
  if (b->is_of_attributes) advice = "do not count tensors in the index of an attribute";
  bool is_slow = (b->hangs || strstr(words, "no result after")) &&
                 strcmp(item->check->id, "attrs.limits") == 0;
  return (said_t){is_slow, false, id, b->label, b->doing, "the call returns a status", "", advice};
}

static char *next_field(char **at) {
  char *field = *at;
  if (!*field) return field;
  size_t size = strcspn(field, "\x1f");
  *at = field + size + (field[size] != 0);
  field[size] = 0;
  return field;
}

static int32_t parse_report(char *text, said_t *said) {
  int32_t count = 0;
  for (char *record = text, *end; *record && count < SAID_MOST; record = end) {
    end = record + strcspn(record, "\x1e");
    if (*end) *end++ = 0;
    char *at = record;
    said_t *s = &said[count];
    const char *kind = next_field(&at);
    s->is_note = strcmp(kind, "note") == 0;
    s->is_by_the_way = strcmp(kind, "seen") == 0;
    s->id = next_field(&at);
    s->label = next_field(&at);
    s->called = next_field(&at);
    s->expected = next_field(&at);
    s->found = next_field(&at);
    s->advice = next_field(&at);
    count++;
  }
  return count;
}

/* A defect that the plain or guarded calls reveal is reported once under its own id. A defect that
 * only another check's calls reveal is reported under the id of that check. */
static bool take_seen(run_t *run, const item_t *item, said_t *s) {
  char *seen = run->seen[item->subject_index];
  bool is_known = strstr(seen, s->id) != NULL;
  if (strcmp(item->check->id, "call.plain") != 0 && strcmp(item->check->id, "write.outside") != 0) {
    if (!is_known) s->id = item->check->id;
    return !is_known;
  }
  size_t used = strlen(seen);
  if (!is_known) snprintf(seen + used, sizeof run->seen[0] - used, "%s ", s->id);
  return true;
}

static void show_progress(const run_t *run, const item_t *item) {
  if (!system_is_terminal(true) || options.json) return;
  fprintf(stderr, "\r\033[K%d of %d  %s %s", (int)run->done, (int)run->count, item->subject->name,
          item->check->id);
  if (run->done == run->count) fprintf(stderr, "\r\033[K");
}

static void item_done(void *context, int32_t index, int32_t outcome, const char *words) {
  static said_t said[SAID_MOST + 1];
  run_t *run = context;
  const item_t *item = &run->items[index];
  const board_t *b = board_of(index % run->jobs);
  char *blocks = run->blocks[item->subject_index];
  outcome_t o = {item->subject, item->check, PASSED, NULL, said, 0};
  char *copy = strdup(outcome == OUTCOME_CRASHED ? b->report : words);
  char id[64] = "";
  tn_text_t crash = {0};
  run->done++;
  show_progress(run, item);
  if (!copy || run->ended) {
    free(copy);
    return;
  }
  int32_t count = parse_report(copy, said);
  if (outcome == OUTCOME_CRASHED) {
    said[count] = describe_crash(run, item, b, words, id, &crash);
    said[count].found = tn_text_get(&crash);
    count++;
    /* Even if --case does not select this id. */
    snprintf(blocks, sizeof run->blocks[0], "%.47s", id);
  }
  for (int32_t i = 0; i < count; i++) {
    if (!said[i].id[0]) said[i].id = item->check->id;
    if (said[i].is_by_the_way && !take_seen(run, item, &said[i])) continue;
    if (!is_chosen(said[i].id) && !is_chosen(item->check->id)) continue;
    if (is_excepted(item->subject, said[i].id)) continue;
    said[o.said_count++] = said[i];
    if (!said[i].is_note) o.kind = FAILED;
  }
  for (int32_t i = 0; i < o.said_count && !blocks[0] && run->rank + 1 < RANKS; i++)
    if (!said[i].is_note) snprintf(blocks, sizeof run->blocks[0], "%.47s", said[i].id);
  if (o.kind != PASSED || o.said_count || is_check_chosen(item->check)) run->tell(&o);
  run->ended |= o.kind == FAILED && options.first;
  tn_text_clear(&crash);
  free(copy);
}

static bool run_items(run_t *run) {
  text_t why = {NULL, 0, 0, false};
  workers_t workers = {.count = run->count,
                       .jobs = run->jobs,
                       .timeout_ms = options.limit * 1e3 + 3000,
                       .context = run,
                       .start = start_child,
                       .run = run_item,
                       .done = item_done,
                       .crashed = OUTCOME_CRASHED,
                       .spoiled = OUTCOME_SPOILED};
  bool fine = workers_run(&workers, &why);
  if (!fine) fprintf(stderr, "check_operator: %s\n", text_get(&why));
  text_free(&why);
  return fine;
}

/* A graph cannot be written into TENON_SAMPLES, so such operators can be called only as saved. */
static const char *lacks_calls(const subject_t *subject) {
  const tn_schema_t *schema = &subject->op->schema;
  for (uint32_t i = 0; i < schema->attr_count && !options.samples; i++)
    if (schema->attrs[i].kind == TENON_KIND_GRAPH)
      return "an attribute is a graph: save calls by TENON_RECORD and give them by --samples";
  return NULL;
}

static void choose_items(run_t *run, const subject_t *subjects, int32_t count, int rank) {
  run->count = run->done = 0;
  run->rank = rank;
  for (int32_t s = 0; s < count && !run->ended; s++)
    for (const check_t *const *group = check_groups; *group; group++)
      for (const check_t *c = *group; c->id; c++) {
        char blocked[80];
        if (rank_of(c->id) != rank || (rank && !is_check_chosen(c))) continue;
        snprintf(blocked, sizeof blocked, "skipped because of the finding %s", run->blocks[s]);
        const char *why = lacks_calls(&subjects[s]);
        if (!why && c->lacks) why = c->lacks(&subjects[s]);
        if (run->blocks[s][0]) why = blocked;
        if (!why)
          run->items[run->count++] = (item_t){&subjects[s], c, s};
        else
          run->tell(&(outcome_t){&subjects[s], c, SKIPPED, why, NULL, 0});
      }
}

bool run_all(const subject_t *subjects, int32_t count, void (*tell)(const outcome_t *)) {
  int32_t checks = 0;
  for (const check_t *const *group = check_groups; *group; group++)
    for (const check_t *c = *group; c->id; c++)
      checks++;
  run_t run = {.jobs = options.jobs,
               .tell = tell,
               .blocks = calloc((size_t)count + 1, sizeof *run.blocks),
               .seen = calloc((size_t)count + 1, sizeof *run.seen)};
  run.items = calloc((size_t)checks * (size_t)count + 1, sizeof *run.items);
  bool fine = run.items && run.blocks && run.seen && boards_make(options.jobs);
  for (int rank = 0; rank < RANKS && fine && !run.ended; rank++) {
    choose_items(&run, subjects, count, rank);
    fine = !run.count || run_items(&run);
  }
  tn_sources_close(run.sources);
  free(run.items);
  free(run.blocks);
  free(run.seen);
  return fine;
}
