/* onnxruntime.c: what a call of an operator in a library for ONNX Runtime costs through Tenon,
 * beside the same loop called directly. bench/onnxruntime_ops.py runs it.
 *
 *   onnxruntime LIBRARY OPERATOR ROUNDS
 *       calls the operator, of one input and one output of 4 floats; for each way: name,
 *       nanoseconds of a call: median, 10th percentile. ROUNDS 0: 1,000 calls of each
 *       way, for callgrind */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>
#include <time.h>

enum {
  MOST_ROUNDS = 10000,
  CALLS = 2000,
  COUNTED = 1000,
};

static void check(int truth, const char *what) {
  if (truth) return;
  fprintf(stderr, "onnxruntime: %s: %s\n", what, tenon_error());
  exit(1);
}

static float in[4] = {1, 2, 3, 4};
static float out[4];
static void (*volatile loop)(const float *from, float *to, size_t count);

static void twice(const float *from, float *to, size_t count) {
  for (size_t i = 0; i < count; i++)
    to[i] = 2 * from[i];
}

static int direct(void) {
  loop(in, out, 4);
  return 1;
}

static const tenon_op_t *op;
static tenon_bound_t *bound;
static tenon_tensor_t *x, *y;
static int run(void) { return tenon_op_run(op, NULL, &x, &y) == TENON_OK; }
static int run_bound(void) { return tenon_bound_run(bound, &x, &y) == TENON_OK; }
static int call_into(void) { return tenon_op_call_into(op, NULL, &x, &y) == TENON_OK; }
static int call(void) {
  tenon_tensor_t *made = NULL;
  int good = tenon_op_call(op, NULL, &x, &made, 0) == TENON_OK;
  tenon_tensor_release(made);
  return good;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}
static int by_value(const void *a, const void *b) {
  return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b;
}

int main(int count, char **words) {
  static const struct {
    const char *name;
    int (*call)(void);
  } ways[] = {{"direct", direct},
              {"run", run},
              {"bound", run_bound},
              {"call_into", call_into},
              {"call", call}};
  enum { WAYS = sizeof ways / sizeof *ways };
  static double times[WAYS][MOST_ROUNDS];
  check(count == 4, "onnxruntime LIBRARY OPERATOR ROUNDS");
  const int rounds = atoi(words[3]) < MOST_ROUNDS ? atoi(words[3]) : MOST_ROUNDS;
  const int64_t four = 4;
  loop = twice;
  check(tenon_library_load(words[1], 0, NULL) == TENON_OK, "load");
  check(tenon_op_find(words[2], &op) == TENON_OK, words[2]);
  check(tenon_tensor_borrow(in, tenon_dtype(TENON_F32), 1, &four, NULL, NULL, NULL, &x) == TENON_OK,
        "x");
  check(tenon_tensor_borrow(out, tenon_dtype(TENON_F32), 1, &four, NULL, NULL, NULL, &y) ==
            TENON_OK,
        "y");
  check(tenon_bound_create(op, NULL, &bound) == TENON_OK && call_into() && run_bound(), "a call");
  for (int w = 0; w < WAYS && !rounds; w++)
    for (int i = 0; i < COUNTED; i++)
      check(ways[w].call(), ways[w].name);
  for (int r = 0; r < rounds; r++)
    for (int w = 0; w < WAYS; w++) {
      const double begin = now();
      for (int i = 0; i < CALLS; i++)
        check(ways[w].call(), ways[w].name);
      times[w][r] = (now() - begin) / CALLS;
    }
  for (int w = 0; w < WAYS && rounds; w++) {
    qsort(times[w], (size_t)rounds, sizeof **times, by_value);
    printf("%s %.1f %.1f\n", ways[w].name, times[w][rounds / 2], times[w][rounds / 10]);
  }
  return 0;
}
