/* Damaged models: five real models (tests/data/make_models.py), each damaged in many ways, are
 * read, compiled and run, or refused. A sanitizer detects reads beyond an end, and leaks.
 * FAULT_KEEP=FILE stores each damaged model in that file before it is tried, so that after a crash
 * the file has the model that caused it; FAULT_COUNT=N makes N variants of each model. */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "attempt.h"
#include "check.h"
#include "damage.h"
#include "faults.h"

#define FOLDER TEST_DATA "/models"
enum {
  COUNT = 2000,
  FILE_MAX = 1 << 16,
  SECONDS = 60,
  /* How many bytes one model may allocate: far more than any needs. */
};

static const char *const names[] = {"convolution", "transformer", "control", "external", "text"};
static unsigned char original[FILE_MAX], damaged[2 * FILE_MAX];
static damage_fields_t fields;
static char trying[200];

static void hangs(int signal) {
  static const char text[] = " does not end\n0 passed, 1 failed, 0 skipped\n";
  (void)signal;
  (void)!write(STDERR_FILENO, trying, strlen(trying));
  (void)!write(STDOUT_FILENO, text, sizeof text - 1);
  _exit(1);
}

static size_t read_model(const char *name) {
  char path[500];
  snprintf(path, sizeof path, FOLDER "/%s.onnx", name);
  FILE *file = fopen(path, "rb");
  size_t size = file ? fread(original, 1, sizeof original, file) : 0;
  if (file) fclose(file);
  CHECK(size > 0 && size < sizeof original);
  return size;
}

static attempt_t try(const char *name, const char *what, uint64_t number, const unsigned char *data,
                     size_t size, uint32_t flags) {
  const char *keep = getenv("FAULT_KEEP");
  FILE *file = keep ? fopen(keep, "wb") : NULL;
  if (file) {
    fwrite(data, 1, size, file);
    fclose(file);
  }
  snprintf(trying, sizeof trying, "%s, %s %llu", name, what, (unsigned long long)number);
  (void)signal(SIGALRM, hangs);
  alarm(SECONDS);
  attempt_t a = attempt_model(data, size, FOLDER, flags);
  alarm(0);
  if (a.is_fickle) a.wrong = "the same run ended in another way after one with other shapes";
  if (!check_report(!a.wrong, __FILE__, __LINE__, trying, a.wrong))
    fprintf(stderr, "  last message: %s\n", tenon_error());
  return a;
}

TEST("the undamaged models run, whole and without graph rewriting") {
  attempt_start();
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    size_t size = read_model(names[i]);
    for (uint32_t flags = 0; flags <= TENON_COMPILE_PLAIN; flags++) {
      attempt_t a = try(names[i], "flags", flags, original, size, flags);
      if (!CHECK(a.did_run && a.status == TENON_OK))
        fprintf(stderr, "  %s: %s\n", names[i], tenon_error());
    }
  }
}

TEST("a damaged model is run or refused with a message, and nothing leaks") {
  const char *more = getenv("FAULT_COUNT");
  uint64_t count = more ? strtoull(more, NULL, 10) : COUNT;
  uint64_t operators = attempt_operators();
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    size_t size = read_model(names[i]);
    uint64_t was_read = 0;
    uint64_t was_compiled = 0;
    uint64_t did_run = 0;
    for (uint64_t n = 0; n < count; n++) {
      damage_t d = {0, damaged, size, sizeof damaged};
      memcpy(damaged, original, size);
      damage_file(&d, n, &fields);
      attempt_t a =
          try(names[i], "damage", n, d.data, d.size, n % 3 == 0 ? TENON_COMPILE_PLAIN : 0);
      was_read += a.was_read;
      was_compiled += a.was_compiled;
      did_run += a.did_run;
      if (a.status != TENON_OK) CHECK(attempt_operators() == operators);
    }
    if (getenv("FAULT_KEEP"))
      printf("%s: of %llu %llu read, %llu compiled, %llu run\n", names[i],
             (unsigned long long)count, (unsigned long long)was_read,
             (unsigned long long)was_compiled, (unsigned long long)did_run);
    /* The damage is neither always fatal nor always harmless. */
    CHECK(did_run > count / 20 && was_read < count);
  }
}

/* Makes one attempt with the n-th allocation failing; returns true if that allocation was not
 * reached. */
static bool without_memory(size_t size, int64_t n, bool sticky, uint32_t flags) {
  snprintf(trying, sizeof trying, "allocation %lld", (long long)n);
  fault_memory(n, sticky);
  attempt_t a = attempt_model(original, size, FOLDER, flags);
  int64_t made = fault_count(FAULT_MEMORY);
  fault_end();
  check_report(!a.wrong, __FILE__, __LINE__, trying, a.wrong);
  if (made >= n && sticky && !CHECK(a.status == TENON_MEMORY))
    fprintf(stderr, "  %lld: %s\n", (long long)n, tenon_error());
  return made < n;
}

TEST("when any allocation fails, the model fails with TENON_MEMORY and nothing leaks") {
  uint64_t operators = attempt_operators();
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    size_t size = read_model(names[i]);
    int before = check_failures;
    for (int64_t n = 1; n < 100000; n += 1 + n / 50)
      if (without_memory(size, n, n % 2, n % 3 == 0 ? TENON_COMPILE_PLAIN : 0)) break;
    if (check_failures > before) fprintf(stderr, "  in %s\n", names[i]);
  }
  CHECK(attempt_operators() == operators);
}
