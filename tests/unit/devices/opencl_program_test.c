/* devices/opencl: compiling, loading and launching kernels. */
#include "opencl.h"

#include <pthread.h>

/* code */

TEST("an error in the source is reported with the author's file and line") {
  READY();
  void *program = NULL;
  host_sink_t code;
  CHECK_STATUS(build(&one,
                     "// a comment\n\n__kernel void f(__global int *x) {\n  *x = banana;\n}\n",
                     "my \"own\" file.cl", &code, &program),
               TENON_INVALID);
  CHECK(program == NULL && code.data == NULL);
  CHECK_TEXT(host_message(), "opencl:0: my \"own\" file.cl cannot be compiled for ");
  CHECK_TEXT(host_message(), "CL_BUILD_PROGRAM_FAILURE (-11)");
  CHECK_TEXT(host_message(), "file.cl:4:8: ");
  CHECK_TEXT(host_message(), "use of undeclared identifier 'banana'");
  tenon_source_t cuda = {sizeof cuda, TENON_SOURCE_CUDA, "", 0, "k.cu", ""};
  CHECK_STATUS(cl->compile(&one, &cuda, &code.sink), TENON_UNIMPLEMENTED);
  tenon_source_t options = {sizeof options, TENON_SOURCE_OPENCL, "__kernel void f(int x) {}", 25,
                            "k.cl",         "--banana"};
  CHECK_STATUS(cl->compile(&one, &options, &code.sink), TENON_INVALID);
}

static const int group_sizes[] = {1, 3, 64, 256};

TEST("a pointwise kernel agrees with C at every group size") {
  READY();
  enum { N = 1003 };
  float x[N + 5], y[N + 5];
  float a = 1.25f;
  float b = -3.5f;
  int32_t n = N;
  for (int i = 0; i < N + 5; i++)
    x[i] = (float)tenon_random(3, (uint64_t)i) / 65536.0f;
  void *xs = allocated(sizeof x);
  void *ys = allocated(sizeof y);
  for (int g = 0; g < 4; g++) {
    copy_in(x, xs, 0, sizeof x);
    for (int i = 0; i < N + 5; i++)
      y[i] = -1;
    copy_in(y, ys, 0, sizeof y);
    tenon_kernel_argument_t arguments[] = {memory_argument(xs, 8), memory_argument(ys, 12),
                                           bytes_argument(&a, 4), bytes_argument(&b, 4),
                                           bytes_argument(&n, 4)};
    CHECK_STATUS(launch(NULL, kernel_of("affine"), 4, (uint32_t)group_sizes[g], 5, arguments, 1),
                 TENON_OK);
    copy_out(ys, 0, y, sizeof y);
    CHECK(y[2] == -1 && y[3 + N] == -1);
    int wrong = 0;
    for (int i = 0; i < N; i++) {
      float product = a * x[2 + i];
      /* The results are equal, so there is no contraction. */
      wrong += y[3 + i] != product + b;
    }
    CHECK(wrong == 0);
    /* constants that change take effect */
    a += 1;
    b *= 2;
  }
  cl->free(&one, xs);
  cl->free(&one, ys);
}

TEST("a reduction of rows with local memory agrees with C at every group size") {
  READY();
  enum {
    ROWS = 17,
    COLUMNS = 301,
  };
  static float x[ROWS * COLUMNS];
  float y[ROWS];
  int32_t columns = COLUMNS;
  for (int i = 0; i < ROWS * COLUMNS; i++)
    x[i] = (float)(tenon_random(5, (uint64_t)i) % 1000); /* sums of these numbers are exact */
  void *xs = allocated(sizeof x);
  void *ys = allocated(sizeof y);
  copy_in(x, xs, 0, sizeof x);
  for (int g = 0; g < 4; g++) {
    memset(y, 0, sizeof y);
    copy_in(y, ys, 0, sizeof y);
    tenon_kernel_argument_t arguments[] = {memory_argument(xs, 0), memory_argument(ys, 0),
                                           local_argument((uint64_t)group_sizes[g] * 4),
                                           bytes_argument(&columns, 4)};
    CHECK_STATUS(
        launch(NULL, kernel_of("row_sums"), ROWS, (uint32_t)group_sizes[g], 4, arguments, 1),
        TENON_OK);
    copy_out(ys, 0, y, sizeof y);
    int wrong = 0;
    for (int r = 0; r < ROWS; r++) {
      double sum = 0;
      for (int i = 0; i < COLUMNS; i++)
        sum += x[r * COLUMNS + i];
      wrong += y[r] != (float)sum;
    }
    CHECK(wrong == 0);
  }
  cl->free(&one, xs);
  cl->free(&one, ys);
}

