/* The leak checker must report memory that Tenon's own code leaks, also in calls and on threads of
 * an OpenCL driver, and must not report leaks of the driver there (tests/fault/foreign.h). Each
 * test leaks on purpose, in a process of its own. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "foreign.h"

#ifdef FOREIGN_IS_PASSED_OVER
#include <fcntl.h>
#include <sanitizer/lsan_interface.h>
#include <stdlib.h>

void *__real_malloc(
    /* Allocates as a library whose calls the linker does not redirect to faults.c. */
    size_t size);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *argument);

static void lose(void *memory) { ((volatile char *)memory)[0] = 1; }

/* Overwrites the stack, where the address of the leaked block may still be. */
static void *overwrite_stack(void *pointer) {
  volatile char room[4096];
  for (size_t i = 0; i < sizeof room; i++)
    room[i] = 0;
  return pointer;
}

static void *lose_ours(void *pointer) {
  lose(malloc(100));
  return pointer;
}

static void *lose_theirs(void *pointer) {
  lose(__real_malloc(100));
  return pointer;
}

static void lose_in_call(void *(*loses)(void *)) {
  foreign_begin();
  loses(NULL);
  foreign_end();
}

static void lose_on_own_thread(void *(*loses)(void *)) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, loses, NULL) == 0) pthread_join(thread, NULL);
}

static void lose_on_their_thread(void *(*loses)(void *)) {
  pthread_t thread;
  if (__real_pthread_create(&thread, NULL, loses, NULL) == 0) pthread_join(thread, NULL);
}

static void lose_here(void *(*loses)(void *)) { loses(NULL); }

/* Returns 1 if the checker reported the leak, and 0 if not. */
static int is_told(void (*way)(void *(*)(void *)), void *(*loses)(void *)) {
  int status = -1;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, 2);
    foreign_watch_threads();
    way(loses);
    overwrite_stack(NULL);
    _exit(__lsan_do_recoverable_leak_check() != 0);
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST("leaks of Tenon's own code are reported, wherever that code runs") {
  CHECK(is_told(lose_here, lose_ours) == 1);
  CHECK(is_told(lose_in_call, lose_ours) == 1);
  CHECK(is_told(lose_on_own_thread, lose_ours) == 1);
  CHECK(is_told(lose_on_their_thread, lose_ours) == 1);
}

TEST(
    "leaks of other libraries on behalf of Tenon are reported, and leaks inside a driver are not") {
  CHECK(is_told(lose_here, lose_theirs) == 1);
  CHECK(is_told(lose_on_own_thread, lose_theirs) == 1);
  CHECK(is_told(lose_in_call, lose_theirs) == 0);
  CHECK(is_told(lose_on_their_thread, lose_theirs) == 0);
}
#else
TEST("leaks of Tenon's own code are reported, wherever that code runs") {
  SKIP("this is not built with the address sanitizer");
}
#endif
