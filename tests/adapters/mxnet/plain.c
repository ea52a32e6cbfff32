/* A library for MXNet in plain C, with interface VERSION 7, 10 or 11: the operators of the tests,
 * built without MXNet's header. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef VERSION
#define VERSION 11
#endif
#define EXPORT __attribute__((visibility("default")))

/* representation of an operator */

typedef struct attrs_t {
  const char *const *keys;
  const char *const *values;
  int count;
} attrs_t;
typedef struct side_t {
  const int64_t **shapes;
  int *ndims;
  void **data;
  int *dtypes;
  int count;
  int *storages;
  void **indices;
  void **indptr;
  int64_t *indices_counts;
} side_t;
typedef void *(*allocate_fn)(void *, int);
typedef void (*sparse_fn)(void *, int, int, int, void **, int64_t **, int64_t **);
typedef struct call_t {
  attrs_t attrs;
  side_t in;
  side_t out;
  allocate_fn allocate;
  void *allocate_handle;
  sparse_fn sparse;
  void *sparse_handle;
  struct object_t *object;
} call_t;
typedef int (*parse_fn)(attrs_t, int *, int *);
typedef int (*dtypes_fn)(attrs_t, int *, int, int *, int);
typedef int (*shapes_fn)(attrs_t, unsigned **, int *, int, unsigned **, int *, int);
typedef int (*run_fn)(call_t *);
typedef int (*mutates_fn)(attrs_t, int **, int *);
typedef struct object_t {
  long padding; /* byte 9 marks an object that a factory made */
  char suppress;
  char made;
  double factor;
  long calls;
  run_fn forward;
  run_fn backward;
} object_t;
typedef int (*create_fn)(attrs_t, object_t **);
typedef void (*any_fn)(void);
typedef struct op_t {
  const char *name;
  parse_fn parse;
  dtypes_fn dtypes;
  dtypes_fn storages;
  shapes_fn shapes;
  mutates_fn mutates;
  run_fn forward;
  run_fn backward;
  create_fn create;
} op_t;

/* messages */

static char messages[64][200];
static int message_count;
static int fail(const char *what) {
  if (VERSION == 7)
    printf("%s\n", what);
  else if (message_count < 64)
    snprintf(messages[message_count++], sizeof messages[0], "%s", what);
  return 0;
}

static const char *get(attrs_t a, const char *key, const char *otherwise) {
  for (int i = 0; i < a.count; i++)
    if (strcmp(a.keys[i], key) == 0) otherwise = a.values[i];
  return otherwise;
}

/* shared */

static int one_one(attrs_t a, int *in, int *out) {
  (void)a;
  *in = 1;
  return *out = 1;
}
static int two_one(attrs_t a, int *in, int *out) {
  (void)a;
  *in = 2;
  return *out = 1;
}
static int two_two(attrs_t a, int *in, int *out) {
  (void)a;
  *in = 2;
  return *out = 2;
}
static int as_first(attrs_t a, int *in, int n, int *out, int m) {
  (void)a;
  (void)n;
  for (int o = 0; o < m; o++)
    out[o] = in[0];
  return 1;
}
static int floats(attrs_t a, int *in, int n, int *out, int m) {
  for (int i = 0; i < n; i++)
    if (in[i] != 0 && in[i] != 1) return fail("expected float32 or float64");
  return as_first(a, in, n, out, m);
}
static unsigned *copy(const unsigned *of, int count) {
  unsigned *made = malloc(((size_t)count + 1) * sizeof *made);
  return memcpy(made, of, (size_t)count * sizeof *made);
}
static int same_shape(attrs_t a, unsigned **in, int *ndims, int n, unsigned **out, int *out_ndims,
                      int m) {
  (void)a;
  for (int i = 1; i < n; i++)
    if (ndims[i] != ndims[0] || memcmp(in[i], in[0], (size_t)ndims[0] * sizeof *in[0]) != 0)
      return fail("the inputs have different shapes");
  for (int o = 0; o < m; o++)
    out[o] = copy(in[0], out_ndims[o] = ndims[0]);
  return 1;
}
static int64_t size_of(const side_t *s, int i) {
  int64_t n = 1;
  for (int d = 0; d < s->ndims[i]; d++)
    n *= s->shapes[i][d];
  return n;
}
static double at(const side_t *s, int i, int64_t k) {
  return s->dtypes[i] == 0 ? ((float *)s->data[i])[k] : ((double *)s->data[i])[k];
}
static void put(const side_t *s, int i, int64_t k, double value) {
  if (s->dtypes[i] == 0)
    ((float *)s->data[i])[k] = (float)value;
  else
    ((double *)s->data[i])[k] = value;
}