TEST("a scatter with atomic additions agrees with C at every group size") {
  READY();
  enum {
    N = 20000,
    BINS = 37,
  };
  static int32_t index[N];
  int32_t y[BINS], expected[BINS];
  int32_t n = N;
  for (int i = 0; i < N; i++)
    index[i] = (int32_t)(tenon_random(7, (uint64_t)i) % BINS);
  void *is = allocated(sizeof index);
  void *ys = allocated(sizeof y);
  copy_in(index, is, 0, sizeof index);
  for (int g = 0; g < 4; g++) {
    memset(y, 0, sizeof y);
    memset(expected, 0, sizeof expected);
    copy_in(y, ys, 0, sizeof y);
    for (int i = 0; i < N; i++)
      expected[index[i]] += i;
    tenon_kernel_argument_t arguments[] = {memory_argument(is, 0), memory_argument(ys, 0),
                                           bytes_argument(&n, 4)};
    CHECK_STATUS(launch(NULL, kernel_of("scatter"), 8, (uint32_t)group_sizes[g], 3, arguments, 1),
                 TENON_OK);
    copy_out(ys, 0, y, sizeof y);
    CHECK(memcmp(y, expected, sizeof y) == 0);
  }
  cl->free(&one, is);
  cl->free(&one, ys);
}

TEST("a launch that does not match its kernel is refused with the reason") {
  READY();
  void *y = allocated(64);
  void *program = NULL;
  void *kernel = NULL;
  int32_t v = 1;
  int64_t wide = 1;
  host_sink_t code;
  tenon_kernel_argument_t few[] = {memory_argument(y, 0)};
  CHECK_STATUS(launch(NULL, kernel_of("slow"), 1, 1, 1, few, 1), TENON_INVALID);
  CHECK_TEXT(host_message(),
             "'slow' has 4 parameters, and a launch with 1 arguments gives 2 (memory is two");
  tenon_kernel_argument_t many[] = {memory_argument(y, 0), bytes_argument(&v, 4),
                                    memory_argument(y, 0)};
  CHECK_STATUS(launch(NULL, kernel_of("slow"), 1, 1, 3, many, 1), TENON_INVALID);
  CHECK_TEXT(host_message(), "gives at least 5");
  tenon_kernel_argument_t wrong[] = {memory_argument(y, 0), bytes_argument(&wide, 8),
                                     bytes_argument(&v, 4)};
  CHECK_STATUS(launch(NULL, kernel_of("slow"), 1, 1, 3, wrong, 1), TENON_INVALID);
  CHECK_TEXT(host_message(),
             "cannot set parameter 2 of the kernel 'slow': CL_INVALID_ARG_SIZE (-51)");
  tenon_kernel_argument_t right[] = {memory_argument(y, 0), bytes_argument(&v, 4),
                                     bytes_argument(&v, 4)};
  CHECK_STATUS(launch(NULL, kernel_of("slow"), 1, 1u << 20, 3, right, 1), TENON_INVALID);
  CHECK_TEXT(host_message(),
             "cannot launch the kernel 'slow' with 1 x 1 x 1 groups of 1048576 x 1 x 1 items");
  CHECK_STATUS(launch(NULL, kernel_of("slow"), UINT64_MAX / 2, 3, 3, right, 1), TENON_INVALID);
  CHECK_STATUS(launch(NULL, kernel_of("slow"), 1, 1, 3, right, 1), TENON_OK);
  CHECK_STATUS(build(&one, sources, "sources.cl", &code, &program), TENON_OK);
  CHECK_STATUS(cl->kernel_find(&one, program, "banana", &kernel), TENON_NOT_FOUND);
  CHECK_TEXT(host_message(), "no kernel 'banana'; it has ");
  CHECK_TEXT(host_message(), "scatter");
  CHECK_STATUS(cl->stream_synchronize(&one, NULL, NULL), TENON_OK);
  cl->program_unload(&one, program);
  free(code.data);
  cl->free(&one, y);
}

