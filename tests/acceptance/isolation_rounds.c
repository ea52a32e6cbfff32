/* Rounds of misbehaviour: isolation_rounds ROUNDS FOLDER [hang]. Each library of FOLDER misbehaves
 * that often, isolated, while threads of this program call other operators: correct ones of the
 * same processes, those of another isolated library, and built-in ones. All their results are
 * compared. At the end no process, descriptor or mapping may remain. With `hang` the program prints
 * "hanging" while a call hangs in a worker process, and waits to be killed. isolation_test.py runs
 * it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "../unit/isolation.h"

typedef struct kind_t {
  const char *name;
  const char *says; /* says: a part of the message; NULL: the call may succeed */
  tenon_status_t status;
  int is_slow; /* ends at its deadline, and has fewer rounds */
} kind_t;

static const kind_t kinds[] = {
    {"crashes", "crashed: SIGSEGV at address 0x0", TENON_ABORTED, 0},
    {"aborts", "aborted (SIGABRT)", TENON_ABORTED, 0},
    {"exits", "ended its process: exit(0)", TENON_ABORTED, 0},
    {"loops", "exceeded its deadline of 500 ms", TENON_DEADLINE, 1},
    {"recurses", "overflowed its stack", TENON_ABORTED, 0},
    {"hoards", "may have 64 MiB more than Tenon needs", TENON_ABORTED, 0},
    {"writes_file", "opened for writing '" TEST_LIBRARIES "/misbehave/written-", TENON_DENIED, 0},
    {"reads_file", "opened '/etc/passwd'", TENON_DENIED, 0},
    {"connects", "opened a socket", TENON_DENIED, 0},
    {"forks", "started a process", TENON_DENIED, 0},
    {"closes", "aborted (SIGABRT)", TENON_ABORTED, 0},
    {"kills_parent", "sent a signal to another process", TENON_DENIED, 0},
    {"scribbles", NULL, TENON_OK, 0},
    {"frees_twice", "aborted (SIGABRT)", TENON_ABORTED, 0},
    {"stops", "exceeded its deadline of 500 ms", TENON_DEADLINE, 1},
    {"throws", "aborted (SIGABRT)", TENON_ABORTED, 0},
};
enum {
  KINDS = sizeof kinds / sizeof *kinds,
  WITNESSES = 3,
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum {
  SANITIZED = 1
}; /* A build with sanitizers cannot run under a memory limit, and has another allocator. */
#else
enum { SANITIZED = 0 };
#endif

static int failures, calls, stop;
static const char *current = "crashes"; /* the library that misbehaves now */

static void fail(const char *what, const char *message) {
  if (__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED) < 20)
    printf("FAIL %s: %s\n", what, message);
}

static const tenon_op_t *find(const char *library, const char *name) {
  const tenon_op_t *op = NULL;
  char full[100];
  snprintf(full, sizeof full, "%s::%s", library, name);
  if (tenon_op_find(full, &op) != TENON_OK) fail(full, tenon_error());
  return op;
}

/* Makes one call with a tensor of two numbers; returns its status, and the results. */
static tenon_status_t call(const tenon_op_t *op, float a, float b, float *out) {
  if (!op) return TENON_NOT_FOUND;
  float x[2] = {a, b};
  int64_t shape[1] = {2};
  int64_t in_room[1], out_room[1];
  tenon_tensor_t in, result;
  tenon_tensor_t *inputs[2] = {&in, &in};
  tenon_tensor_t *output = &result;
  out[0] = out[1] = -1;
  tenon_tensor_view(&in, x, tenon_dtype(TENON_F32), 1, shape, NULL, in_room);
  tenon_tensor_view(&result, out, tenon_dtype(TENON_F32), 1, shape, NULL, out_room);
  return tenon_op_call_into(op, NULL, inputs, &output);
}

/* Doubles a number by a correct operator. The call may fail only if it shares a process that
 * another call ended. */
static void check_twice(const tenon_op_t *op, const char *name, float a, int may_fail) {
  float y[2];
  const tenon_status_t status = call(op, a, 3, y);
  __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
  if (status != TENON_OK && may_fail && strstr(tenon_error(), "isolated process")) return;
  if (status != TENON_OK)
    fail(name, tenon_error());
  else if (!may_fail && (y[0] != 2 * a || y[1] != 6))
    fail(name, "a wrong answer");
}

