/* Unloading while other threads call: kernels of a library come and go under callers without a
 * handle, and unloading is refused while anything needs the library, which the message names. */
#include <fcntl.h>
#include <unistd.h>

#include "base/processors.h"
#include "base/thread.h"
#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

TENON_C const tenon_descriptor_t *tenon_library_contract(void);

enum {
  ROUNDS = 200,
  ELEMENTS = 3000,
};

static tenon_library_t *load_partner(void) {
  tenon_library_t *library = NULL;
  CHECK_STATUS(tenon_library_load(TEST_LIBRARIES "/libpartner.so", TENON_LOAD_UNLOADABLE, &library),
               TENON_OK);
  return library;
}

TEST("unloading is refused while something needs the library, and the message says what") {
  CHECK_STATUS(tenon_library_add(tenon_library_contract(), NULL, NULL, NULL), TENON_OK);
  tenon_library_t *first = load_partner();
  tenon_library_t *second = load_partner();
  tenon_bound_t *bound = NULL;
  const tenon_op_t *op = op_of("partner::halve");
  CHECK_STATUS(tenon_bound_create(op, NULL, &bound), TENON_OK);
  CHECK_STATUS(tenon_library_unload(first), TENON_UNAVAILABLE);
  CHECK_TEXT(tenon_error(), "cannot unload library partner: it is held by 1 more handle of it, 1 "
                            "bound calls, graphs or executables");
  tenon_library_release(second);
  CHECK_STATUS(tenon_library_unload(first), TENON_UNAVAILABLE);
  tenon_bound_release(bound);
  CHECK_STATUS(tenon_library_unload(first), TENON_OK);
  CHECK_STATUS(tenon_op_find("partner::halve", &op), TENON_NOT_FOUND);
  CHECK_STATUS(tenon_library_unload(NULL), TENON_INVALID);
  tenon_library_t *pinned = NULL;
  CHECK_STATUS(tenon_library_load(TEST_LIBRARIES "/libpartner.so", 0, &pinned), TENON_OK);
  CHECK_STATUS(tenon_library_unload(pinned), TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(), "it was not loaded with TENON_LOAD_UNLOADABLE");
  tenon_library_release(pinned);
  tenon_shutdown();
}

/* rest: the microseconds between calls. */
static int over, wrong, rest;
static int64_t halved, refused;

/* Only a kernel of `partner` halves f64; without it the call is refused. */
static void call_halve(void *argument) {
  const tenon_op_t *op = argument;
  int64_t extent = ELEMENTS;
  int64_t shape_strides[1] = {1};
  double *x = malloc(ELEMENTS * sizeof *x);
  double *y = malloc(ELEMENTS * sizeof *y);
  tenon_tensor_t in, out;
  tenon_tensor_t *inputs[1] = {&in};
  tenon_tensor_t *outputs[1] = {&out};
  for (int i = 0; i < ELEMENTS; i++)
    x[i] = 2 * i;
  CHECK_STATUS(tenon_tensor_view(&in, x, tenon_dtype(TENON_F64), 1, &extent, NULL, shape_strides),
               TENON_OK);
  CHECK_STATUS(tenon_tensor_view(&out, y, tenon_dtype(TENON_F64), 1, &extent, NULL, shape_strides),
               TENON_OK);
  while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
    y[0] = y[ELEMENTS - 1] = -1;
    if (rest) usleep((unsigned)rest);
    tenon_status_t status = tenon_op_run(op, NULL, inputs, outputs);
    if (status == TENON_OK)
      __atomic_fetch_add(&halved, 1, __ATOMIC_RELAXED);
    else
      __atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
    bool right = status == TENON_OK
                     ? y[0] == 0 && y[ELEMENTS - 1] == ELEMENTS - 1
                     : status == TENON_UNIMPLEMENTED && y[0] == -1 && y[ELEMENTS - 1] == -1;
    if (!right) __atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
  }
  free(x);
  free(y);
}

static void come_and_go(int rounds, int rest_between) {
  over = wrong = 0;
  halved = refused = 0;
  rest = rest_between;
  CHECK_STATUS(tenon_library_add(tenon_library_contract(), NULL, NULL, NULL), TENON_OK);
  const tenon_op_t *op = op_of("contract::halve");
  int32_t count = tn_processors().count < 8 ? tn_processors().count : 8;
  tn_spawned_t threads[8];
  for (int32_t i = 0; i < count; i++)
    CHECK(tn_spawn(&threads[i], call_halve, (void *)(uintptr_t)op));
  int busy = 0;
  for (int round = 0; round < rounds; round++) {
    tenon_library_t *library = load_partner();
    int64_t before = __atomic_load_n(&halved, __ATOMIC_RELAXED);
    while (__atomic_load_n(&halved, __ATOMIC_RELAXED) == before)
      continue; /* Something used the library. */
    tenon_status_t status;
    while ((status = tenon_library_unload(library)) == TENON_UNAVAILABLE)
      busy++;
    CHECK_STATUS(status, TENON_OK);
    before = __atomic_load_n(&refused, __ATOMIC_RELAXED);
    while (__atomic_load_n(&refused, __ATOMIC_RELAXED) == before)
      continue; /* Now it is unloaded for all threads. */
  }
  __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
  for (int32_t i = 0; i < count; i++)
    tn_join(&threads[i]);
  CHECK(!wrong && halved > 0 && refused > 0);
  printf("%d rounds, %d times busy, %lld calls\n", rounds, busy, (long long)(halved + refused));
  tenon_shutdown();
}

TEST("while kernels come and go, each call of another thread has all of a kernel or none of it") {
  come_and_go(ROUNDS, 0);
}

TEST("the trace and its explanations read no text of a library that was unloaded") {
  int real = dup(2);
  int nowhere = open("/dev/null", O_WRONLY);
  CHECK(real >= 0 && nowhere >= 0 && dup2(nowhere, 2) == 2);
  CHECK_STATUS(tenon_trace_set("dispatch,args"), TENON_OK);
  CHECK_STATUS(tenon_explain_set(TENON_EXPLAIN_ALL), TENON_OK);
  come_and_go(ROUNDS / 5, 20);
  CHECK_STATUS(tenon_trace_set(NULL), TENON_OK);
  CHECK_STATUS(tenon_explain_set(0), TENON_OK);
  dup2(real, 2);
  close(real);
  close(nowhere);
}
