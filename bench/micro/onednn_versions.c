/* Times primitives of the oneDNN library that the dynamic linker finds. bench/onednn_versions.py
 * runs it once for each library.
 * Usage: onednn_versions THREADS SECONDS CASE... A case is
 * conv:DTYPES:TAG:IN:OUT:SIZE:KERNEL:GROUPS
 * or matmul:DTYPES:M:K:N, with DTYPES such as f32, u8, f16, and f32s8 or f32u4 for compressed
 * weights. Each line of output is a case, microseconds (20th percentile) and the implementation, or
 * "-" if the library has none. */
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_TIMES = 5000, MOST_ARGS = 4, WORD = 16, WARM_RUNS = 2 };

typedef struct dtypes_t {
  const char *name;
  dnnl_data_type_t x;
  dnnl_data_type_t w;
  dnnl_data_type_t y;
  int is_compressed; /* f32 is computed from weights of integers */
} dtypes_t;

static const dtypes_t all_dtypes[] = {
    {"f32", dnnl_f32, dnnl_f32, dnnl_f32, 0},  {"f16", dnnl_f16, dnnl_f16, dnnl_f16, 0},
    {"u8", dnnl_u8, dnnl_s8, dnnl_u8, 0},      {"f32s8", dnnl_f32, dnnl_s8, dnnl_f32, 1},
    {"f32u4", dnnl_f32, dnnl_u4, dnnl_f32, 1},
};

typedef struct bench_t {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  double seconds; /* for each case */
} bench_t;

static double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int compare_times(const void *a, const void *b) {
  double x = *(const double *)a;
  double y = *(const double *)b;
  return (x > y) - (x < y);
}

static const dtypes_t *find_dtypes(const char *name) {
  for (size_t i = 0; i < sizeof all_dtypes / sizeof *all_dtypes; i++)
    if (strcmp(all_dtypes[i].name, name) == 0) return &all_dtypes[i];
  fprintf(stderr, "unknown dtypes %s\n", name);
  exit(1);
}

static void check(dnnl_status_t status, const char *what) {
  if (status == dnnl_success) return;
  fprintf(stderr, "%s: oneDNN's status %d\n", what, (int)status);
  exit(1);
}

/* Bytes 0 to 63 make small numbers in every dtype that is used here. */
static dnnl_memory_t make_memory(const bench_t *b, const_dnnl_memory_desc_t desc) {
  dnnl_memory_t memory;
  void *data;
  check(dnnl_memory_create(&memory, desc, b->engine, DNNL_MEMORY_ALLOCATE), "memory");
  check(dnnl_memory_get_data_handle(memory, &data), "memory");
  for (size_t i = 0; i < dnnl_memory_desc_get_size(desc); i++)
    ((unsigned char *)data)[i] = (unsigned char)(i * 37 % 64);
  return memory;
}

/* Returns the 20th percentile of the times of runs. */
static double time_primitive(const bench_t *b, dnnl_primitive_t primitive,
                             const dnnl_exec_arg_t *args) {
  static double times[MOST_TIMES];
  int count = 0;
  for (int i = 0; i < WARM_RUNS; i++) {
    check(dnnl_primitive_execute(primitive, b->stream, MOST_ARGS, args), "run");
    check(dnnl_stream_wait(b->stream), "run");
  }
  const double end = seconds_now() + b->seconds;
  while (count == 0 || (count < MOST_TIMES && seconds_now() < end)) {
    double start = seconds_now();
    check(dnnl_primitive_execute(primitive, b->stream, MOST_ARGS, args), "run");
    check(dnnl_stream_wait(b->stream), "run");
    times[count++] = seconds_now() - start;
  }
  qsort(times, (size_t)count, sizeof *times, compare_times);
  return times[count / 5];
}

static void report(const bench_t *b, const char *name, dnnl_primitive_desc_t desc) {
  const int arguments[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
  const dnnl_query_t queries[] = {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md};
  const dnnl_dims_t one = {1};
  dnnl_memory_desc_t scale;
  dnnl_exec_arg_t args[MOST_ARGS];
  dnnl_primitive_t primitive;
  const char *implementation = "";
  check(dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &implementation), name);
  check(dnnl_primitive_create(&primitive, desc), name);
  for (int i = 0; i < 3; i++) {
    args[i].arg = arguments[i];
    args[i].memory = make_memory(b, dnnl_primitive_desc_query_md(desc, queries[i], 0));
  }
  check(dnnl_memory_desc_create_with_tag(&scale, 1, one, dnnl_f32, dnnl_a), name);
  args[3].arg = DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS;
  args[3].memory = make_memory(b, scale);
  printf("%s %.2f %s\n", name, time_primitive(b, primitive, args) * 1e6, implementation);
}

