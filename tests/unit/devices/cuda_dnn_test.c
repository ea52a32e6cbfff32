/* How devices/cuda caches what it gives to cuDNN, and what it does when cuDNN refuses or fails. The
 * cuDNN here computes on the CPU; tests/acceptance/cuda_test.py tests the real one on a GPU. */
#include "devices/cudnn.h"

#include <pthread.h>
#include <sys/wait.h>

static int in_child(const char *settings,
                    /* The child has not opened cuDNN yet. */
                    cu_result_t create_status) {
  static example_t e;
  int state = 0;
  fflush(NULL);
  pid_t child = fork();
  if (!child) {
    on.settings = settings ? settings : on.settings;
    fake->create_status = create_status;
    set(&e, &cases[0], plain);
    bool good = run(&e) == TENON_UNIMPLEMENTED;
    if (settings)
      good = good && strstr(host_message(), "cuDNN cannot be used: TENON_CUDA says cudnn=");
    else
      good =
          good && strstr(host_message(),
                         "cuDNN cannot be used: it cannot be opened: CUDNN_STATUS_NOT_SUPPORTED");
    good = good && run(&e) == TENON_UNIMPLEMENTED;
    cu_dnn_close(&device);
    _exit(good ? 0 : 1);
  }
  CHECK(child > 0 && waitpid(child, &state, 0) == child);
  return state;
}

TEST("without cuDNN, or switched off, convolutions are declined with the reason") {
  CHECK(fake != NULL);
  CHECK(in_child("cudnn=off", 0) == 0);
  CHECK(in_child("cudnn=/nowhere/libcudnn.so", 0) == 0);
  CHECK(in_child(NULL, FAKE_NOT_SUPPORTED + 5) == 0);
}

TEST("after the first call of a shape nothing more is chosen, created or set") {
  cu_dnn_close(&device);
  propose(1, 0);
  for (size_t i = 0; i < CASES; i++)
    check_case(&cases[i], plain);
  CHECK(fake->heuristics == CASES && fake->creates > 0);
  fake->heuristics = fake->creates = fake->sets = 0;
  for (size_t i = 0; i < CASES; i++)
    check_case(&cases[i], plain);
  CHECK(fake->heuristics == 0 && fake->creates == 0 && fake->sets == 0);
  CHECK(fake->last_stream == stream.native);
  check_case(&cases[1], (const int[]){APART, FIRST, FIRST, LAST, LAST});
  CHECK(fake->heuristics == 1); /* Another layout needs another plan. */
}

TEST("one call adds bias and residual if the algorithm supports that, otherwise several steps do") {
  cu_dnn_close(&device);
  propose(1, 0);
  check_case(&cases[3], plain);
  CHECK(fake->fused == 1 && fake->forwards == 0 && fake->adds == 0 && fake->activations == 1);
  cu_dnn_close(&device);
  propose(0, 1);
  check_case(&cases[3], plain);
  CHECK(fake->fused == 0 && fake->forwards == 1 && fake->adds == 2 && fake->activations == 1 &&
        fake->last_algorithm == 0);
  cu_dnn_close(&device);
  propose(1, 0);
  fake->fused_status = FAKE_NOT_SUPPORTED + 2;
  check_case(&cases[3], plain);
  check_case(&cases[3], plain);
  CHECK(fake->fused == 1 && fake->forwards == 2 && fake->adds == 4 && fake->last_algorithm == 1);
}

TEST("an algorithm that cuDNN refuses is skipped, and the next one is remembered") {
  cu_dnn_close(&device);
  propose(2, 0);
  fake->proposed_status[0] = FAKE_NOT_SUPPORTED;
  check_case(&cases[0], plain);
  CHECK(fake->forwards == 1 && fake->last_algorithm == 0);
  cu_dnn_close(&device);
  propose(2, 0);
  fake->run_status[2] = FAKE_EXECUTION_FAILED;
  check_case(&cases[0], plain);
  check_case(&cases[0], plain);
  CHECK(fake->forwards == 3 && fake->last_algorithm == 0);
  cu_dnn_close(&device);
  propose(2, 0);
  fake->workspaces[2] = (size_t)1 << 33; /* more workspace than the speed is worth */
  check_case(&cases[0], plain);
  CHECK(fake->forwards == 1 && fake->last_algorithm == 0);
}

TEST("algorithms that use transforms instead of sums are skipped") {
  for (int transform = 4; transform < 8; transform++) {
    cu_dnn_close(&device);
    propose(transform, 2);
    check_case(&cases[1], plain);
    CHECK(fake->last_algorithm == 2);
  }
}