TEST("memory that reuses the handle of freed memory is the new memory for a kernel") {
  READY();
  if (!create_user_event) driver_functions();
  int32_t error = 0;
  int32_t zeros[1024] = {0};
  int32_t y[1024];
  void *whole = create_buffer(cl->native(&one, "cl_context", NULL), 1, sizeof zeros, NULL, &error);
  void *seen[60];
  int same = 0;
  int wrong = 0;
  int seen_count = 0;
  copy_in(zeros, whole, 0, sizeof zeros);
  for (int32_t i = 0; i < 60;
       /* Parts of the memory: a driver looks up their beginning when the argument is set. */
       i++) {
    size_t region[2] = {(size_t)(i % 4) * 1024, 1024};
    void *part = create_part(whole, 1, 0x1220, region, &error);
    void *memory = NULL;
    CHECK(error == 0);
    CHECK_STATUS(cl->memory_import(&one, part, 1024, &memory), TENON_OK);
    launch_slow(NULL, memory, 1, 1, 1);
    CHECK_STATUS(cl->stream_synchronize(&one, NULL, NULL), TENON_OK);
    for (int k = 0; k < seen_count; k++)
      same += seen[k] == memory;
    seen[seen_count++] = memory;
    nanosleep(&(struct timespec){0, 1000000},
              /* Gives the driver time to release it, so that its memory ends here. */
              NULL);
    cl->memory_forget(&one, memory);
    release_buffer(part);
  }
  copy_out(whole, 0, y, sizeof y);
  for (int i = 0; i < 4; i++)
    wrong += y[i * 256] != 32767; /* doubled 15 times, with one added each time */
  CHECK(wrong == 0);
  release_buffer(whole);
  if (!same) SKIP("the driver gave no handle twice");
}

TEST("groups may have three axes") {
  READY();
  static const char text[] =
      "__kernel void axes(__global char *yb, long yo) {\n"
      "  __global int *y = (__global int *)(yb + yo);\n"
      "  int i = (get_global_id(2) * get_global_size(1) + get_global_id(1)) * get_global_size(0) + "
      "get_global_id(0);\n"
      "  y[i] = get_group_id(2) * 10000 + get_group_id(1) * 100 + get_group_id(0);\n"
      "}\n";
  void *program = NULL;
  void *kernel = NULL;
  void *ys = allocated(4 * 4 * 6 * 6);
  int32_t y[4 * 6 * 6];
  host_sink_t code;
  CHECK_STATUS(build(&one, text, "axes.cl", &code, &program), TENON_OK);
  CHECK_STATUS(cl->kernel_find(&one, program, "axes", &kernel), TENON_OK);
  tenon_kernel_argument_t argument = memory_argument(ys, 0);
  tenon_launch_t l = {sizeof l, 1, 1, kernel, &argument, {2, 3, 2}, {2, 2, 3}, 0};
  CHECK_STATUS(cl->launch(&one, NULL, &l), TENON_OK);
  copy_out(ys, 0, y, sizeof y);
  for (int k = 0; k < 6; k++)
    for (int j = 0; j < 6; j++)
      for (int i = 0; i < 4; i++)
        CHECK(y[(k * 6 + j) * 4 + i] == k / 3 * 10000 + j / 2 * 100 + i / 2);
  cl->program_unload(&one, program);
  free(code.data);
  cl->free(&one, ys);
}

enum { LAUNCHES = 4000 }; /* for each thread */
typedef struct shared_t {
  void *kernel;
  void *y;
  void *stream; /* NULL: the thread makes a stream of its own */
  int number;
  int wrong;
  pthread_barrier_t *begin;
} shared_t;

static void *launches(void *argument) {
  shared_t *s = (shared_t *)argument;
  void *stream = s->stream ? s->stream : stream_made(&one);
  int32_t n = 1;
  float a = 0;
  float b = (float)(s->number * LAUNCHES);
  pthread_barrier_wait(s->begin);
  for (int i = 0; i < LAUNCHES;
       /* y[k] = k: a launch that mixes the arguments of two threads shows. */
       i++) {
    tenon_kernel_argument_t arguments[] = {
        memory_argument(s->y, 0), memory_argument(s->y, (uint64_t)(s->number * LAUNCHES + i) * 4),
        bytes_argument(&a, 4), bytes_argument(&b, 4), bytes_argument(&n, 4)};
    s->wrong += launch(stream, s->kernel, 1, 1, 5, arguments, (uint64_t)i + 1) != TENON_OK;
    b += 1;
  }
  s->wrong += cl->stream_synchronize(&one, stream, NULL) != TENON_OK;
  if (!s->stream) cl->stream_destroy(&one, stream);
  return NULL;
}

