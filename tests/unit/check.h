/* The test framework of the C tests. Each file is a program, and each test is named by a sentence:
 *
 *   TEST("an empty list is no error") { CHECK(list.count == 0); }
 *
 * Tests run in the order of the file. A failed check prints the file, the line and the value found,
 * and the test continues. A test that cannot run on this machine says SKIP("why"). Arguments select
 * tests by words of their sentences, and `--list` prints the sentences. This header defines main(),
 * so a program includes it once. */
#ifndef TENON_TESTS_CHECK_H
#define TENON_TESTS_CHECK_H

#include <stdio.h>
#include <string.h>

typedef struct check_test_t {
  const char *sentence;
  void (*run)(void);
  struct check_test_t *next;
} check_test_t;

static check_test_t *check_first;
static check_test_t **check_last = &check_first;
/* Threads that a test starts may check, too. */
static _Atomic int check_failures;
static _Thread_local __attribute__((unused)) int check_found;
static const char *check_skipped;

static inline int check_report(int ok, const char *file, int line, const char *what,
                               const char *found) {
  if (ok) return 1;
  check_failures++;
  fprintf(stderr, "%s:%d: %s%s%s\n", file, line, what, found ? "\n  found: " : "",
          found ? found : "");
  return 0;
}

/* Stores the status of an expression in check_found, and returns 1. */
static inline int check_keep(int found) {
  check_found = found;
  return 1;
}

static inline int check_status(int found, int expected, const char *message, const char *file,
                               int line, const char *what) {
  char text[1200];
  snprintf(text, sizeof text, "status %d instead of %d; last message: %s", found, expected,
           message);
  return check_report(found == expected, file, line, what, text);
}

static inline int check_text(const char *actual, const char *part, const char *file, int line) {
  char what[1200];
  if (!part) part = "(NULL)";
  snprintf(what, sizeof what, "expected a text with: %s", part);
  return check_report(actual && strstr(actual, part) != NULL, file, line, what,
                      actual ? actual : "NULL");
}

#define CHECK(condition) check_report(!!(condition), __FILE__, __LINE__, #condition, NULL)
/* Evaluates the expression first, then the expected code and the message. No block encloses the
 * expression, so its compound literals live on after the check. */
#define CHECK_STATUS(expression, code)                                                             \
  (check_keep(expression)                                                                          \
       ? check_status(check_found, (code), CHECK_MESSAGE(), __FILE__, __LINE__, #expression)       \
       : 0)
/* Reports that the test reached a line that it should not reach. */
#define CHECK_NEVER(what) check_report(0, __FILE__, __LINE__, what, NULL)
#define CHECK_TEXT(actual, part) check_text((actual), (part), __FILE__, __LINE__)
#define SKIP(why)                                                                                  \
  do {                                                                                             \
    check_skipped = (why);                                                                         \
    return;                                                                                        \
  } while (0)
/* The function that returns the message of the last failure. A test of tenon.h names another
 * function. */
#ifndef CHECK_MESSAGE
#include "base/status.h"
#define CHECK_MESSAGE tn_error
#endif
#define CHECK_JOIN_(a, b) a##b
#define CHECK_JOIN(a, b) CHECK_JOIN_(a, b)
#define TEST(sentence)                                                                             \
  CHECK_TEST_(sentence, CHECK_JOIN(check_run_, __LINE__), CHECK_JOIN(check_add_, __LINE__))
#define CHECK_TEST_(sentence, run, add)                                                            \
  static void run(void);                                                                           \
  __attribute__((constructor)) static void add(void) {                                             \
    static check_test_t test = {sentence, run, NULL};                                              \
    *check_last = &test;                                                                           \
    check_last = &test.next;                                                                       \
  }                                                                                                \
  static void run(void)

/* Reports of the thread sanitizer that are not ours. The events of PoCL 3.1 take each other's locks
 * in both orders when one of them fails, and LLVM, which compiles for it on threads of its own, is
 * not instrumented, so that the sanitizer sees races in it now and then. Any program that opens the
 * opencl device may see both. */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void) { return "deadlock:libpocl.so\nrace:libLLVM\n"; }

/* Does the sentence contain every argument? */
static inline int check_is_selected(const char *sentence, int count, char **words) {
  for (int i = 0; i < count; i++)
    if (!strcasestr(sentence, words[i])) return 0;
  return 1;
}

int main(int argc, char **argv) {
  int passed = 0;
  int failed = 0;
  int skipped = 0;
  int lists = argc == 2 && strcmp(argv[1], "--list") == 0;
  for (check_test_t *test = check_first; test; test = test->next) {
    if (lists) puts(test->sentence);
    if (lists || !check_is_selected(test->sentence, argc - 1, argv + 1)) continue;
    check_failures = 0;
    check_skipped = NULL;
    test->run();
    int failures = check_failures;
    if (failures) {
      failed++;
      fprintf(stderr, "FAILED: %s\n", test->sentence);
    } else if (check_skipped) {
      skipped++;
      printf("skipped: %s: %s\n", test->sentence, check_skipped);
    } else {
      passed++;
    }
  }
  if (lists) return 0;
  if (passed + failed + skipped == 0) {
    fprintf(stderr, "%s: no test has these words in its sentence; --list prints the sentences\n",
            argv[0]);
    return 2;
  }
  printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return failed != 0;
}

#endif
