/* Random operators: the stream of numbers is that of Philox, a seed repeats the stream, and neither
 * threads nor layouts nor the way of calling change the number that an element gets. */
#include "base/thread.h"
#include "check.h"
#include "tensors.h"

#include "operators.h"

TENON_C const tenon_descriptor_t *tenon_library_contract(void);

static void start(void) {
  static int started;
  if (!started++)
    CHECK_STATUS(tenon_library_add(tenon_library_contract(), NULL, NULL, NULL), TENON_OK);
}

TEST("the numbers are those of Philox 4x32-10") {
  /* known answers of Random123 1.14 (kat_vectors): key 0, counter 0 */
  static const uint32_t zero[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  for (uint64_t i = 0; i < 4; i++)
    CHECK(tenon_random(0, i) == zero[i]);
  /* further values, by a Python program that also gives the other vectors */
  CHECK(tenon_random(0x123456789abcdefu, 0x0u) == 0xb850222e);
  CHECK(tenon_random(0x1u, 0x10000000000u) == 0x9341af16);
  CHECK(tenon_random(0xffffffffffffffffu, 0xffffffffffffffffu) == 0x3915061c);
  CHECK(tenon_random(0x299f31d0a4093822u, 0x168c234c90fdaa22u) == 0xc1b24efb);
}

static tenon_tensor_t *ones(int64_t count) {
  tenon_tensor_t *t = NULL;
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 1, &count, &t), TENON_OK);
  for (int64_t i = 0; t && i < count; i++)
    ((float *)t->data)[i] = 1;
  return t;
}

/* The elements that dropout with the ratio 1/2 must keep, for a stream from `offset` on. */
static int mistakes_of(const tenon_tensor_t *mask, const tenon_tensor_t *out, uint64_t seed,
                       uint64_t offset) {
  int mistakes = 0;
  for (int64_t i = 0, n = tenon_count(mask); i < n; i++) {
    int keep = tenon_random(seed, offset + (uint64_t)i) >= 0x80000000u;
    mistakes += (tensor_int(mask, i) != 0) != keep || tensor_float(out, i) != (keep ? 2 : 0);
  }
  return mistakes;
}

TEST("a seed repeats the numbers, and each call continues after the numbers of the previous one") {
  start();
  const tenon_op_t *op = op_of("contract::dropout");
  tenon_tensor_t *x = ones(1000);
  tenon_tensor_t *first[2] = {NULL};
  tenon_tensor_t *second[2] = {NULL};
  for (int round = 0; round < 2; round++) {
    tenon_random_seed(42);
    CHECK_STATUS(tenon_op_call(op, NULL, &x, first, 0), TENON_OK);
    CHECK_STATUS(tenon_op_call(op, NULL, &x, second, 0), TENON_OK);
    CHECK(mistakes_of(first[1], first[0], 42, 0) == 0);
    CHECK(mistakes_of(second[1], second[0], 42, 1000) == 0);
    CHECK_STATUS(tenon_op_run(op, NULL, &x, first), TENON_OK); /* tenon_op_run, too */
    CHECK(mistakes_of(first[1], first[0], 42, 2000) == 0);
    CHECK_STATUS(tenon_op_call_into(op, NULL, &x, first), TENON_OK);
    CHECK(mistakes_of(first[1], first[0], 42, 3000) == 0);
    for (int i = 0; i < 2; i++) {
      tenon_tensor_release(first[i]);
      tenon_tensor_release(second[i]);
      first[i] = second[i] = NULL;
    }
  }
  tenon_tensor_release(x);
}

TEST("the numbers are the same whatever the number of threads") {
  start();
  tenon_tensor_t *x = ones(300001);
  for (int threads = 1; threads <= 5; threads++) {
    tenon_tensor_t *out[2] = {NULL};
    tenon_threads_set(threads);
    tenon_random_seed(7);
    CHECK_STATUS(tenon_op_call(op_of("contract::dropout"), NULL, &x, out, 0), TENON_OK);
    CHECK(mistakes_of(out[1], out[0], 7, 0) == 0);
    tenon_tensor_release(out[0]);
    tenon_tensor_release(out[1]);
  }
  tenon_threads_set(0);
  tenon_tensor_release(x);
}

