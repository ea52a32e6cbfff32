/* gemm.c: products of square matrices of f32, on OpenCL by Tenon and by CLBlast, and on the CPU by
 * Tenon (by oneDNN). bench/gemm.py runs it. Cases take turns. CLBlast is opened at run time and
 * uses Tenon's context and a queue of its own.
 *
 *   gemm SIZE ROUNDS [NAME=VALUE,...]
 *       for each case: name, seconds of one product: median, least; NAME=VALUE sets parameters of
 *       CLBlast's Xgemm */
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <time.h>

#include "device/stream.h"
#include "opencl/api.h"

enum {
  MOST_ROUNDS = 1000,
  PARAMETERS = 32,
  ROW_MAJOR = 101,
  NO_TRANSPOSE = 111,
  SINGLE = 32,
};
typedef int (*sgemm_fn)(int layout, int a_transpose, int b_transpose, size_t m, size_t n, size_t k,
                        float alpha, cl_mem a, size_t a_offset, size_t a_row, cl_mem b,
                        size_t b_offset, size_t b_row, float beta, cl_mem c, size_t c_offset,
                        size_t c_row, cl_command_queue *queue, cl_event *event);
typedef int (*override_fn)(cl_device_id device, const char *kernel, int precision, size_t count,
                           const char **names, const size_t *values);
typedef cl_mem (*buffer_fn)(cl_context, uint64_t flags, size_t size, void *data, cl_int *error);
typedef cl_int (*read_fn)(cl_command_queue, cl_mem, uint32_t blocking, size_t offset, size_t size,
                          void *data, uint32_t, const cl_event *, cl_event *);

static tenon_device_t opencl;
static const tenon_op_t *matmul;
static tenon_tensor_t *host[3], *there[3];
static sgemm_fn sgemm;
static cl_command_queue queue;
static cl_mem buffers[3];
static size_t size;

static void must(bool is_fine, const char *what) {
  if (is_fine) return;
  fprintf(stderr, "gemm: %s: %s\n", what, tenon_error());
  exit(1);
}

static void *symbol(void *library, const char *name) {
  void *found = dlsym(library, name);
  must(found != NULL, name);
  return found;
}

static void set_parameters(void *library, cl_device_id id, char *text) {
  const char *names[PARAMETERS];
  size_t values[PARAMETERS];
  size_t count = 0;
  for (char *word = strtok(text, ","); word && count < PARAMETERS; word = strtok(NULL, ",")) {
    char *sign = strchr(word, '=');
    if (!sign) continue;
    *sign = 0;
    names[count] = word;
    values[count++] = strtoul(sign + 1, NULL, 10);
  }
  override_fn override = (override_fn)symbol(library, "CLBlastOverrideParameters");
  must(override(id, "Xgemm", SINGLE, count, names, values) == 0,
       "CLBlast does not take these parameters");
}

static bool open_clblast(char *parameters) {
  void *library = dlopen("libclblast.so.1", RTLD_NOW);
  void *driver = dlopen("libOpenCL.so.1", RTLD_NOW);
  if (!library || !driver) return false;
  tn_ordinal_t *o;
  cl_int error = 0;
  must(tn_ordinal_get(opencl, &o) == TENON_OK, "opencl");
  cl_context context = o->table->native(&o->context, "cl_context", NULL);
  cl_device_id id = o->table->native(&o->context, "cl_device_id", NULL);
  sgemm = (sgemm_fn)symbol(library, "CLBlastSgemm");
  if (parameters) set_parameters(library, id, parameters);
  queue = ocl.CreateCommandQueue(context, id, 0, &error);
  must(!error, "a queue");
  buffer_fn create = (buffer_fn)symbol(driver, "clCreateBuffer");
  for (int i = 0; i < 3; i++) {
    buffers[i] = create(context, 1 | 32, size * size * sizeof(float), host[i]->data, &error);
    must(!error, "a buffer");
  }
  return true;
}

/* cases */