/* scale: y = x * factor */

static int scale_parse(attrs_t a, int *in, int *out) {
  const char *text = get(a, "factor", "2");
  char *end;
  (void)strtod(text, &end);
  return *end || !*text ? fail("factor is no number") : one_one(a, in, out);
}
static int scale(call_t *c) {
  const double factor = strtod(get(c->attrs, "factor", "2"), NULL);
  for (int64_t k = 0, n = size_of(&c->out, 0); k < n; k++)
    put(&c->out, 0, k, at(&c->in, 0, k) * factor);
  return 1;
}

/* gemm */

static int gemm_shapes(attrs_t a, unsigned **in, int *ndims, int n, unsigned **out, int *out_ndims,
                       int m) {
  (void)a;
  (void)n;
  (void)m;
  if (ndims[0] != 2 || ndims[1] != 2) return fail("gemm takes matrices");
  if (in[0][1] != in[1][0]) return fail("gemm: the inner extents differ");
  out[0] = copy((unsigned[]){in[0][0], in[1][1]}, out_ndims[0] = 2);
  return 1;
}
static void multiply(const side_t *x, int i, int xt, const side_t *y, int j, int yt,
                     const side_t *to, int o) {
  const int64_t rows = to->shapes[o][0];
  const int64_t columns = to->shapes[o][1];
  const int64_t inner = x->shapes[i][xt ? 0 : 1];
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < columns; c++) {
      double sum = 0;
      for (int64_t k = 0; k < inner; k++)
        sum += at(x, i, xt ? k * rows + r : r * inner + k) *
               at(y, j, yt ? c * inner + k : k * columns + c);
      put(to, o, r * columns + c, sum);
    }
}
static int gemm(call_t *c) {
  multiply(&c->in, 0, 0, &c->in, 1, 0, &c->out, 0);
  return 1;
}
static int gemm_back(call_t *c) { /* dC, A, B, C */
  multiply(&c->in, 0, 0, &c->in, 2, 1, &c->out, 0);
  multiply(&c->in, 1, 1, &c->in, 0, 0, &c->out, 1);
  return 1;
}

/* sumdiff: two results */

static int sumdiff(call_t *c) {
  for (int64_t k = 0, n = size_of(&c->out, 0); k < n; k++) {
    put(&c->out, 0, k, at(&c->in, 0, k) + at(&c->in, 1, k));
    put(&c->out, 1, k, at(&c->in, 0, k) - at(&c->in, 1, k));
  }
  return 1;
}
static int sumdiff_back(call_t *c) { /* ds, dd, a, b, s, d */
  for (int64_t k = 0, n = size_of(&c->out, 0); k < n; k++) {
    put(&c->out, 0, k, at(&c->in, 0, k) + at(&c->in, 1, k));
    put(&c->out, 1, k, at(&c->in, 0, k) - at(&c->in, 1, k));
  }
  return 1;
}

/* bytes: reverses the bytes of each element, for any dtype; or returns `dtype` zeros */

