/* The handler of the bridge to JAX, with frames that the test makes: the answer to XLA's query,
 * call sites, buffers, and errors. tests/adapters/jax_test.py calls the handler through XLA. */
#define TENON_STATIC
#include <pthread.h>

#include "check.h"
#include "tensors.h"

#include "operators.h"

#include "xla_frame.h"

/* Runs a frame. Returns the status, and copies the message. */
static int32_t run(frame_t *f, char message[512]) {
  xla_error_t *error = tenon_jax_cpu(&f->xla);
  if (!error) return 0;
  const int32_t code = error->code;
  memcpy(message, error->message, sizeof error->message);
  free(error);
  return code;
}

static void check_add(const char *text, float expected) {
  char message[512] = "";
  const int64_t two = 2;
  float a[2] = {1, 2};
  float b[2] = {10, 20};
  float y[2] = {0, 0};
  frame_t f;
  frame_begin(&f, text, strlen(text));
  frame_add(&f, 0, XLA_F32, 1, &two, a);
  frame_add(&f, 0, XLA_F32, 1, &two, b);
  frame_add(&f, 1, XLA_F32, 1, &two, y);
  for (int i = 0; i < 3; i++) { /* the first call infers; later ones know the shapes */
    y[1] = 0;
    CHECK(run(&f, message) == 0);
    CHECK_TEXT(message, "");
    CHECK(y[1] == expected);
  }
}

TEST("the handler answers a query for its version, also without a function table") {
  for (int has_api = 0; has_api < 2; has_api++) {
    frame_t f;
    xla_metadata_t metadata = {.size = XLA_METADATA_SIZE};
    xla_metadata_extension_t extension = {.base = {.size = 24, .type = XLA_EXTENSION_METADATA},
                                          .metadata = &metadata};
    xla_extension_t other = {.size = 24, .type = 77, .next = &extension.base};
    frame_begin(&f, "", 0);
    f.xla.api = has_api ? &frame_api : NULL;
    f.xla.extension = &other;
    CHECK(tenon_jax_cpu(&f.xla) == NULL);
    CHECK(metadata.version.major == 0 && metadata.version.minor == 1 && metadata.traits == 0);
  }
}

TEST("other stages than the execution do nothing, and a frame of an older XLA is refused") {
  char message[512];
  frame_t f;
  frame_begin(&f, "no call", 7);
  f.xla.stage = 0;
  CHECK(run(&f, message) == 0);
  f.xla.stage = XLA_STAGE_EXECUTE;
  f.xla.size = XLA_FRAME_SIZE - 8;
  CHECK(run(&f, message) == TENON_PRECONDITION);
  CHECK_TEXT(message, "this release of XLA is too old for Tenon: use JAX 0.4.32 or later");
}

TEST("texts at one address may change, and equal texts at many addresses are one call") {
  char text[64];
  snprintf(text, sizeof text, "core::add(1, 1)");
  check_add(text, 22);
  snprintf(text, sizeof text, "core::mul(1, 1)");
  check_add(text, 40);
  snprintf(text, sizeof text, "core::add(1, 1)");
  check_add(text, 22);
  for (int i = 0; i < 20; i++) {
    char *copy = strdup(i % 2 ? "core::sub(1, 1)" : "core::add(1, 1)");
    check_add(copy, i % 2 ? -18 : 22);
    free(copy);
  }
}

TEST("a site that knows other shapes runs them all the same") {
  const char *text = "core::neg(1)";
  float x[6] = {1, 2, 3, 4, 5, 6};
  float y[6];
  char message[512] = "";
  for (int64_t n = 6; n >= 0; n--) {
    frame_t f;
    const int64_t dims[] = {n, 1};
    const int32_t rank = n % 2 ? 2 : 1;
    frame_begin(&f, text, strlen(text));
    frame_add(&f, 0, XLA_F32, rank, dims, n ? x : NULL);
    frame_add(&f, 1, XLA_F32, rank, dims, n ? y : NULL);
    memset(y, 0, sizeof y);
    CHECK(run(&f, message) == 0 && run(&f, message) == 0);
    CHECK_TEXT(message, "");
    for (int64_t i = 0; i < 6; i++)
      CHECK(y[i] == (i < n ? -x[i] : 0));
  }
}