TEST("the position of an element determines its number, whatever the layout") {
  start();
  tenon_tensor_t *x = tensor_strided("f32[3,4,2] 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1");
  tenon_tensor_t *out[2] = {NULL};
  for (int given = 0; given < 2; given++) {
    tenon_random_seed(9);
    if (given) {
      out[0] = tensor_like(x);
      out[1] = NULL;
    }
    CHECK_STATUS(tenon_op_call(op_of("contract::dropout"), NULL, &x, out, 0), TENON_OK);
    CHECK(mistakes_of(out[1], out[0], 9, 0) == 0);
    tenon_tensor_release(out[0]);
    tenon_tensor_release(out[1]);
    out[0] = out[1] = NULL;
  }
  int64_t big[2] = {700, 900};
  int64_t turned[2] = {1, 700};
  float *data = malloc(700 * 900 * sizeof *data);
  for (int i = 0; i < 700 * 900; i++)
    data[i] = 1;
  tenon_tensor_release(x);
  x = NULL;
  CHECK_STATUS(tenon_tensor_borrow(data, tenon_dtype(TENON_F32), 2, big, turned, free, data, &x),
               TENON_OK);
  tenon_random_seed(10);
  CHECK_STATUS(tenon_op_call(op_of("contract::dropout"), NULL, &x, out, 0), TENON_OK);
  CHECK(mistakes_of(out[1], out[0], 10, 0) == 0);
  tenon_tensor_release(out[0]);
  tenon_tensor_release(out[1]);
  tenon_tensor_release(x);
}

TEST("a kernel that draws several numbers for an element declares it, and the next call continues "
     "after them") {
  start();
  const tenon_op_t *op = op_of("contract::noise");
  tenon_tensor_t *x = ones(500);
  tenon_tensor_t *out = NULL;
  tenon_bound_t *bound = NULL;
  CHECK_STATUS(tenon_bound_create(op, NULL, &bound), TENON_OK);
  tenon_random_seed(5);
  for (uint64_t call = 0; call < 4; call++) { /* call, run, bound call, bound run */
    int mistakes = 0;
    if (call == 0) CHECK_STATUS(tenon_op_call(op, NULL, &x, &out, 0), TENON_OK);
    if (call == 1) CHECK_STATUS(tenon_op_run(op, NULL, &x, &out), TENON_OK);
    if (call == 2) CHECK_STATUS(tenon_bound_call(bound, &x, &out, 0), TENON_OK);
    if (call == 3) CHECK_STATUS(tenon_bound_run(bound, &x, &out), TENON_OK);
    for (uint64_t i = 0; i < 500; i++) {
      uint64_t at = call * 1000 + 2 * i;
      uint64_t expected = (uint64_t)tenon_random(5, at) << 32 | tenon_random(5, at + 1);
      mistakes += ((uint64_t *)out->data)[i] != expected;
    }
    CHECK(mistakes == 0);
  }
  tenon_bound_release(bound);
  tenon_tensor_release(x);
  tenon_tensor_release(out);
}

TEST("two random operators in a composite draw different numbers") {
  start();
  tenon_tensor_t *x = ones(1000);
  tenon_tensor_t *out[2] = {NULL};
  int equal = 0;
  CHECK_STATUS(tenon_op_call(op_of("contract::dropped_twice"), NULL, &x, out, 0), TENON_OK);
  for (int64_t i = 0; i < 1000; i++)
    equal += tensor_float(out[0], i) == tensor_float(out[1], i);
  CHECK(equal > 400 && equal < 600);
  tenon_tensor_release(x);
  tenon_tensor_release(out[0]);
  tenon_tensor_release(out[1]);
}

typedef struct drawer_t {
  uint64_t seed;
  int mistakes;
} drawer_t;

static void draw(void *pointer) {
  drawer_t *d = pointer;
  tenon_tensor_t *x = ones(100);
  tenon_random_seed(d->seed);
  for (uint64_t call = 0; call < 200; call++) {
    tenon_tensor_t *out[2] = {NULL};
    if (tenon_op_call(op_of("contract::dropout"), NULL, &x, out, 0) != TENON_OK)
      d->mistakes++;
    else
      d->mistakes += mistakes_of(out[1], out[0], d->seed, call * 100);
    tenon_tensor_release(out[0]);
    tenon_tensor_release(out[1]);
  }
  tenon_tensor_release(x);
}

TEST("each thread has a seed and a stream of its own") {
  start();
  drawer_t drawers[2] = {{1, 0}, {2, 0}};
  tn_spawned_t threads[2];
  for (int i = 0; i < 2; i++)
    CHECK(tn_spawn(&threads[i], draw, &drawers[i]));
  for (int i = 0; i < 2; i++)
    tn_join(&threads[i]);
  CHECK(drawers[0].mistakes == 0 && drawers[1].mistakes == 0);
}

TEST("nothing is left behind") { tenon_shutdown(); }
