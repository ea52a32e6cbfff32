/* Generators: one for each device and those of programs, their state as bytes, several threads, and
 * equal numbers on a device whose random operators fall back to the CPU. */
#include "base/thread.h"
#include "check.h"
#include "tensors.h"

#include "failing.h"
#include "npu.h"
#include "operators.h"

static tenon_tensor_t *draw_on(tenon_device_t device,
                               /* Draws `count` numbers by core::randint, as i64. */
                               int64_t count) {
  const tenon_op_t *op = op_of("core::randint");
  tenon_attrs_t *attrs = attrs_of(op, "low=0; high=1000000007");
  tenon_dim_t extent = tenon_extent(count);
  tenon_value_t shape = {TENON_KIND_DIMS, 1, {.dims = &extent}};
  tenon_value_t on = {TENON_KIND_DEVICE, 0, {.device = device}};
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_attrs_set(attrs, "shape", &shape), TENON_OK);
  CHECK_STATUS(tenon_attrs_set(attrs, "device", &on), TENON_OK);
  CHECK_STATUS(tenon_op_call(op, attr_values(attrs), NULL, &out, 0), TENON_OK);
  tenon_attrs_release(attrs);
  return out;
}

/* Compares two tensors, on any devices. */
static bool same(const tenon_tensor_t *a, const tenon_tensor_t *b) {
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *y = NULL;
  CHECK_STATUS(tenon_tensor_copy_to(a, (tenon_device_t){1, 0}, &x), TENON_OK);
  CHECK_STATUS(tenon_tensor_copy_to(b, (tenon_device_t){1, 0}, &y), TENON_OK);
  bool is_same = x && y && tensor_equal(x, y, 0);
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  return is_same;
}

static tenon_generator_t *generator_of(tenon_device_t device) {
  tenon_generator_t *generator = NULL;
  CHECK_STATUS(tenon_generator_of(device, &generator), TENON_OK);
  return generator;
}

static const tenon_device_t cpu = {1, 0};

TEST("every device has a generator, all begin alike, and drawing from one does not advance "
     "another") {
  npu_start();
  tenon_device_t second = {npu_device.type, npu_device.id + 1};
  tenon_generator_t *here = generator_of(cpu);
  tenon_generator_t *there = generator_of(npu_device);
  tenon_generator_t *next = generator_of(second);
  CHECK(here != there && there != next && generator_of(cpu) == here &&
        generator_of(npu_device) == there);
  CHECK(tenon_generator_seed_get(here) == 0 && tenon_generator_offset_get(there) == 0);
  tenon_tensor_t *a = draw_on(cpu, 5);
  tenon_tensor_t *b = draw_on(npu_device, 5);
  tenon_tensor_t *c = draw_on(second, 5);
  CHECK(b && b->device.type == npu_device.type && same(a, b) && same(a, c));
  CHECK(tenon_generator_offset_get(here) == 12 && tenon_generator_offset_get(there) == 12);
  tenon_tensor_t *d = draw_on(cpu, 5);
  tenon_tensor_t *e = draw_on(npu_device, 5);
  CHECK(!same(a, d) && same(d, e));
  tenon_generator_seed_set(there, 7);
  CHECK(tenon_generator_seed_get(there) == 7 && tenon_generator_offset_get(there) == 0);
  CHECK(tenon_generator_seed_get(here) == 0 && tenon_generator_offset_get(here) == 24);
  tenon_generator_seed_set(here, 7);
  tenon_tensor_t *f = draw_on(cpu, 5);
  tenon_tensor_t *g = draw_on(npu_device, 5);
  CHECK(same(f, g) && !same(a, f));
  /* Without a device attribute, the thread's default device is used. */
  CHECK_STATUS(tenon_device_default_set(npu_device), TENON_OK);
  tenon_tensor_t *h = NULL;
  tenon_attrs_t *attrs = attrs_of(op_of("core::randn"), "shape=[4]");
  uint64_t before = tenon_generator_offset_get(there);
  CHECK_STATUS(tenon_op_call(op_of("core::randn"), attr_values(attrs), NULL, &h, 0), TENON_OK);
  CHECK(h && h->device.type == npu_device.type && tenon_generator_offset_get(there) == before + 5);
  CHECK_STATUS(tenon_device_default_set(cpu), TENON_OK);
  tenon_attrs_release(attrs);
  tenon_tensor_t *all[] = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    tenon_tensor_release(all[i]);
  tenon_generator_t *none = NULL;
  CHECK_STATUS(tenon_generator_of((tenon_device_t){2, 0}, &none), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "device (type 2, id 0) belongs to no backend");
  tenon_shutdown();
  CHECK(tenon_generator_seed_get(here) == 0 &&
        /* The generator is as at the start. */
        tenon_generator_offset_get(here) == 0);
}