static void *witness(void *argument) {
  const int number = *(const int *)argument;
  const tenon_op_t *add = NULL;
  const tenon_op_t *well = find("halves_well", "twice");
  if (tenon_op_find("core::add", &add) != TENON_OK) fail("core::add", tenon_error());
  for (int i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED) && add && well; i++) {
    const char *library = __atomic_load_n(&current, __ATOMIC_RELAXED);
    const float a = (float)(i % 1000);
    check_twice(number % 2 ? add : well,
                number % 2 ? "core::add" : "an isolated library that is well", a, 0);
    check_twice(well, "an isolated library that is well", a + 1, 0);
    if (number == 2)
      check_twice(find(library, "twice"), library, a, 1); /* in the process that misbehaves */
    if (i % 4 == 0) usleep(200);
  }
  return NULL;
}

static void load(const char *folder, const char *name, int is_slow) {
  char path[4096];
  const tenon_isolation_t isolation = {.size = sizeof isolation,
                                       .deadline_ms = is_slow ? 500 : 20000,
                                       .memory = 64 << 20,
                                       .call_count = 4};
  snprintf(path, sizeof path, "%s/%s.so", folder, name);
  if (tenon_library_load_isolated(path, 0, &isolation, NULL) != TENON_OK) fail(name, tenon_error());
}

static void misbehave(const kind_t *kind, int rounds) {
  const tenon_op_t *act = find(kind->name, "act");
  const tenon_op_t *twice = find(kind->name, "twice");
  float y[2];
  __atomic_store_n(&current, kind->name, __ATOMIC_RELAXED);
  for (int i = 0; i < rounds && act && twice; i++) {
    const tenon_status_t status = call(act, (float)i, 0, y);
    const char *says =
        /* The sanitizer's runtime has its own messages and ways to end. */
        SANITIZED ? "isolated process" : kind->says;
    const int is_right = (SANITIZED ? status != TENON_OK : status == kind->status) &&
                         strstr(tenon_error(), says ? says : "");
    if (kind->says && !is_right) fail(kind->name, status ? tenon_error() : "the call succeeds");
    for (int tries = 0; !kind->says && tries < 20 && call(twice, 1, 2, y) != TENON_OK;
         tries++) /* Damage that the call left behind shows here. */
      if (!strstr(tenon_error(), "isolated process")) fail(kind->name, tenon_error());
    tenon_status_t next;
    do
      next = call(twice, 21, 2, y);
    while (kind->is_slow &&
           /* On a busy machine a correct call may miss its deadline, too. */
           next == TENON_DEADLINE);
    if (next != TENON_OK && (kind->says || !strstr(tenon_error(), "isolated process")))
      fail(kind->name, tenon_error());
    else if (kind->says && (y[0] != 42 || y[1] != 4))
      fail(kind->name, "the next call gives a wrong answer");
  }
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: isolation_rounds ROUNDS FOLDER [hang]\n");
    return 2;
  }
  const int rounds = atoi(argv[1]);
  const int hangs = argc > 3 && !strcmp(argv[3], "hang");
  pthread_t threads[WITNESSES];
  int numbers[WITNESSES];
  const int descriptors = open_descriptors();
  setvbuf(stdout, NULL, _IOLBF, 0);
  tenon_start();
  if (hangs) {
    float y[2];
    load(argv[2], "stops", 0);
    load(argv[2], "loops", 0);
    printf("hanging\n");
    call(find("loops", "act"), 1, 2, y);
    return 0;
  }
  load(argv[2], "halves_well", 0);
  for (int k = 0; k < KINDS; k++)
    load(argv[2], kinds[k].name, kinds[k].is_slow);
  for (int i = 0; i < WITNESSES; i++) {
    numbers[i] = i;
    pthread_create(&threads[i], NULL, witness, &numbers[i]);
  }
  int made = 0;
  for (int k = 0; k < KINDS; k++) {
    const int count = kinds[k].is_slow && rounds > 8 && rounds < 100 ? 8 : rounds;
    if (SANITIZED && (!strcmp(kinds[k].name, "hoards") || !strcmp(kinds[k].name, "frees_twice")))
      continue;
    misbehave(&kinds[k], count);
    made += count;
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < WITNESSES; i++)
    pthread_join(threads[i], NULL);
  tenon_shutdown();
  const int left = processes_below(1, NULL) + processes_below(2, NULL);
  if (left) fail("processes", "some are left behind");
  if (open_descriptors() != descriptors) fail("descriptors", "some are left behind");
  if (shared_mappings()) fail("shared memory", "some is left behind");
  printf("%d rounds of misbehaviour of %d kinds, %d answers of others, %d failures\n", made,
         (int)KINDS, calls, failures);
  return failures != 0;
}
