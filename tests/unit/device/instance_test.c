/* One source text for several types: those for which the library was compiled, and others, which
 * are compiled on demand on the CPU and on devices. The test builds the library from its source. */
#include <dirent.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "tensors.h"

#include "drivers/grid.h"
#include "failing.h"
#include "operators.h"
#include "there.h"

#define SOURCE TEST_DATA "/../libraries/source/generic.c"
static char folder[] = "/tmp/tenon-instance-XXXXXX";

static int count_files(const char *ending) {
  int count = 0;
  DIR *list = opendir(folder);
  for (const struct dirent *e; list && (e = readdir(list)) != NULL;)
    count += strstr(e->d_name, ending) != NULL;
  if (list) closedir(list);
  return count;
}

static tenon_status_t cube(const char *input, const char *expected) {
  tenon_tensor_t *out = NULL;
  tenon_status_t status = call_op("generic::cube", NULL, &input, &out);
  if (out) CHECK_TENSOR(out, expected);
  tenon_tensor_release(out);
  return status;
}

TEST("the types for which the library was compiled need no compiler") {
  setenv("TENON_CACHE", mkdtemp(folder), 1);
  CHECK_STATUS(tenon_library_load_source(SOURCE, 0, NULL), TENON_OK);
  setenv("CC", "nonesuch", 1);
  CHECK_STATUS(cube("f32[3] 1 -2 0.5", "f32[3] 1 -8 0.125"), TENON_OK);
  CHECK_STATUS(cube("f64[2] 3 100000001", "f64[2] 27 1.0000000300000003e24"), TENON_OK);
}

TEST("a call with another type says which type, which kernel and why it fails, and works once "
     "there is a compiler") {
  CHECK_STATUS(cube("i32[2] 3 -4", ""), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(), "kernel 'cube' of ");
  CHECK_TEXT(tenon_error(),
             "generic.c is not in its library for T=int32_t and cannot be compiled here: "
             "the C compiler 'nonesuch' (from CC) cannot be run");
  unsetenv("CC");
  CHECK_STATUS(cube("i32[2] 3 -4", "i32[2] 27 -64"), TENON_OK);
  CHECK(count_files(".so") == 2); /* the library and the kernel compiled on demand */
  setenv("CC", "nonesuch", 1);
  /* The kernel is loaded already. */
  CHECK_STATUS(cube("i32[1] 5", "i32[1] 125"), TENON_OK);
  unsetenv("CC");
  CHECK_STATUS(cube("i64[2] 2000000 -1", "i64[2] 8000000000000000000 -1"), TENON_OK);
  CHECK(count_files(".so") == 3);
}

TEST("the gradient's kernel, in the same file, is compiled ahead for f64 and on demand for f32") {
  static const char *const inputs[] = {"f32[3] 1 -2 0.5", "f64[3] 1 -2 0.5"};
  static const char *const grads[] = {"f32[3] 3 12 0.75", "f64[3] 3 12 0.75"};
  static const char *const ones[] = {"f32[3] 1 1 1", "f64[3] 1 1 1"};
  for (int i = 0; i < 2; i++) {
    tenon_tensor_t *x = tensor_of(inputs[i]);
    tenon_tensor_t *one = tensor_of(ones[i]);
    tenon_tensor_t *y = NULL;
    tenon_tensor_t *grad = NULL;
    CHECK_STATUS(tenon_tensor_require_grad(x, 1), TENON_OK);
    CHECK_STATUS(tenon_op_call(op_of("generic::cube"), NULL, &x, &y, 0), TENON_OK);
    if (y) CHECK_STATUS(tenon_gradients(&y, &one, 1, &x, 1, 0, &grad), TENON_OK);
    if (grad) CHECK_TENSOR(grad, grads[i]);
    tenon_tensor_release(x);
    tenon_tensor_release(one);
    tenon_tensor_release(y);
    tenon_tensor_release(grad);
  }
}