TEST("random operators that fall back draw the numbers that the CPU draws, and as many") {
  static const char *const names[] = {"core::normal_", "core::uniform_", "core::bernoulli",
                                      "core::dropout"};
  npu_start();
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    for (int strided = 0; strided < 2; strided++) {
      tenon_tensor_t *x = tensor_of("f32[2, 3] .5 .25 .75 .5 .1 .9");
      tenon_tensor_t *y = NULL;
      tenon_tensor_t *a[2] = {NULL};
      tenon_tensor_t *b[2] = {NULL};
      CHECK_STATUS(tenon_tensor_copy_to(x, npu_device, &y), TENON_OK);
      if (strided) { /* Both tensors are transposed. */
        int64_t swapped[2] = {3, 2};
        int64_t strides[2] = {1, 3};
        tenon_tensor_t *t = NULL;
        tenon_tensor_t *u = NULL;
        CHECK_STATUS(tenon_tensor_borrow(x->data, x->dtype, 2, swapped, strides, NULL, NULL, &t),
                     TENON_OK);
        CHECK_STATUS(tenon_tensor_borrow_on(npu_device, y->data, y->dtype, 2, swapped, strides,
                                            NULL, NULL, &u),
                     TENON_OK);
        CHECK_STATUS(tenon_op_call(op_of(names[k]), NULL, &t, a, 0), TENON_OK);
        CHECK_STATUS(tenon_op_call(op_of(names[k]), NULL, &u, b, 0), TENON_OK);
        CHECK(same(t, u));
        tenon_tensor_release(t);
        tenon_tensor_release(u);
      } else {
        CHECK_STATUS(tenon_op_call(op_of(names[k]), NULL, &x, a, 0), TENON_OK);
        CHECK_STATUS(tenon_op_call(op_of(names[k]), NULL, &y, b, 0), TENON_OK);
      }
      CHECK(same(x, y) && same(a[0], b[0]) && b[0]->device.type == npu_device.type);
      if (a[1]) CHECK(same(a[1], b[1]));
      CHECK(tenon_generator_offset_get(generator_of(cpu)) ==
            tenon_generator_offset_get(generator_of(npu_device)));
      for (int i = 0; i < 2; i++) {
        tenon_tensor_release(a[i]);
        tenon_tensor_release(b[i]);
      }
      tenon_tensor_release(x);
      tenon_tensor_release(y);
    }
  tenon_shutdown();
}

TEST("a thread draws from the generator that it selected, else from that of its seed, else from "
     "the device's") {
  CHECK_STATUS(tenon_start(), TENON_OK);
  tenon_generator_t *own = NULL;
  tenon_generator_t *device = generator_of(cpu);
  tenon_generator_t *seeded;
  CHECK_STATUS(tenon_generator_create(99, &own), TENON_OK);
  CHECK(tenon_generator_use(own) == NULL);
  tenon_tensor_t *a = draw_on(cpu, 3);
  CHECK(tenon_generator_offset_get(own) == 8 && tenon_generator_offset_get(device) == 0);
  tenon_random_seed(99);
  tenon_tensor_t *b = draw_on(cpu, 3);
  CHECK(same(a, b) && tenon_generator_offset_get(own) == 8 &&
        tenon_generator_offset_get(device) == 0);
  seeded = tenon_generator_use(NULL);
  CHECK(seeded && seeded != own && tenon_generator_offset_get(seeded) == 8 &&
        tenon_generator_seed_get(seeded) == 99);
  tenon_tensor_t *c = draw_on(cpu, 3);
  CHECK(!same(a, c) && tenon_generator_offset_get(device) == 8);
  CHECK(tenon_generator_use(own) == NULL);
  /* This thread no longer uses it. */
  tenon_generator_release(own);
  tenon_tensor_t *d = draw_on(cpu, 3);
  CHECK(tenon_generator_offset_get(device) == 16);
  tenon_tensor_release(a);
  tenon_tensor_release(b);
  tenon_tensor_release(c);
  tenon_tensor_release(d);
  tenon_generator_release(NULL);
  tenon_shutdown();
}

TEST("the system gives a different seed each time") {
  tenon_generator_t *g = NULL;
  uint64_t a = 0;
  uint64_t b = 0;
  CHECK_STATUS(tenon_generator_create(1, &g), TENON_OK);
  tenon_generator_offset_set(g, 5);
  CHECK_STATUS(tenon_generator_seed_system(g, &a), TENON_OK);
  CHECK(tenon_generator_seed_get(g) == a && tenon_generator_offset_get(g) == 0);
  CHECK_STATUS(tenon_generator_seed_system(g, &b), TENON_OK);
  CHECK(a != b);
  CHECK_STATUS(tenon_generator_seed_system(g, NULL), TENON_OK);
  tenon_generator_release(g);
}

