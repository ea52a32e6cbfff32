/* isolated.c: calls of an isolated operator that touches one element: isolated LIBRARY ROUNDS. It
 * prints a line for each case: name, bytes of each tensor, then nanoseconds of a call: median, 10th
 * and 90th percentile. Outputs are given.
 *
 * - `here`: not isolated
 * - `spinning`: one call right after another
 * - `idle`: 2 ms after the last call
 * - `shared`: tensors are in the memory that both sides share
 * - `copied`: tensors are in the program's own memory
 * - `recovery`: the first call after a crash */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <time.h>

enum { MOST = 1 << 16 };
static double times[MOST];

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a;
  const double y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static void need(tenon_status_t status) {
  if (status == TENON_OK) return;
  fprintf(stderr, "isolated: %s\n", tenon_error());
  exit(1);
}

static void measure(const char *name, tenon_library_t *library, const tenon_op_t *op, int64_t bytes,
                    int rounds, int is_idle) {
  const int64_t shape[1] = {bytes / 4};
  const struct timespec pause = {0, 2000000};
  tenon_tensor_t *in, *out;
  if (library) {
    need(tenon_library_tensor_create(library, tenon_dtype(TENON_F32), 1, shape, &in));
    need(tenon_library_tensor_create(library, tenon_dtype(TENON_F32), 1, shape, &out));
  } else {
    need(tenon_tensor_create(tenon_dtype(TENON_F32), 1, shape, &in));
    need(tenon_tensor_create(tenon_dtype(TENON_F32), 1, shape, &out));
  }
  memset(in->data, 0, (size_t)bytes);
  memset(out->data, 0, (size_t)bytes);
  for (int i = 0; i < 200; i++)
    need(tenon_op_run(op, NULL, &in, &out));
  for (int i = 0; i < rounds; i++) {
    if (is_idle) nanosleep(&pause, NULL);
    const double begin = now();
    need(tenon_op_run(op, NULL, &in, &out));
    times[i] = now() - begin;
  }
  qsort(times, (size_t)rounds, sizeof *times, compare);
  printf("%s %lld %.0f %.0f %.0f\n", name, (long long)bytes, times[rounds / 2], times[rounds / 10],
         times[rounds * 9 / 10]);
  tenon_tensor_release(in);
  tenon_tensor_release(out);
}

/* The first call after a crash, which starts the worker process again. */
static void measure_recovery(const tenon_op_t *touch, const tenon_op_t *fall) {
  enum { ROUNDS = 50 };
  const int64_t shape[1] = {16};
  tenon_tensor_t *in, *out;
  need(tenon_tensor_create(tenon_dtype(TENON_F32), 1, shape, &in));
  need(tenon_tensor_create(tenon_dtype(TENON_F32), 1, shape, &out));
  memset(in->data, 0, 64);
  for (int i = 0; i < ROUNDS; i++) {
    if (tenon_op_run(fall, NULL, &in, &out) == TENON_OK) exit(1);
    const double begin = now();
    need(tenon_op_run(touch, NULL, &in, &out));
    times[i] = now() - begin;
  }
  qsort(times, ROUNDS, sizeof *times, compare);
  printf("recovery 64 %.0f %.0f %.0f\n", times[ROUNDS / 2], times[ROUNDS / 10],
         times[ROUNDS * 9 / 10]);
  tenon_tensor_release(in);
  tenon_tensor_release(out);
}

int main(int argc, char **argv) {
  static const int64_t sizes[] = {64, 4 << 10, 256 << 10, 4 << 20, 64 << 20};
  const int rounds = argc > 2 ? atoi(argv[2]) : 0;
  tenon_library_t *library;
  const tenon_op_t *op;
  if (argc < 3 || rounds < 10 || rounds > MOST) {
    fprintf(stderr, "usage: isolated LIBRARY ROUNDS\n");
    return 2;
  }
  need(tenon_library_load(argv[1], TENON_LOAD_UNLOADABLE, &library));
  need(tenon_op_find("touch::touch", &op));
  measure("here", NULL, op, 64, rounds, 0);
  need(tenon_library_unload(library));
  need(tenon_library_load_isolated(argv[1], 0, NULL, &library));
  need(tenon_op_find("touch::touch", &op));
  measure("spinning", NULL, op, 64, rounds, 0);
  measure("idle", NULL, op, 64, rounds / 20 + 10, 1);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const int fewer = sizes[i] > 1 << 20 ? rounds / 50 + 10 : rounds;
    measure("shared", library, op, sizes[i], rounds, 0);
    measure("copied", NULL, op, sizes[i], fewer, 0);
  }
  const tenon_op_t *fall;
  need(tenon_op_find("touch::fall", &fall));
  measure_recovery(op, fall);
  tenon_library_release(library);
  tenon_shutdown();
  return 0;
}