TEST(
    "devices compile the kernel for each type, and give the CPU's results at every size of group") {
  static const char *const names[] = {"sim", "opencl", "cuda"};
  static const char *const inputs[] = {"f32[5] 1 -2 0.5 3 7", "f64[3] 1 -2 100000001",
                                       "i16[3] 3 -4 40", "i32[4] 3 -4 1000 0", "i64[2] 2000000 -1"};
  static const char *const results[] = {
      "f32[5] 1 -8 0.125 27 343", "f64[3] 1 -8 1.0000000300000003e24", "i16[3] 27 -64 -1536",
      "i32[4] 27 -64 1000000000 0", "i64[2] 8000000000000000000 -1"};
  for (size_t d = 0; d < 3; d++) {
    int32_t count;
    if (tenon_device_count(names[d], &count) != TENON_OK) continue;
    tenon_device_t device = device_of(names[d], 0);
    for (uint32_t group = 1; group <= 256; group = group == 1 ? 3 : group == 3 ? 64 : 4 * group) {
      tn_grid_group_set(group);
      for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        tenon_tensor_t *x = tensor_there(device, inputs[i]);
        tenon_tensor_t *y = NULL;
        CHECK_STATUS(tenon_op_call(op_of("generic::cube"), NULL, &x, &y, 0), TENON_OK);
        if (y) check_there(y, results[i]);
        tenon_tensor_release(x);
        tenon_tensor_release(y);
      }
      for (int wide = 0; wide < 2; wide++) { /* 0.1 of f64 differs from 0.1 of f32. */
        tenon_tensor_t *two[2] = {tensor_there(device, wide ? "f64[2, 1] 0 1" : "f32[2, 1] 0 1"),
                                  tensor_there(device, wide ? "f64[2] 1 3" : "f32[2] 1 3")};
        tenon_tensor_t *y = NULL;
        tenon_attrs_t *attrs = attrs_of(op_of("generic::between"), "by=0.1");
        CHECK_STATUS(tenon_op_call(op_of("generic::between"), attr_values(attrs), two, &y, 0),
                     TENON_OK);
        if (y)
          check_there(y,
                      wide ? "f64[2, 2] 0.1 0.30000000000000004 1 1.2" : "f32[2, 2] 0.1 0.3 1 1.2");
        tenon_attrs_release(attrs);
        tenon_tensor_release(two[0]);
        tenon_tensor_release(two[1]);
        tenon_tensor_release(y);
      }
      tenon_tensor_t *both[2] = {tensor_there(device, "f32[2] 2 3"),
                                 tensor_there(device, "f32[2] 1 -2")};
      tenon_tensor_t *y = NULL;
      CHECK_STATUS(tenon_op_call(op_of("generic::cube_backward"), NULL, both, &y, 0), TENON_OK);
      if (y) check_there(y, "f32[2] 6 36");
      tenon_tensor_release(both[0]);
      tenon_tensor_release(both[1]);
      tenon_tensor_release(y);
    }
    tn_grid_group_set(0);
  }
}

static void *race(void *result) {
  *(tenon_status_t *)result = cube("i16[2] 5 -6", "i16[2] 125 -216");
  return NULL;
}
TEST("threads that need a type first at once share one kernel, and a child of fork may compile, "
     "too") {
  enum { THREADS = 8 };
  pthread_t threads[THREADS];
  tenon_status_t results[THREADS];
  int files = count_files(".so");
  int state = -1;
  for (int i = 0; i < THREADS; i++)
    CHECK(pthread_create(&threads[i], NULL, race, &results[i]) == 0);
  for (int i = 0; i < THREADS; i++)
    CHECK(pthread_join(threads[i], NULL) == 0 && results[i] == TENON_OK);
  CHECK(count_files(".so") == files + 1);
  tenon_shutdown();
  CHECK_STATUS(tenon_library_load_source(SOURCE, 0, NULL), TENON_OK);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) _exit(cube("i16[1] 3", "i16[1] 27"));
  CHECK(waitpid(child, &state, 0) == child && state == 0);
}

static tenon_status_t attempt(void *context) {
  (void)context;
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *y = NULL;
  const int64_t n = 1;
  tenon_shutdown();
  tenon_status_t status = tenon_library_load_source(SOURCE, 0, NULL);
  if (status == TENON_OK) status = tenon_tensor_create(tenon_dtype(TENON_I32), 1, &n, &x);
  if (status == TENON_OK) {
    *(int32_t *)x->data = 3;
    const tenon_op_t *op = NULL;
    status = tenon_op_find("generic::cube", &op);
    if (status == TENON_OK) status = tenon_op_call(op, NULL, &x, &y, 0);
  }
  if (y) CHECK(*(int32_t *)y->data == 27);
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  return status;
}
TEST("compiling on demand survives the failure of each allocation") {
  fail_each("a type that is compiled when it is wanted", attempt, NULL, 97);
  char command[100];
  snprintf(command, sizeof command, "rm -r %s", folder);
  CHECK(system(command) == 0);
}
