/* Calls an operator of a foreign library that doubles its input, from several threads, loading and
 * unloading the library again and again. scripts/sanitize.sh runs it under the sanitizers.
 *
 *   foreign_host LIBRARY OPERATOR          a library that declares its operators
 *   foreign_host LIBRARY OPERATOR NAME     the function NAME of a library for tvm-ffi */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>
#include <tenon/tvm_ffi.h>

enum {
  THREADS = 4,
  CALLS = 200,
  ROUNDS = 5,
  COUNT = 6,
};

static void check(int truth, const char *what) {
  if (truth) return;
  fprintf(stderr, "foreign_host: %s: %s\n", what, tenon_error());
  exit(1);
}

static void *call_often(void *operator) {
  const int64_t shape[1] = {COUNT};
  tenon_tensor_t *x = NULL;
  check(tenon_tensor_create(tenon_dtype(TENON_F32), 1, shape, &x) == TENON_OK, "a tensor");
  for (int call = 0; call < CALLS; call++) {
    tenon_tensor_t *y = NULL;
    for (int i = 0; i < COUNT; i++)
      ((float *)x->data)[i] = (float)(call + i);
    check(tenon_op_call(operator, NULL, &x, &y, 0) == TENON_OK, "a call");
    for (int i = 0; i < COUNT; i++)
      check(((const float *)y->data)[i] == 2 * (float)(call + i), "a wrong result");
    tenon_tensor_release(y);
  }
  tenon_tensor_release(x);
  return NULL;
}

static tenon_library_t *load(char **words, int count) {
  tenon_library_t *library = NULL;
  tenon_tvm_ffi_function_t function = {.size = sizeof function, .shapes = "out = x"};
  char schema[200];
  if (count < 4) {
    check(tenon_library_load(words[1], TENON_LOAD_UNLOADABLE, &library) == TENON_OK, "load");
    return library;
  }
  snprintf(schema, sizeof schema, "%s(Tensor x) -> Tensor", words[2]);
  function.name = words[3];
  function.schema = schema;
  check(tenon_tvm_ffi_load(words[1], TENON_LOAD_UNLOADABLE, &function, 1, &library) == TENON_OK,
        "load");
  return library;
}

int main(int count, char **words) {
  check(count == 3 || count == 4, "expected LIBRARY OPERATOR [NAME]");
  for (int round = 0; round < ROUNDS; round++) {
    pthread_t threads[THREADS];
    const tenon_op_t *operator= NULL;
    tenon_library_t *library = load(words, count);
    check(tenon_op_find(words[2], &operator) == TENON_OK, words[2]);
    for (int i = 0; i < THREADS; i++)
      check(pthread_create(&threads[i], NULL, call_often, (void *)operator) == 0, "a thread");
    for (int i = 0; i < THREADS; i++)
      pthread_join(threads[i], NULL);
    check(tenon_library_unload(library) == TENON_OK, "unload");
  }
  tenon_shutdown();
  return 0;
}