static int bytes_dtypes(attrs_t a, int *in, int n, int *out, int m) {
  (void)n;
  (void)m;
  const char *dtype = get(a, "dtype", "");
  out[0] = *dtype ? atoi(dtype) : in[0];
  return 1;
}
static int bytes(call_t *c) {
  static const size_t sizes[] = {4, 8, 2, 1, 4, 1, 8};
  const size_t from = sizes[c->in.dtypes[0]];
  const size_t to = sizes[c->out.dtypes[0]];
  const int64_t n = size_of(&c->out, 0);
  memset(c->out.data[0], 0, (size_t)n * to);
  for (int64_t k = 0; k < n && from == to; k++)
    memcpy((char *)c->out.data[0] + (size_t)(n - 1 - k) * to,
           (char *)c->in.data[0] + (size_t)k * to, to);
  return 1;
}

/* join: any number of vectors */

static int join_parse(attrs_t a, int *in, int *out) {
  const char *count = get(a, "num_args", "");
  if (!*count) return fail("join needs num_args");
  *in = atoi(count);
  return *out = 1;
}
static int join_shapes(attrs_t a, unsigned **in, int *ndims, int n, unsigned **out, int *out_ndims,
                       int m) {
  unsigned total = 0;
  (void)a;
  (void)m;
  for (int i = 0; i < n; i++) {
    if (ndims[i] != 1) return fail("join takes vectors");
    total += in[i][0];
  }
  out[0] = copy(&total, out_ndims[0] = 1);
  return 1;
}
static int join(call_t *c) {
  int64_t to = 0;
  for (int i = 0; i < c->in.count; i++)
    for (int64_t k = 0, n = size_of(&c->in, i); k < n; k++)
      put(&c->out, 0, to++, at(&c->in, i, k));
  return 1;
}
static int join_back(call_t *c) { /* d, xs..., y */
  int64_t from = 0;
  for (int i = 0; i < c->out.count; i++)
    for (int64_t k = 0, n = size_of(&c->out, i); k < n; k++)
      put(&c->out, i, k, at(&c->in, 0, from++));
  return 1;
}

/* running: y = x - mean, and the second input becomes the mean of itself and x */

static int running_writes(attrs_t a, int **which, int *count) {
  (void)a;
  *which = malloc(sizeof **which);
  (*which)[0] = 1;
  return *count = 1;
}
static int running(call_t *c) {
  for (int64_t k = 0, n = size_of(&c->out, 0); k < n; k++) {
    const double mean = 0.5 * at(&c->in, 1, k) + 0.5 * at(&c->in, 0, k);
    put(&c->in, 1, k, mean);
    put(&c->out, 0, k, at(&c->in, 0, k) - mean);
  }
  return 1;
}

/* counter: has state */

static int counter_forward(call_t *c) {
  c->object->calls++;
  for (int64_t k = 0, n = size_of(&c->out, 0); k < n; k++)
    put(&c->out, 0, k, at(&c->in, 0, k) * c->object->factor + (double)c->object->calls);
  return 1;
}
static int counter_backward(call_t *c) {
  for (int64_t k = 0, n = size_of(&c->out, 0); k < n; k++)
    put(&c->out, 0, k, at(&c->in, 0, k) * c->object->factor * (double)c->object->calls);
  return 1;
}
static int counter_create(attrs_t a, object_t **out) {
  const char *factor = get(a, "factor", "1");
  if (strcmp(factor, "bad") == 0) return fail("no counter of that factor");
  *out = calloc(1, sizeof **out);
  (*out)->made = 1;
  (*out)->factor = strtod(factor, NULL);
  (*out)->forward = counter_forward;
  (*out)->backward = counter_backward;
  return 1;
}

/* sort: requests memory for the call twice */

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a;
  const double y = *(const double *)b;
  return x < y ? -1 : x > y;
}
static int sort(call_t *c) {
  const int64_t n = size_of(&c->out, 0);
  double *first = c->allocate(c->allocate_handle, (int)(n * 8));
  double *second = c->allocate(c->allocate_handle, (int)(n * 8));
  if (!first || !second) return fail("no memory");
  for (int64_t k = 0; k < n; k++)
    first[k] = at(&c->in, 0, k);
  memcpy(second, first, (size_t)n * 8);
  qsort(second, (size_t)n, 8, ascending);
  for (int64_t k = 0; k < n; k++)
    put(&c->out, 0, k, second[k]);
  return 1;
}