TEST("buffers of other numbers, dtypes, shapes and kinds are refused by name") {
  static const char *const text = "core::neg(1)";
  const int64_t three[] = {3, 1, 1, 1};
  float x[3] = {1, 2, 3};
  float y[3];
  char message[512] = "";
  frame_t f;
  frame_begin(&f, text, strlen(text));
  CHECK(run(&f, message) == TENON_INVALID);
  CHECK_TEXT(message, "core::neg: the custom call has another number of operands");
  frame_add(&f, 0, XLA_F32, 1, three, x);
  CHECK(run(&f, message) == TENON_INVALID);
  CHECK_TEXT(message, "core::neg: the custom call has fewer results than the operator");
  frame_add(&f, 1, XLA_F64, 1, three, y);
  CHECK(run(&f, message) == TENON_INVALID);
  CHECK_TEXT(message, "core::neg");
  f.buffers[FRAME_MOST].dtype = 17;
  CHECK(run(&f, message) == TENON_UNIMPLEMENTED);
  CHECK_TEXT(message, "core::neg: XLA's dtype 17 has no counterpart in Tenon");
  f.buffers[FRAME_MOST].dtype = -1;
  CHECK(run(&f, message) == TENON_UNIMPLEMENTED);
  f.buffers[FRAME_MOST].dtype = XLA_F32;
  f.buffers[FRAME_MOST].rank = 65;
  CHECK(run(&f, message) == TENON_UNIMPLEMENTED);
  CHECK_TEXT(message, "core::neg: a tensor has more than 64 axes");
  f.buffers[FRAME_MOST].rank = 2;
  CHECK(run(&f, message) == TENON_INVALID);
  f.buffers[FRAME_MOST].rank = 1;
  f.types[0] = 0;
  CHECK(run(&f, message) == TENON_UNIMPLEMENTED);
  f.types[0] = XLA_ARGUMENT_BUFFER;
  CHECK(run(&f, message) == 0);
  f.types[0] = 0; /* of a site that knows its shapes */
  CHECK(run(&f, message) == TENON_UNIMPLEMENTED);
  f.kinds[0] = 3;
  CHECK(run(&f, message) == TENON_INVALID);
  CHECK_TEXT(message, "the custom call has no string attribute `call`");
}

TEST("gradients, keys, padded results and lists arrive in their buffers") {
  char message[512] = "";
  const int64_t dims[] = {3};
  const int64_t one[] = {1};
  const int64_t two[] = {2};
  float x[3] = {1, -2, 3};
  float grad[3] = {1, 1, 1};
  float y[3] = {9, 9, 9};
  int32_t extent[2] = {9, 9};
  uint32_t key[2] = {1, 2};
  int64_t index[3] = {9, 9, 9};
  const int64_t row[] = {1, 3};
  frame_t f;
  frame_begin(&f, "core::mul(1, 1); @given=1; @inputs=2", 36);
  frame_add(&f, 0, XLA_F32, 1, dims, x);
  frame_add(&f, 0, XLA_F32, 1, dims, y);
  frame_add(&f, 0, XLA_F32, 1, dims, grad);
  float made[3] = {0};
  frame_add(&f, 1, XLA_F32, 1, dims, made);
  CHECK(run(&f, message) == 0);
  CHECK_TEXT(message, "");
  CHECK(made[0] == 1 && made[1] == -2 && made[2] == 3);

  frame_begin(&f, "core::nonzero(1); @padded=1", 27);
  frame_add(&f, 0, XLA_F32, 1, dims, (float[]){0, 5, 0});
  frame_add(&f, 1, XLA_S64, 2, row, index);
  frame_add(&f, 1, XLA_S32, 1, two, extent);
  CHECK(run(&f, message) == 0);
  CHECK_TEXT(message, "");
  CHECK(index[0] == 1 && index[1] == 0 && index[2] == 0 && extent[0] == 1 && extent[1] == 1);

  frame_begin(&f, "core::dropout(1); @wanted=1", 27);
  frame_add(&f, 0, XLA_F32, 1, dims, x);
  frame_add(&f, 0, XLA_U32, 1, two, key);
  frame_add(&f, 1, XLA_F32, 1, dims, y);
  CHECK(run(&f, message) == 0);
  CHECK_TEXT(message, "");
  f.buffers[1].dtype = XLA_S32;
  CHECK(run(&f, message) == TENON_INVALID);
  CHECK_TEXT(message, "core::dropout: the key of a random operator has to be two numbers");

  frame_begin(&f, "core::concat(2); axis=0", 23);
  frame_add(&f, 0, XLA_F32, 1, two, x);
  frame_add(&f, 0, XLA_F32, 1, one, grad);
  frame_add(&f, 1, XLA_F32, 1, dims, y);
  CHECK(run(&f, message) == 0);
  CHECK(y[0] == 1 && y[1] == -2 && y[2] == 1);
}

static void *call_often(void *wrong) {
  char message[512] = "";
  const int64_t n = 70000; /* enough for a parallel loop */
  float *x = calloc(2 * (size_t)n, sizeof *x);
  for (int i = 0; x && i < 60; i++) {
    const char *text = i % 3 ? "core::add(1, 1)" : "core::sub(1, 1)";
    char *copy = strdup(text);
    frame_t f;
    x[n - 1] = (float)i;
    frame_begin(&f, copy, strlen(copy));
    frame_add(&f, 0, XLA_F32, 1, &n, x);
    frame_add(&f, 0, XLA_F32, 1, &n, x);
    frame_add(&f, 1, XLA_F32, 1, &n, x + n);
    if (run(&f, message) || x[2 * n - 1] != (i % 3 ? (float)(2 * i) : 0))
      __atomic_add_fetch((int *)wrong, 1, __ATOMIC_RELAXED);
    free(copy);
  }
  free(x);
  return NULL;
}

TEST("threads look up, remember and run the same sites at once") {
  pthread_t threads[4];
  int wrong = 0;
  for (int i = 0; i < 4; i++)
    CHECK(pthread_create(&threads[i], NULL, call_often, &wrong) == 0);
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  CHECK(wrong == 0);
}