/* Weights of integers have one scale. Returns NULL if the library cannot compute with them. */
static dnnl_primitive_attr_t make_attributes(const dtypes_t *dtypes) {
  dnnl_status_t (*set_mode)(dnnl_primitive_attr_t, dnnl_fpmath_mode_t, int);
  dnnl_primitive_attr_t attributes;
  check(dnnl_primitive_attr_create(&attributes), "attributes");
  if (dtypes->w == dtypes->y) return attributes;
  check(dnnl_primitive_attr_set_scales_mask(attributes, DNNL_ARG_WEIGHTS, 0), "scales");
  if (!dtypes->is_compressed) return attributes;
  *(void **)&set_mode = dlsym(RTLD_DEFAULT, "dnnl_primitive_attr_set_fpmath_mode_v2");
  if (!set_mode) return NULL;
  check(set_mode(attributes, dnnl_fpmath_mode_any, 1), "floating-point mode");
  return attributes;
}

static dnnl_memory_desc_t describe(int rank, const dnnl_dims_t dims, dnnl_data_type_t dtype,
                                   dnnl_format_tag_t tag) {
  dnnl_memory_desc_t desc = NULL;
  check(dnnl_memory_desc_create_with_tag(&desc, rank, dims, dtype, tag), "shape");
  return desc;
}

/* Returns NULL if this is no convolution, or the library has no such one. */
static dnnl_primitive_desc_t make_conv(const bench_t *b, const char *text) {
  char dtype[WORD], tag[WORD];
  long in, out, size, kernel, groups;
  if (sscanf(text, "conv:%15[^:]:%15[^:]:%ld:%ld:%ld:%ld:%ld", dtype, tag, &in, &out, &size,
             &kernel, &groups) != 7)
    return NULL;
  const dtypes_t *d = find_dtypes(dtype);
  const dnnl_format_tag_t layout = strcmp(tag, "nhwc") == 0 ? dnnl_nhwc : dnnl_format_tag_any;
  const dnnl_dims_t x = {1, in, size, size};
  const dnnl_dims_t y = {1, out, size, size};
  const dnnl_dims_t grouped = {groups, out / groups, in / groups, kernel, kernel};
  const dnnl_dims_t whole = {out, in, kernel, kernel};
  const dnnl_dims_t ones = {1, 1};
  const dnnl_dims_t zeros = {0};
  const dnnl_dims_t pads = {kernel / 2, kernel / 2};
  dnnl_memory_desc_t w = groups > 1 ? describe(5, grouped, d->w, dnnl_format_tag_any)
                                    : describe(4, whole, d->w, dnnl_format_tag_any);
  dnnl_primitive_desc_t desc;
  dnnl_status_t status = dnnl_convolution_forward_primitive_desc_create(
      &desc, b->engine, dnnl_forward_inference, dnnl_convolution_direct,
      describe(4, x, d->x, layout), w, NULL, describe(4, y, d->y, layout), ones, zeros, pads, pads,
      make_attributes(d));
  return status == dnnl_success ? desc : NULL;
}

/* Returns NULL if this is no product, or the library has no such one. */
static dnnl_primitive_desc_t make_matmul(const bench_t *b, const char *text) {
  char dtype[WORD];
  long m, k, n;
  if (sscanf(text, "matmul:%15[^:]:%ld:%ld:%ld", dtype, &m, &k, &n) != 4) return NULL;
  const dtypes_t *d = find_dtypes(dtype);
  const dnnl_dims_t x = {m, k};
  const dnnl_dims_t w = {k, n};
  const dnnl_dims_t y = {m, n};
  dnnl_primitive_attr_t attributes = make_attributes(d);
  dnnl_primitive_desc_t desc;
  if (!attributes) return NULL;
  dnnl_status_t status = dnnl_matmul_primitive_desc_create(
      &desc, b->engine, describe(2, x, d->x, dnnl_ab), describe(2, w, d->w, dnnl_format_tag_any),
      NULL, describe(2, y, d->y, dnnl_ab), attributes);
  return status == dnnl_success ? desc : NULL;
}

int main(int argc, char **argv) {
  bench_t b = {.seconds = argc > 2 ? atof(argv[2]) : 0};
  void (*set_threads)(int);
  *(void **)&set_threads = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
  if (argc < 3) return 1;
  if (set_threads) set_threads(atoi(argv[1]));
  check(dnnl_engine_create(&b.engine, dnnl_cpu, 0), "engine for the CPU");
  check(dnnl_stream_create(&b.stream, b.engine, dnnl_stream_default_flags), "stream");
  for (int i = 3; i < argc; i++) {
    dnnl_primitive_desc_t desc =
        argv[i][0] == 'c' ? make_conv(&b, argv[i]) : make_matmul(&b, argv[i]);
    if (desc)
      report(&b, argv[i], desc);
    else
      printf("%s - -\n", argv[i]);
  }
  return 0;
}