TEST("a saved state continues where it was, and its bytes are the same on every machine") {
  /* The state: "tenonrng", version 1, 40 bytes, seed and offset in little-endian order; then the
   * FNV-1a checksum of these bytes, computed in Python. */
  static const uint8_t known[40] = {'t',  'e',  'n',  'o',  'n',  'r', 'n',  'g',  1,    0,
                                    0,    0,    40,   0,    0,    0,   0xf0, 0xde, 0xbc, 0x9a,
                                    0x78, 0x56, 0x34, 0x12, 0x0b, 0,   0,    0,    0,    0,
                                    0,    0x80, 0x58, 0x7,  0x88, 0x3, 0xd7, 0x7,  0xeb, 0xf8};
  uint8_t state[TENON_GENERATOR_STATE];
  tenon_generator_t *g = NULL;
  tenon_generator_t *other = NULL;
  CHECK_STATUS(tenon_generator_create(0x123456789abcdef0, &g), TENON_OK);
  CHECK_STATUS(tenon_generator_create(0, &other), TENON_OK);
  tenon_generator_offset_set(g, 0x800000000000000b);
  CHECK_STATUS(tenon_generator_save(g, state, sizeof state), TENON_OK);
  CHECK(memcmp(state, known, sizeof known) == 0);
  tenon_generator_offset_set(g, 3);
  tenon_generator_use(g);
  CHECK_STATUS(tenon_generator_save(g, state, sizeof state), TENON_OK);
  tenon_tensor_t *a = draw_on(cpu, 9);
  CHECK_STATUS(tenon_generator_restore(other, state, sizeof state), TENON_OK);
  CHECK(tenon_generator_offset_get(other) == 3);
  tenon_generator_use(other);
  tenon_tensor_t *b = draw_on(cpu, 9);
  CHECK(same(a, b) && tenon_generator_offset_get(g) == tenon_generator_offset_get(other));
  tenon_tensor_release(a);
  tenon_tensor_release(b);
  tenon_generator_release(other);
  tenon_generator_release(g);
}

