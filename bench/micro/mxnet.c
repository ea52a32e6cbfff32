/* mxnet.c: what a call of a library's operator costs through Tenon, beside a direct call of the
 * library's own function with all of its arrays made before. bench/mxnet.py runs it.
 *
 *   mxnet LIBRARY NAMESPACE INDEX ROUNDS
 *       calls the INDEX-th operator, of one input and one output of 4 floats; for each way: name,
 *       nanoseconds of a call: median, 10th percentile */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <time.h>

enum {
  MOST_ROUNDS = 10000,
  CALLS = 2000,
};
typedef void (*author_fn)(void);
typedef void (*get_fn)(int, const char **, int *, const char ***, author_fn **, int *,
                       const char ***, author_fn **, int *, const char ***, author_fn **, int *,
                       author_fn *, author_fn *, author_fn *, author_fn *, author_fn *);
typedef int (*compute_fn)(author_fn, const char *const *, const char *const *, int,
                          const int64_t **, int *, void **, int *, size_t *, const char **, int *,
                          int, const int64_t **, int *, void **, int *, size_t *, const char **,
                          int *, int, void *, void *, void *, void *, void *, void *, void *, int *,
                          int *, void **, void **, void **, void **, int64_t *, int64_t *,
                          int64_t *, int64_t *, void *, void *);

static void check(int truth, const char *what) {
  if (truth) return;
  fprintf(stderr, "mxnet: %s: %s\n", what, tenon_error());
  exit(1);
}

static void *no_memory(void *handle, int bytes) {
  (void)handle;
  (void)bytes;
  return NULL;
}

static float in[4] = {1, 2, 3, 4};
static float out[4];
static author_fn forward;
static compute_fn compute;
static int direct(void) {
  static const int64_t shape[1] = {4};
  static const int64_t *in_shapes[1] = {shape};
  static const int64_t *out_shapes[1] = {shape};
  static int ndim = 1;
  static int dtype = 0;
  static int id = 0;
  static int in_storage = 0;
  static int out_storage = 0;
  static void *in_data = in;
  static void *out_data = out;
  static void *nothing = NULL;
  static size_t version = 1;
  static const char *device = "cpu";
  static int64_t none = 0;
  return compute(forward, NULL, NULL, 0, in_shapes, &ndim, &in_data, &dtype, &version, &device, &id,
                 1, out_shapes, &ndim, &out_data, &dtype, &version, &device, &id, 1,
                 (void *)no_memory, NULL, (void *)no_memory, NULL, NULL, NULL, NULL, &in_storage,
                 &out_storage, &nothing, &nothing, &nothing, &nothing, &none, &none, &none, &none,
                 NULL, NULL);
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
  check(count == 5, "mxnet LIBRARY NAMESPACE INDEX ROUNDS");
  const int rounds = atoi(words[4]) < MOST_ROUNDS ? atoi(words[4]) : MOST_ROUNDS;
  check(tenon_library_load(words[1], 0, NULL) == TENON_OK, "load");
  /* This returns the library that is open already. */
  void *handle = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
  get_fn get = NULL;
  *(void **)&get = dlsym(handle, "_opRegGet");
  *(void **)&compute = dlsym(handle, "_opCallFCompute");
  const char *name, **devices[3];
  author_fn *functions[3], others[5];
  int is_subgraph, counts[3];
  get(atoi(words[3]), &name, &is_subgraph, &devices[0], &functions[0], &counts[0], &devices[1],
      &functions[1], &counts[1], &devices[2], &functions[2], &counts[2], &others[0], &others[1],
      &others[2], &others[3], &others[4]);
  forward = functions[0][0];
  char full[200];
  const int64_t four = 4;
  snprintf(full, sizeof full, "%s::%s", words[2], name);
  check(tenon_op_find(full, &op) == TENON_OK, full);
  check(tenon_tensor_borrow(in, tenon_dtype(TENON_F32), 1, &four, NULL, NULL, NULL, &x) == TENON_OK,
        "x");
  check(tenon_tensor_borrow(out, tenon_dtype(TENON_F32), 1, &four, NULL, NULL, NULL, &y) ==
            TENON_OK,
        "y");
  check(tenon_bound_create(op, NULL, &bound) == TENON_OK && call_into(), "a call");
  for (int r = 0; r < rounds; r++)
    for (int w = 0; w < WAYS; w++) {
      const double begin = now();
      for (int i = 0; i < CALLS; i++)
        check(ways[w].call(), ways[w].name);
      times[w][r] = (now() - begin) / CALLS;
    }
  for (int w = 0; w < WAYS; w++) {
    qsort(times[w], (size_t)rounds, sizeof **times, by_value);
    printf("%s %.1f %.1f\n", ways[w].name, times[w][rounds / 2], times[w][rounds / 10]);
  }
  return 0;
}
