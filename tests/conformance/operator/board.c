/* What a child shares with its parent, and the signal handlers; see board.h and suite.h. A handler
 * stores addresses only; the parent has the same library at the same addresses and resolves
 * them. */
#include "board.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include "example.h"
#include "guard.h"

board_t *board;
static board_t *boards;
static void *(*exception_type)(void);

bool boards_make(int32_t count) {
  boards = mmap(NULL, (size_t)count * sizeof *boards, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return boards != MAP_FAILED;
}

board_t *board_of(int32_t slot) { return &boards[slot]; }

bool boards_have_call(int32_t count) {
  for (int32_t i = 0; i < count; i++)
    if (boards[i].has_call) return true;
  return false;
}

void board_begin(board_t *b) {
  b->used = 0;
  b->findings = 0;
  b->signal = 0;
  b->frame_count = 0;
  b->hangs = b->is_stack = b->is_exception = b->has_guard = false;
  b->report[0] = b->label[0] = b->doing[0] = b->crash_id[0] = 0;
}

static const example_t *now; /* the example that is running */

static void add_field(board_t *b, const char *text) {
  for (; *text && b->used + 2 < sizeof b->report; text++)
    b->report[b->used++] = *text == FIELD_BREAK || *text == RECORD_BREAK ? '?' : *text;
  b->report[b->used++] = FIELD_BREAK;
  b->report[b->used] = 0;
}

static void add_record(const char *kind, const char *id, const char *label, const char *expected,
                       const char *found, const char *advice) {
  board_t *b = board;
  if (!b || b->used + 6000 > sizeof b->report) return;
  add_field(b, kind);
  add_field(b, id ? id : "");
  add_field(b, label);
  add_field(b, b->doing);
  add_field(b, expected);
  add_field(b, found);
  add_field(b, advice);
  b->report[b->used++] = RECORD_BREAK;
  b->report[b->used] = 0;
}

/* Reports one finding of an id for each example: later ones are usually consequences of it. */
static bool is_said(const char *id, const char *label) {
  char key[200];
  snprintf(key, sizeof key, "%c%s%c%s%c", FIELD_BREAK, id ? id : "", FIELD_BREAK, label,
           FIELD_BREAK);
  return strstr(board->report, key) != NULL;
}

/* The same defect in every dtype is one defect; it is reported for two dtypes. */
static bool is_said_often(const char *id) {
  char key[80];
  int count = 0;
  snprintf(key, sizeof key, "%c%s%c", FIELD_BREAK, id ? id : "", FIELD_BREAK);
  for (const char *at = board->report; (at = strstr(at, key)); at++)
    count++;
  return count >= 2;
}

static void report_record(const char *kind, const example_t *example, const char *id,
                          const char *expected, const char *advice, const char *found,
                          va_list arguments) {
  char text[1200];
  const example_t *t = example ? example : now;
  vsnprintf(text, sizeof text, found, arguments);
  if (!board || is_said(id, t ? t->label : "") || (board->findings++ && is_said_often(id))) return;
  add_record(kind, id, t ? t->label : "", expected, text, advice);
}

void finding(const example_t *example, const char *id, const char *expected, const char *advice,
             const char *found, ...) {
  va_list arguments;
  va_start(arguments, found);
  report_record("finding", example, id, expected, advice, found, arguments);
  va_end(arguments);
}

void finding_by_the_way(const example_t *example, const char *id, const char *expected,
                        const char *advice, const char *found, ...) {
  va_list arguments;
  va_start(arguments, found);
  report_record("seen", example, id, expected, advice, found, arguments);
  va_end(arguments);
}

void note(const example_t *example, const char *id, const char *text, ...) {
  char words[1200];
  va_list arguments;
  va_start(arguments, text);
  vsnprintf(words, sizeof words, text, arguments);
  va_end(arguments);
  if (!board || is_said(id, example ? example->label : "")) return;
  add_record("note", id, example ? example->label : "", "", words, "");
}

void doing(const example_t *example, const char *crash_id, const char *how) {
  now = example;
  if (!board) return;
  board->has_call |= example && is_label_chosen(example->label);
  snprintf(board->label, sizeof board->label, "%s", example ? example->label : "");
  snprintf(board->doing, sizeof board->doing, "%s", how);
  snprintf(board->crash_id, sizeof board->crash_id, "%s", crash_id ? crash_id : "");
}

bool has_findings(void) { return board && board->findings > 0; }

static void describe_guard(board_t *b, const void *address, bool is_write) {
  static const char *const writes[] = {"write.outside", "write.outside", "workspace.over",
                                       "workspace.temporary", "write.outside"};
  int64_t distance;
  const guard_t *g = guard_at(address, &distance);
  if (!g) return;
  b->has_guard = true;
  const bool is_argument = g->kind <= GUARD_OUTPUT || g->kind == GUARD_ATTRIBUTES;
  const char *id = is_argument && !is_write ? "read.beyond" : writes[g->kind];
  if (g->kind == GUARD_WORKSPACE && distance < 0) id = "workspace.under";
  snprintf(b->guard_id, sizeof b->guard_id, "%s", id);
  const char *verb = is_write ? "wrote" : "read";
  const char *where = distance < 0 ? "before the start" : "past the end";
  snprintf(b->guard_text, sizeof b->guard_text, "%s memory %lld bytes %s of %s (%zu bytes)", verb,
           llabs(distance), where, g->name, g->length);
  const size_t size = sizeof(tenon_value_t);
  b->is_of_attributes = g->kind == GUARD_ATTRIBUTES;
  if (b->is_of_attributes && distance >= 0)
    snprintf(b->guard_text, sizeof b->guard_text,
             "%s attrs[%zu], but the operator has %zu attributes: attrs[i] is the i-th argument "
             "that is not a tensor",
             verb, (g->length + (size_t)distance) / size, g->length / size);
}

static void handle_signal(int number, siginfo_t *info, void *context) {
  board_t *b = board;
  if (b && !b->signal && !b->hangs) {
    b->signal = number;
    b->hangs = number == SIGALRM;
    b->frame_count = backtrace(b->frames, BOARD_FRAMES);
    if (number == SIGSEGV || number == SIGBUS) {
      b->address = info->si_addr;
#if defined(__x86_64__) && defined(__linux__)
      const ucontext_t *machine = context;
      const char *stack = (const char *)machine->uc_mcontext.gregs[REG_RSP];
      const char *at = info->si_addr;
      b->is_stack = at > stack - (1 << 16) && at < stack + (1 << 16);
      describe_guard(b, info->si_addr, machine->uc_mcontext.gregs[REG_ERR] & 2);
#else
      (void)context;
      describe_guard(b, info->si_addr, true);
#endif
    }
    if (number == SIGABRT) b->is_exception = exception_type && exception_type() != NULL;
  }
  if (number == SIGALRM) _exit(1);
  signal(number, SIG_DFL);
  raise(number);
}

void board_watch(void) {
  static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGALRM};
  static char stack[1 << 16];
  void *frames[2];
  void *cpp = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_NOLOAD);
  if (cpp) *(void **)&exception_type = dlsym(cpp, "__cxa_current_exception_type");
  backtrace(frames, 2); /* loads its libraries now rather than in a signal handler */
  sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
  struct sigaction action = {.sa_sigaction = handle_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    sigaction(numbers[i], &action, NULL);
}

void board_limit(double seconds) {
  struct itimerval value = {
      {0, 0}, {(time_t)seconds, (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6)}};
  setitimer(ITIMER_REAL, &value, NULL);
}