static void on_opencl(void) {
  tenon_tensor_t *inputs[4] = {there[0], there[1]};
  must(tenon_op_run(matmul, NULL, inputs, &there[2]) == TENON_OK, "matmul on opencl");
  must(tenon_device_synchronize(opencl) == TENON_OK, "opencl");
}
static void on_cpu(void) {
  tenon_tensor_t *inputs[4] = {host[0], host[1]};
  must(tenon_op_run(matmul, NULL, inputs, &host[2]) == TENON_OK, "matmul on the CPU");
}
static void by_clblast(void) {
  must(sgemm(ROW_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, size, size, size, 1, buffers[0], 0, size,
             buffers[1], 0, size, 0, buffers[2], 0, size, &queue, NULL) == 0,
       "CLBlast");
  ocl.Finish(queue);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int compare(const void *p, const void *q) {
  double d = *(const double *)p - *(const double *)q;
  return (d > 0) - (d < 0);
}

/* Checks that all three computed the same. */
static void check(const float *found, const char *name) {
  const float *expected = host[2]->data;
  for (size_t i = 0; i < size * size; i++)
    if (!(fabsf(found[i] - expected[i]) <= 1e-3f * (1 + fabsf(expected[i])))) {
      fprintf(stderr, "gemm: %s: element %zu is %g, expected %g\n", name, i, (double)found[i],
              (double)expected[i]);
      exit(1);
    }
}

int main(int argc, char **argv) {
  static double times[3][MOST_ROUNDS];
  static const char *const names[] = {"opencl", "clblast", "cpu"};
  static void (*const cases[])(void) = {on_opencl, by_clblast, on_cpu};
  if (argc < 3) {
    fprintf(stderr, "gemm: SIZE ROUNDS [NAME=VALUE,...]\n");
    return 2;
  }
  size = strtoul(argv[1], NULL, 10);
  int rounds = atoi(argv[2]);
  if (rounds < 3 || rounds > MOST_ROUNDS || size < 1 || size > 8192) {
    fprintf(stderr, "gemm: too many, or too few\n");
    return 2;
  }
  int64_t shape[2] = {(int64_t)size, (int64_t)size};
  must(tenon_device_find("opencl", 0, &opencl) == TENON_OK, "opencl");
  must(tenon_op_find("core::matmul", &matmul) == TENON_OK, "core::matmul");
  for (int i = 0; i < 3; i++) {
    must(tenon_tensor_create(tenon_dtype(TENON_F32), 2, shape, &host[i]) == TENON_OK, "a tensor");
    for (size_t k = 0; k < size * size; k++)
      ((float *)host[i]->data)[k] = (float)((k * 2654435761u >> 8) % 1000) / 500 - 1;
    must(tenon_tensor_copy_to(host[i], opencl, &there[i]) == TENON_OK, "a tensor");
  }
  bool has_clblast = open_clblast(argc > 3 ? argv[3] : NULL);
  for (int r = -2; r < rounds; r++)
    for (int c = 0; c < 3; c++) {
      if (c == 1 && !has_clblast) continue;
      double begin = now();
      cases[c]();
      if (r >= 0) times[c][r] = now() - begin;
    }
  tenon_tensor_t *back;
  must(tenon_tensor_copy_to(there[2], (tenon_device_t){1, 0}, &back) == TENON_OK, "a tensor");
  check(back->data, "opencl");
  if (has_clblast) {
    read_fn read = (read_fn)symbol(dlopen("libOpenCL.so.1", RTLD_NOW), "clEnqueueReadBuffer");
    must(read(queue, buffers[2], 1, 0, size * size * sizeof(float), back->data, 0, NULL, NULL) == 0,
         "a read");
    check(back->data, "clblast");
  }
  for (int c = 0; c < 3; c++) {
    if (c == 1 && !has_clblast) continue;
    qsort(times[c], (size_t)rounds, sizeof **times, compare);
    printf("%s %.6f %.6f\n", names[c], times[c][rounds / 2], times[c][0]);
  }
  for (int i = 0; i < 3; i++) {
    tenon_tensor_release(host[i]);
    tenon_tensor_release(there[i]);
  }
  tenon_tensor_release(back);
  return 0;
}
