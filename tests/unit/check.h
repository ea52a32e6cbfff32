/* The whole test framework of the C tests: one program per file, one sentence per test.
 *   TEST("an empty list is no error") { CHECK(list.count == 0); } Tests run in the order of the
 *   file; a failed check prints file, line and what was found and lets the test go on.  A test that
 *   cannot run here says SKIP("why").  main() is here: include it once. */
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
static _Atomic int check_failures; /* threads of a test check too */
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
#define CHECK_STATUS(expression,                                                                   \
                     code) /* the expression is evaluated before its message is read */            \
  (check_found = (expression),                                                                     \
   check_status(check_found, (code), CHECK_MESSAGE(), __FILE__, __LINE__, #expression))
#define CHECK_NEVER(what)                                                                          \
  check_report(0, __FILE__, __LINE__, what, NULL) /* reached what should not be */
#define CHECK_TEXT(actual, part) check_text((actual), (part), __FILE__, __LINE__)
#define SKIP(why)                                                                                  \
  do {                                                                                             \
    check_skipped = (why);                                                                         \
    return;                                                                                        \
  } while (0)
/* the function that gives the text of the last failure; a test of tenon.h names another */
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

int main(void) {
  int passed = 0;
  int failed = 0;
  int skipped = 0;
  for (check_test_t *test = check_first; test; test = test->next) {
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
  printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return failed != 0;
}

#endif