/* sparse */

static int csr_to_csr(attrs_t a, int *in, int n, int *out, int m) {
  (void)a;
  (void)n;
  if (in[0] != 2) return fail("expected a csr input");
  for (int o = 0; o < m; o++)
    out[o] = 2;
  return 1;
}
static int csr_to_dense(attrs_t a, int *in, int n, int *out, int m) {
  (void)a;
  (void)n;
  (void)m;
  if (in[0] != 2) return fail("expected a csr input");
  out[0] = 0;
  return 1;
}
static int rows_to_rows(attrs_t a, int *in, int n, int *out, int m) {
  (void)a;
  (void)n;
  (void)m;
  if (in[0] != 1) return fail("expected a row-sparse input");
  return out[0] = 1;
}
static int csr_scale(call_t *c) {
  const int64_t n = c->in.indices_counts[0];
  const int64_t rows = c->in.shapes[0][0];
  void *data = NULL;
  int64_t *indices = NULL;
  int64_t *indptr = NULL;
  c->sparse(c->sparse_handle, 0, (int)n, (int)rows + 1, &data, &indices, &indptr);
  if (!data && n) return 0;
  memcpy(indices, c->in.indices[0], (size_t)n * 8);
  memcpy(indptr, c->in.indptr[0], (size_t)(rows + 1) * 8);
  for (int64_t k = 0; k < n; k++)
    ((float *)data)[k] = 3 * ((float *)c->in.data[0])[k];
  return 1;
}
static int csr_dense(call_t *c) {
  const int64_t rows = c->in.shapes[0][0];
  const int64_t columns = c->in.shapes[0][1];
  const int64_t *indptr = c->in.indptr[0];
  float *to = c->out.data[0];
  memset(to, 0, (size_t)(rows * columns) * 4);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t k = indptr[r]; k < indptr[r + 1]; k++)
      to[r * columns + ((int64_t *)c->in.indices[0])[k]] = ((float *)c->in.data[0])[k];
  return 1;
}
static int rows_square(call_t *c) {
  const int64_t n = c->in.indices_counts[0];
  int64_t width = 1;
  int64_t *indices = NULL;
  int64_t *unused = NULL;
  void *data = NULL;
  for (int d = 1; d < c->in.ndims[0]; d++)
    width *= c->in.shapes[0][d];
  c->sparse(c->sparse_handle, 0, (int)n, 0, &data, &indices, &unused);
  if (!data && n) return 0;
  memcpy(indices, c->in.indices[0], (size_t)n * 8);
  for (int64_t k = 0; k < n * width; k++)
    ((float *)data)[k] = ((float *)c->in.data[0])[k] * ((float *)c->in.data[0])[k];
  return 1;
}

#ifdef OPERATORS /* more operators, in a file of their own */
#include OPERATORS
#else
static const op_t ops[] = {
    {"t_scale", scale_parse, floats, NULL, same_shape, NULL, scale, scale, NULL},
    {"t_gemm", two_one, floats, NULL, gemm_shapes, NULL, gemm, gemm_back, NULL},
    {"t_sumdiff", two_two, floats, NULL, same_shape, NULL, sumdiff, sumdiff_back, NULL},
    {"t_bytes", one_one, bytes_dtypes, NULL, same_shape, NULL, bytes, NULL, NULL},
    {"t_join", join_parse, floats, NULL, join_shapes, NULL, join, join_back, NULL},
    {"t_running", two_one, floats, NULL, same_shape, running_writes, running, NULL, NULL},
    {"t_counter", one_one, floats, NULL, same_shape, NULL, NULL, NULL, counter_create},
    {"t_sort", one_one, floats, NULL, same_shape, NULL, sort, NULL, NULL},
    {"t_csr_scale", one_one, as_first, csr_to_csr, same_shape, NULL, csr_scale, NULL, NULL},
    {"t_csr_dense", one_one, as_first, csr_to_dense, same_shape, NULL, csr_dense, NULL, NULL},
    {"t_rows_square", one_one, as_first, rows_to_rows, same_shape, NULL, rows_square, NULL, NULL},
};
#endif
enum { OPS = sizeof ops / sizeof *ops };