TEST("a state that is truncated, changed, newer or absent is refused, and the generator is "
     "unchanged") {
  uint8_t state[64] = {0};
  uint8_t bad[64];
  tenon_generator_t *g = NULL;
  tenon_generator_t *none = NULL;
  CHECK_STATUS(tenon_generator_create(11, &g), TENON_OK);
  tenon_generator_offset_set(g, 12);
  CHECK_STATUS(tenon_generator_save(g, state, TENON_GENERATOR_STATE), TENON_OK);
  static const struct {
    int at;
    int size;
    tenon_status_t status;
    const char *part;
  } cases[] = {{-1, 39, TENON_INVALID, "has 39 bytes, expected 40"},
               {-1, 41, TENON_INVALID, "has 41 bytes, expected 40"},
               {-1, 0, TENON_INVALID, "0 bytes are no state of a generator"},
               {-1, 15, TENON_INVALID, "15 bytes are no state"},
               {0, 40, TENON_INVALID,
                "are no state of a generator: expected what tenon_generator_save wrote"},
               {8, 40, TENON_UNIMPLEMENTED, "version 0, this libtenon reads 1"},
               {12, 40, TENON_INVALID, "expected 40"},
               {16, 40, TENON_INVALID, "is damaged"},
               {24, 40, TENON_INVALID, "is damaged"},
               {39, 40, TENON_INVALID, "is damaged"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    memcpy(bad, state, sizeof bad);
    if (cases[i].at >= 0) bad[cases[i].at] ^= 1;
    CHECK_STATUS(tenon_generator_restore(g, bad, (uint64_t)cases[i].size), cases[i].status);
    CHECK_TEXT(tenon_error(), cases[i].part);
    CHECK(tenon_generator_seed_get(g) == 11 && tenon_generator_offset_get(g) == 12);
  }
  CHECK_STATUS(tenon_generator_restore(g, NULL, 40), TENON_INVALID);
  CHECK_STATUS(tenon_generator_save(g, bad, 39), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "takes 40 bytes, found room for 39");
  CHECK_STATUS(tenon_generator_save(g, NULL, 40), TENON_INVALID);
  CHECK_STATUS(tenon_generator_create(1, NULL), TENON_INVALID);
  CHECK_STATUS(tenon_generator_of(cpu, NULL), TENON_INVALID);
  CHECK(none == NULL);
  tenon_generator_release(g);
}

/* threads */

enum {
  THREADS = 4,
  CALLS = 300,
  EACH = 7,
  TAKES = 1000000,
};

typedef struct drawer_t {
  tenon_generator_t *shared;
  int *ready;
  int64_t first[CALLS]; /* the first number of each call */
} drawer_t;

static void draw_often(void *pointer) {
  drawer_t *d = pointer;
  tenon_generator_use(d->shared);
  for (int i = 0; i < CALLS; i++) {
    tenon_tensor_t *t = draw_on(cpu, EACH);
    d->first[i] = tensor_int(t, 0);
    tenon_tensor_release(t);
  }
  tenon_generator_use(NULL);
}

static int by_number(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a;
  int64_t y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

TEST("threads that share a generator get all its numbers, each number once") {
  static drawer_t drawers[THREADS];
  static int64_t found[THREADS * CALLS], expected[THREADS * CALLS];
  tn_spawned_t threads[THREADS];
  tenon_generator_t *shared = NULL;
  CHECK_STATUS(tenon_generator_create(31, &shared), TENON_OK);
  for (int t = 0; t < THREADS; t++)
    drawers[t].shared = shared;
  for (int t = 0; t < THREADS; t++)
    CHECK(tn_spawn(&threads[t], draw_often, &drawers[t]));
  for (int t = 0; t < THREADS; t++)
    tn_join(&threads[t]);
  CHECK(tenon_generator_offset_get(shared) == (uint64_t)THREADS * CALLS * 2 * (EACH + 1));
  for (int t = 0; t < THREADS; t++)
    memcpy(found + t * CALLS, drawers[t].first, sizeof drawers[t].first);
  for (uint64_t c = 0; c < THREADS * CALLS;
       /* The upper half of two numbers times the range, converted to double and back. */
       c++) {
    uint64_t at = c * 2 * (EACH + 1);
    uint64_t high = tenon_random(31, at);
    uint64_t low = tenon_random(31, at + 1);
    uint64_t range = 1000000007;
    expected[c] = (int64_t)((high * range + (low * range >> 32)) >> 32);
  }
  qsort(found, THREADS * CALLS, sizeof *found, by_number);
  qsort(expected, THREADS * CALLS, sizeof *expected, by_number);
  CHECK(memcmp(found, expected, sizeof found) == 0);
  tenon_generator_release(shared);
}

static void take_often(void *pointer) {
  uint64_t last = 0;
  const drawer_t *d = pointer;
  __atomic_fetch_add(d->ready, 1, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(d->ready, __ATOMIC_SEQ_CST) < THREADS) {
  }
  for (int i = 0; i < TAKES; i++) {
    uint64_t at = tenon_generator_take(d->shared, 3);
    if (i && at < last + 3) CHECK_NEVER("numbers taken twice");
    last = at;
  }
}

TEST("no numbers are lost when several threads take numbers at once") {
  tn_spawned_t threads[THREADS];
  int ready = 0;
  drawer_t drawer = {NULL, &ready, {0}};
  CHECK_STATUS(tenon_generator_create(0, &drawer.shared), TENON_OK);
  for (int t = 0; t < THREADS; t++)
    CHECK(tn_spawn(&threads[t], take_often, &drawer));
  for (int t = 0; t < THREADS; t++)
    tn_join(&threads[t]);
  CHECK(tenon_generator_offset_get(drawer.shared) == (uint64_t)THREADS * TAKES * 3);
  tenon_generator_release(drawer.shared);
}

static tenon_status_t create_and_draw(void *context) {
  tenon_generator_t *g = NULL;
  (void)context;
  tenon_status_t status = tenon_generator_create(1, &g);
  tenon_generator_release(g);
  return status;
}

TEST("when memory runs out, no generator is created") {
  fail_each("making a generator", create_and_draw, NULL, 1);
}

TEST("a program can take numbers for itself, and no call gets those") {
  tenon_generator_t *g = NULL;
  CHECK_STATUS(tenon_generator_create(8, &g), TENON_OK);
  CHECK(tenon_generator_take(g, 10) == 0 && tenon_generator_take(g, 5) == 10 &&
        tenon_generator_offset_get(g) == 15);
  tenon_generator_use(g);
  tenon_tensor_t *t = draw_on(cpu, 1);
  CHECK(tensor_int(t, 0) == (int64_t)((tenon_random(8, 15) * (uint64_t)1000000007 +
                                       (tenon_random(8, 16) * (uint64_t)1000000007 >> 32)) >>
                                      32));
  tenon_tensor_release(t);
  tenon_generator_release(g);
}

TEST("nothing is left behind") { tenon_shutdown(); }