TEST("four threads launch one kernel, on streams of their own and on one") {
  READY();
  for (int common = 0; common < 2; common++) {
    pthread_t threads[4];
    shared_t shared[4];
    static float y[4 * LAUNCHES];
    pthread_barrier_t begin;
    int wrong = 0;
    pthread_barrier_init(&begin, NULL, 4);
    memset(y, 0, sizeof y);
    void *ys = allocated(sizeof y);
    void *kernel = kernel_of("affine");
    void *stream = common ? stream_made(&one) : NULL;
    copy_in(y, ys, 0, sizeof y);
    CHECK_STATUS(cl->stream_synchronize(&one, NULL, NULL), TENON_OK);
    for (int i = 0; i < 4; i++) {
      shared[i] = (shared_t){kernel, ys, stream, i, 0, &begin};
      pthread_create(&threads[i], NULL, launches, &shared[i]);
    }
    for (int i = 0; i < 4; i++) {
      pthread_join(threads[i], NULL);
      CHECK(shared[i].wrong == 0);
    }
    copy_out(ys, 0, y, sizeof y);
    for (int i = 0; i < 4 * LAUNCHES; i++)
      wrong += y[i] != (float)i;
    CHECK(wrong == 0);
    pthread_barrier_destroy(&begin);
    if (stream) cl->stream_destroy(&one, stream);
    cl->free(&one, ys);
  }
}

TEST("compiled code that is damaged, truncated or for another device is refused") {
  READY();
  void *program = NULL;
  host_sink_t code;
  CHECK_STATUS(build(&one, sources, "sources.cl", &code, &program), TENON_OK);
  cl->program_unload(&one, program);
  program = NULL;
  static const uint64_t cuts[] = {0, 1, 31, 32, 33, 1000};
  for (int i = 0; i < 6; i++) {
    CHECK_STATUS(cl->program_load(&one, code.data, cuts[i], &program), TENON_INVALID);
    CHECK_TEXT(host_message(), "is not loaded: it");
    CHECK_TEXT(host_message(), "compile it anew");
  }
  CHECK_STATUS(cl->program_load(&one, code.data, code.bytes - 1, &program), TENON_INVALID);
  unsigned char *bytes = (unsigned char *)code.data;
  for (int i = 0; i < 400; i++) { /* the first 256 bits, then bits spread over the rest */
    uint64_t bit =
        i < 256 ? (uint64_t)i : ((uint64_t)tenon_random(1, (uint64_t)i) << 3) % (code.bytes * 8);
    bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    if (!CHECK(cl->program_load(&one, bytes, code.bytes, &program) == TENON_INVALID))
      fprintf(stderr, "  bit %llu\n", (unsigned long long)bit);
    bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
  }
  CHECK(program == NULL);
  CHECK_STATUS(cl->program_load(&one, bytes, code.bytes, &program), TENON_OK);
  cl->program_unload(&one, program);
  free(code.data);
}

TEST("a program may be unloaded while its work is queued") {
  READY();
  void *program = NULL;
  void *kernel = NULL;
  void *stream = stream_made(&one);
  void *y = allocated(4);
  int32_t value = 4;
  int32_t rounds = 10;
  int32_t result = 0;
  host_sink_t code;
  CHECK_STATUS(build(&one, sources, "sources.cl", &code, &program), TENON_OK);
  CHECK_STATUS(cl->kernel_find(&one, program, "slow", &kernel), TENON_OK);
  copy_in(&value, y, 0, 4);
  CHECK_STATUS(cl->stream_synchronize(&one, NULL, NULL), TENON_OK);
  gate_t gate = gate_close(&one, stream);
  tenon_kernel_argument_t arguments[] = {memory_argument(y, 0), bytes_argument(&rounds, 4),
                                         bytes_argument(&value, 4)};
  CHECK_STATUS(launch(stream, kernel, 1, 1, 3, arguments, 1), TENON_OK);
  cl->program_unload(&one, program);
  gate_open(gate, 0);
  CHECK_STATUS(cl->stream_synchronize(&one, stream, NULL), TENON_OK);
  copy_out(y, 0, &result, 4);
  CHECK(result == 12);
  free(code.data);
  cl->free(&one, y);
  cl->stream_destroy(&one, stream);
}