/* the interface */

#define ATTRS const char *const *keys, const char *const *values, int count
#define SIDE(s)                                                                                    \
  const int64_t **s##_shapes, int *s##_ndims, void **s##_data, int *s##_dtypes,                    \
      size_t *s##_versions, const char **s##_devices, int *s##_ids, int s##_count
#define COMPUTE                                                                                    \
  SIDE(in), SIDE(out), allocate_fn cpu, void *cpu_handle, allocate_fn gpu, void *gpu_handle,       \
      void *stream, sparse_fn sparse, void *sparse_handle, int *in_storages, int *out_storages,    \
      void **in_indices, void **out_indices, void **in_indptr, void **out_indptr,                  \
      int64_t *in_indices_counts, int64_t *out_indices_counts, int64_t *in_indptr_counts,          \
      int64_t *out_indptr_counts, void *cpu_random, void *gpu_random
#define CALL                                                                                       \
  call_t call = {.in = {in_shapes, in_ndims, in_data, in_dtypes, in_count, in_storages,            \
                        in_indices, in_indptr, in_indices_counts},                                 \
                 .out = {out_shapes, out_ndims, out_data, out_dtypes, out_count, out_storages,     \
                         out_indices, out_indptr, out_indices_counts},                             \
                 .allocate = cpu,                                                                  \
                 .allocate_handle = cpu_handle,                                                    \
                 .sparse = sparse,                                                                 \
                 .sparse_handle = sparse_handle};                                                  \
  (void)in_versions;                                                                               \
  (void)in_devices;                                                                                \
  (void)in_ids;                                                                                    \
  (void)out_versions;                                                                              \
  (void)out_devices;                                                                               \
  (void)out_ids;                                                                                   \
  (void)gpu;                                                                                       \
  (void)gpu_handle;                                                                                \
  (void)stream;                                                                                    \
  (void)in_indptr_counts;                                                                          \
  (void)out_indptr_counts;                                                                         \
  (void)cpu_random;                                                                                \
  (void)gpu_random