TEST("a shape that no algorithm supports is declined, and is not tried again") {
  static example_t e;
  cu_dnn_close(&device);
  propose(2, 0);
  fake->run_status[2] = FAKE_NOT_SUPPORTED;
  fake->run_status[0] = FAKE_NOT_SUPPORTED + 12;
  set(&e, &cases[0], plain);
  for (int i = 0; i < 3; i++)
    CHECK_STATUS(run(&e), TENON_UNIMPLEMENTED);
  CHECK(fake->forwards == 2 && fake->heuristics == 1);
  cu_dnn_close(&device);
  propose(2, 0);
  fake->proposed_count = 0;
  for (int i = 0; i < 3; i++)
    CHECK_STATUS(run(&e), TENON_UNIMPLEMENTED);
  CHECK(fake->forwards == 0 && fake->heuristics == 1);
}

TEST("other failures of cuDNN are reported with a remedy, and the next call tries again") {
  static example_t e;
  set(&e, &cases[0], plain);
  cu_dnn_close(&device);
  propose(2, 0);
  fake->run_status[2] = fake->run_status[0] = FAKE_EXECUTION_FAILED;
  CHECK_STATUS(run(&e), TENON_UNKNOWN);
  CHECK_TEXT(
      host_message(),
      "cuda:0: cuDNN 92800 fails for this convolution: CUDNN_STATUS_EXECUTION_FAILED (5000)");
  CHECK_TEXT(host_message(), "TENON_CUDA=cudnn=off does without it");
  fake->run_status[0] = 0;
  check_case(&cases[0], plain);
  /* A plan that has run keeps its algorithm. */
  fake->run_status[0] = FAKE_NOT_SUPPORTED;
  CHECK_STATUS(run(&e), TENON_UNKNOWN);
  arena_most = 0;
  fake->run_status[0] = 0;
  set(&e, &cases[1], plain);
  CHECK_STATUS(run(&e), TENON_MEMORY);
  CHECK_TEXT(host_message(), "no memory of the device");
}

enum {
  THREADS = 4,
  ROUNDS = 25,
};
static example_t examples[THREADS];
static _Alignas(256) char results[THREADS][ROOM * 8];

static void *
run_often(void *
              /* The cuDNN here has no locks, so the thread sanitizer reports calls that are not
         * serialised. */
              argument) {
  example_t *e = (example_t *)argument;
  for (int i = 0; i < ROUNDS; i++)
    CHECK(run(e) == TENON_OK);
  return NULL;
}

TEST("threads take turns in cuDNN") {
  pthread_t threads[THREADS];
  cu_dnn_close(&device);
  propose(1, 0);
  for (int i = 0; i < THREADS; i++) {
    set(&examples[i], &cases[i], plain);
    examples[i].t[OUT].data = results[i];
  }
  for (int i = 0; i < THREADS; i++)
    CHECK(pthread_create(&threads[i], NULL, run_often, &examples[i]) == 0);
  for (int i = 0; i < THREADS; i++)
    CHECK(pthread_join(threads[i], NULL) == 0);
  for (int i = 0; i < THREADS; i++)
    check_result(&examples[i], &cases[i]);
  CHECK(fake->heuristics == THREADS && !fake->complaint);
}

TEST("plans of thousands of shapes are discarded, and closing leaves nothing behind") {
  static example_t e;
  cu_dnn_close(&device);
  CHECK(fake->live == 0);
  propose(0, 1);
  for (int64_t i = 0; i < 5000; i++) {
    case_t c = {.what = "small", .ndim = 4, .x = {1, 1, 1 + i % 71, 1 + i / 71}, .w = {1, 1, 1, 1}};
    set(&e, &c, plain);
    if (CHECK_STATUS(run(&e), TENON_OK) == 0) break;
  }
  CHECK(fake->heuristics == 5000);
  /* 904 plans of four descriptors each: x, out, filter and convolution. */
  CHECK(fake->live > 4 * 900 && fake->live < 4 * 910);
  cu_dnn_close(&device);
  CHECK(fake->live == 0);
}

TEST("a lost GPU is reported as lost") {
  static example_t e;
  cu_dnn_close(&device);
  propose(0, 1);
  set(&e, &cases[0], plain);
  CHECK_STATUS(run(&e), TENON_OK);
  fake->run_status[0] = FAKE_EXECUTION_FAILED;
  lost = 700;
  CHECK_STATUS(run(&e), TENON_ABORTED);
  CHECK_TEXT(host_message(), "work of cuda:0, in one of its streams, failed with");
  cu_failures[0] = 0;
  /* This shape has not run yet, and no other algorithm is tried. */
  set(&e, &cases[1], plain);
  CHECK_STATUS(run(&e), TENON_ABORTED);
  CHECK(fake->forwards == 3);
  cu_failures[0] = 0;
  lost = 0;
  cu_dnn_close(&device);
}