#ifndef INITIALIZE
#define INITIALIZE version >= 10000
#endif
EXPORT int initialize(int version) { return INITIALIZE; }
EXPORT int _opVersion(void) { return VERSION; }
#if VERSION != 7
EXPORT int _msgSize(void) { return message_count; }
EXPORT void _msgGet(int index, const char **message) { *message = messages[index]; }
#endif
EXPORT int _opRegSize(void) { return OPS; }
EXPORT void _opRegGet(int index, const char **name, int *is_subgraph, const char ***forward_devices,
                      any_fn **forward, int *forward_count, const char ***backward_devices,
                      any_fn **backward, int *backward_count, const char ***create_devices,
                      any_fn **create, int *create_count, any_fn *parse, any_fn *dtypes,
                      any_fn *storages, any_fn *shapes, any_fn *mutates) {
#ifndef DEVICE
#define DEVICE "cpu"
#endif
  static const char *cpu[] = {DEVICE};
  static any_fn functions[OPS][3];
  const op_t *op = &ops[index];
  functions[index][0] = (any_fn)op->forward;
  functions[index][1] = (any_fn)op->backward;
  functions[index][2] = (any_fn)op->create;
  *name = op->name;
  *is_subgraph = !op->parse && op->create;
  *forward_devices = *backward_devices = *create_devices = cpu;
  *forward = &functions[index][0];
  *forward_count = op->forward != NULL;
  *backward = &functions[index][1];
  *backward_count = op->backward != NULL;
  *create = &functions[index][2];
  *create_count = op->create != NULL;
  *parse = (any_fn)op->parse;
  *dtypes = (any_fn)op->dtypes;
  *storages = (any_fn)op->storages;
  *shapes = (any_fn)op->shapes;
  *mutates = (any_fn)op->mutates;
}
EXPORT void _opCallFree(void *memory) { free(memory); }
EXPORT int _opCallParseAttrs(parse_fn f, ATTRS, int *in, int *out) {
  return f((attrs_t){keys, values, count}, in, out) != 0;
}
EXPORT int _opCallInferType(dtypes_fn f, ATTRS, int *in, int n, int *out, int m) {
  return f((attrs_t){keys, values, count}, in, n, out, m) != 0;
}
EXPORT int _opCallInferSType(dtypes_fn f, ATTRS, int *in, int n, int *out, int m) {
  return f((attrs_t){keys, values, count}, in, n, out, m) != 0;
}
EXPORT int _opCallInferShape(shapes_fn f, ATTRS, unsigned **in, int *ndims, int n,
                             unsigned ***new_in, int **new_ndims, unsigned ***out, int **out_ndims,
                             int m) {
  unsigned **made = calloc((size_t)m + 1, sizeof *made);
  int *made_ndims = calloc((size_t)m + 1, sizeof *made_ndims);
  if (!f((attrs_t){keys, values, count}, in, ndims, n, made, made_ndims, m)) {
    free(made);
    free(made_ndims);
    return 0;
  }
  *out = made;
  *out_ndims = made_ndims;
  *new_in = calloc((size_t)n + 1, sizeof **new_in);
  *new_ndims = calloc((size_t)n + 1, sizeof **new_ndims);
  for (int i = 0; i < n; i++)
    (*new_in)[i] = copy(in[i], (*new_ndims)[i] = ndims[i]);
  return 1;
}
EXPORT int _opCallMutateInputs(mutates_fn f, ATTRS, int **which, int *which_count) {
  return f((attrs_t){keys, values, count}, which, which_count) != 0;
}
EXPORT int _opCallFCompute(run_fn f, ATTRS, COMPUTE) {
  CALL;
  call.attrs = (attrs_t){keys, values, count};
  return f(&call) != 0;
}
#if VERSION == 7
EXPORT int _opCallCreateOpState(create_fn f, ATTRS, void **state) {
#else
EXPORT int _opCallCreateOpState(create_fn f, ATTRS, const char *device, int id, unsigned **shapes,
                                int *ndims, int n, const int *dtypes, void **state) {
  (void)device;
  (void)id;
  (void)shapes;
  (void)ndims;
  (void)n;
  (void)dtypes;
#endif
  object_t *made = NULL;
  int good = f((attrs_t){keys, values, count}, &made) != 0;
  *state = made;
  return good;
}
static int destroyed;
#if VERSION == 11
EXPORT void _opCallDestroyOpState(void *state) {
  destroyed++;
  free(state);
}
#endif
EXPORT int t_destroyed(void) { return destroyed; } /* for the tests */
EXPORT int _opCallFStatefulCompute(int is_forward, void *state, COMPUTE) {
  CALL;
  call.object = state;
  return (is_forward ? call.object->forward : call.object->backward)(&call) != 0;
}

#ifdef TRANSFORMS
#include TRANSFORMS
#else
/* The library has neither partitioners nor passes. */
EXPORT int _partRegSize(void) { return 0; }
EXPORT int _passRegSize(void) { return 0; }
#define NOTHING(name)                                                                              \
  EXPORT int name(void);                                                                           \
  EXPORT int name(void) { return 0; }
NOTHING(_partRegGetCount)
NOTHING(_partRegGet)
NOTHING(_partCallSupportedOps)
NOTHING(_partCallCreateSelector)
NOTHING(_partCallSelect)
NOTHING(_partCallSelectInput)
NOTHING(_partCallSelectOutput)
NOTHING(_partCallFilter)
NOTHING(_partCallReset)
NOTHING(_partCallReviewSubgraph)
NOTHING(_passRegGet)
NOTHING(_passCallGraphPass)
#endif
