/* Asynchronous copies: host memory is in use, and is kept, until a stream has passed them; pinned
 * memory; and copies between devices through the host, in two staging buffers that alternate. */
#include "base/memory.h"
#include "check.h"
#include "core/tensor.h"
#include "device/memory.h"
#include "device/stream.h"
#include "sanitizer.h"
#include "tensors.h"

#include "faults.h"
#include "operators.h"
#include "there.h"

static const tenon_device_t cpu = {1, 0};

#ifdef HAS_TSAN /* The thread sanitizer also reports work without a wait, and is slow. */
enum {
  LEFT_OUT = 0,
  STEP = 9,
  SEEDS = 1,
};
#else
enum {
  LEFT_OUT = 3,
  STEP = 1,
  SEEDS = 5,
};
#endif

static uint64_t copied_bytes(tenon_device_t device, uint32_t direction) {
  return __atomic_load_n(&ordinal_of(device)->copies[direction].bytes, __ATOMIC_RELAXED);
}

static uint64_t races(tenon_device_t device) {
  return sim->races(&ordinal_of(device)->context, NULL, 0);
}

static void no_race(tenon_device_t device, uint64_t before) {
  sim_finding_t found[64];
  uint64_t count = sim->races(&ordinal_of(device)->context, found, 64);
  check_report(count == before, __FILE__, __LINE__, "no race",
               count > before ? found[count - 1].text : NULL);
}

/* Does sim consider the host free to access that memory? */
static bool is_free(tenon_device_t device, const tenon_tensor_t *t, uint32_t is_write) {
  return sim->host_access(&ordinal_of(device)->context, t->data, (uint64_t)t->shape[0] * 4,
                          is_write) == TENON_OK;
}

static tenon_tensor_t *pinned(tenon_device_t device, int64_t count) {
  tenon_tensor_t *t = NULL;
  CHECK_STATUS(tenon_tensor_create_pinned(device, tenon_dtype(TENON_F32), 1, &count, &t), TENON_OK);
  return t;
}

static tenon_tensor_t *room(tenon_device_t device, int64_t count) {
  tenon_tensor_t *t = NULL;
  CHECK_STATUS(tenon_tensor_create_on(device, tenon_dtype(TENON_F32), 1, &count, &t), TENON_OK);
  return t;
}

static float number(int64_t i, int seed) { return (float)((i * 7 + seed * 131) % 4093); }

static void write_numbers(tenon_tensor_t *t, int seed) {
  for (int64_t i = 0; i < t->shape[0]; i++)
    ((float *)t->data)[i] = number(i, seed);
}

static bool has_numbers(const tenon_tensor_t *t, int seed) {
  for (int64_t i = 0; i < t->shape[0]; i++)
    if (((const float *)t->data)[i] != number(i, seed)) return false;
  return true;
}

static tenon_tensor_t *add(tenon_tensor_t *a, tenon_tensor_t *b) {
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_op_call(op_of("core::add"), NULL, (tenon_tensor_t *[]){a, b}, &out, 0),
               TENON_OK);
  return out;
}

/* host and device */

TEST("copies in and out do not wait, and touching the host's memory before the stream passed them "
     "is found") {
  tenon_device_t device = sim_open(0, "check=count,delay=20000,seed=4");
  tenon_tensor_t *in = pinned(device, 64);
  tenon_tensor_t *x = room(device, 64);
  tenon_tensor_t *y;
  tenon_tensor_t *out = pinned(device, 64);
  tenon_stream_t *stream = NULL;
  CHECK_STATUS(tenon_stream_of(device, &stream), TENON_OK);
  write_numbers(in, 1);
  uint64_t before = races(device);
  uint64_t host = tn_waits.host;
  uint64_t ins = copies_made(device, TENON_COPY_IN);
  CHECK(is_free(device, in, 1));
  CHECK_STATUS(tenon_tensor_copy_async(in, x), TENON_OK);
  y = add(x, x);
  CHECK_STATUS(tenon_tensor_copy_async(y, out), TENON_OK);
  CHECK(tenon_stream_query(stream) == TENON_UNAVAILABLE && tn_waits.host == host);
  no_race(device, before);
  CHECK(is_free(device, in, 0)); /* The copy only reads it. */
  CHECK(!is_free(device, in, 1) && !is_free(device, out, 0) && races(device) == before + 2);
  CHECK_STATUS(tenon_stream_synchronize(stream), TENON_OK);
  before = races(device);
  CHECK(is_free(device, in, 1) && is_free(device, out, 1) && races(device) == before);
  for (int64_t i = 0; i < 64; i++)
    CHECK(((float *)out->data)[i] == 2 * number(i, 1));
  CHECK(copies_made(device, TENON_COPY_IN) == ins + 1);
  tenon_tensor_release(in);
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  tenon_tensor_release(out);
}

TEST("between two tensors of the host a copy is done at once, whatever their strides") {
  float numbers[6] = {1, 2, 3, 4, 5, 6};
  float turned[6] = {0};
  float turned_right[6] = {1, 4, 2, 5, 3, 6};
  tenon_tensor_t *from = NULL;
  tenon_tensor_t *to = NULL;
  CHECK_STATUS(tenon_tensor_borrow(numbers, tenon_dtype(TENON_F32), 2, (int64_t[]){3, 2},
                                   (int64_t[]){1, 3}, NULL, NULL, &from),
               TENON_OK);
  CHECK_STATUS(tenon_tensor_borrow(turned, tenon_dtype(TENON_F32), 2, (int64_t[]){3, 2}, NULL, NULL,
                                   NULL, &to),
               TENON_OK);
  CHECK_STATUS(tenon_tensor_copy_async(from, to), TENON_OK);
  for (int i = 0; i < 6; i++)
    CHECK(turned[i] == turned_right[i]);
  tenon_tensor_release(from);
  tenon_tensor_release(to);
}

static int told;
static void tell(void *context) {
  told++;
  memset(context, 0xEE, 256);
}

TEST("host memory that tensors own, or that has a release function, is kept until the stream has "
     "passed the copy") {
  static float theirs[64];
  tenon_device_t device = sim_open(0, "check=fail,delay=30000,seed=4");
  int64_t count = 64;
  tenon_tensor_t *x = room(device, 64);
  tenon_tensor_t *y = room(device, 64);
  tenon_tensor_t *z = room(device, 64);
  tenon_tensor_t *mine = NULL;
  tenon_tensor_t *borrowed = NULL;
  tenon_tensor_t *locked = pinned(device, 64);
  tenon_tensor_t *next;
  CHECK_STATUS(tenon_device_synchronize(device), TENON_OK);
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 1, &count, &mine), TENON_OK);
  CHECK_STATUS(
      tenon_tensor_borrow(theirs, tenon_dtype(TENON_F32), 1, &count, NULL, tell, theirs, &borrowed),
      TENON_OK);
  write_numbers(mine, 1);
  write_numbers(borrowed, 2);
  write_numbers(locked, 3);
  const void *data = locked->data;
  CHECK_STATUS(tenon_tensor_copy_async(mine, x), TENON_OK);
  CHECK_STATUS(tenon_tensor_copy_async(borrowed, y), TENON_OK);
  CHECK_STATUS(tenon_tensor_copy_async(locked, z), TENON_OK);
  tenon_tensor_release(mine);
  tenon_tensor_release(borrowed);
  tenon_tensor_release(locked);
  CHECK(told == 0);
  for (int i = 0; i < 8; i++) { /* None of their memory is given out again. */
    next = pinned(device, 64);
    CHECK(next->data != data);
    memset(next->data, 0x77, 256);
    tenon_tensor_release(next);
    CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 1, &count, &next), TENON_OK);
    memset(next->data, 0x77, 256);
    tenon_tensor_release(next);
  }
  CHECK_STATUS(tenon_device_synchronize(device), TENON_OK);
  CHECK(told == 1); /* The copy is seen to be complete. */
  tenon_tensor_t *all[3] = {x, y, z};
  for (int i = 0; i < 3; i++) {
    tenon_tensor_t *back = tensor_back(all[i]);
    CHECK(back && has_numbers(back, i + 1));
    tenon_tensor_release(back);
    tenon_tensor_release(all[i]);
  }
  CHECK(stats_of(device).live == 0 && tn_memory_live(ordinal_of(device)) == 0);
}

TEST("copies of two streams to and from pinned memory are ordered like work on devices, and each "
     "wait is needed") {
  for (uint64_t skip = 0; skip <= LEFT_OUT; skip++) {
    tenon_device_t device = sim_open(0, "check=count,delay=2000");
    tenon_stream_t *s, *t;
    tenon_tensor_t *x = tensor_there(device, "f32[4] 1 2 3 4");
    tenon_tensor_t *y = room(device, 4);
    tenon_tensor_t *p = pinned(device, 4);
    CHECK_STATUS(tenon_stream_create(device, &s), TENON_OK);
    CHECK_STATUS(tenon_stream_create(device, &t), TENON_OK);
    CHECK_STATUS(tenon_device_synchronize(device), TENON_OK);
    uint64_t before = races(device);
    uint64_t host = tn_waits.host;
    uint64_t enqueued = tn_waits.enqueued;
    tn_waits_skip(skip);
    CHECK_STATUS(tenon_stream_use(device, s, NULL), TENON_OK);
    CHECK_STATUS(tenon_tensor_copy_async(x, p), TENON_OK);
    CHECK_STATUS(tenon_stream_use(device, t, NULL), TENON_OK);
    CHECK_STATUS(tenon_tensor_copy_async(p, y), TENON_OK); /* wait 1: for the write of s */
    CHECK_STATUS(tenon_stream_use(device, s, NULL), TENON_OK);
    CHECK_STATUS(tenon_tensor_copy_async(x, p), TENON_OK); /* wait 2: for the read of t */
    CHECK_STATUS(tenon_stream_use(device, t, NULL), TENON_OK);
    CHECK_STATUS(tenon_tensor_copy_async(p, y), TENON_OK); /* wait 3 */
    tn_waits_skip(0);
    CHECK_STATUS(tenon_stream_use(device, NULL, NULL), TENON_OK);
    CHECK(tn_waits.host == host && tn_waits.enqueued == enqueued + 3);
    if (!skip)
      no_race(device, before);
    else
      CHECK(races(device) > before);
    CHECK_STATUS(tenon_device_synchronize(device), TENON_OK);
    check_there(y, "f32[4] 1 2 3 4");
    tenon_tensor_release(x);
    tenon_tensor_release(y);
    tenon_tensor_release(p);
    tenon_stream_release(s);
    tenon_stream_release(t);
  }
}

TEST("a source may change right after it was copied in, and the host waits for large copies only") {
  tenon_device_t device = sim_open(0, "check=fail,delay=3000");
  static const int64_t counts[] = {1, 100, 1 << 16, 1 << 17};
  uint64_t before = races(device);
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
    tenon_tensor_t *host = NULL;
    tenon_tensor_t *there = NULL;
    tenon_tensor_t *turned = NULL;
    tenon_tensor_t *back;
    int64_t shape[2] = {2, counts[c]};
    int64_t strides[2] = {1, 2};
    bool is_small = counts[c] * 4 <= 1 << 18;
    CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 1, &counts[c], &host), TENON_OK);
    write_numbers(host, 5);
    uint64_t ins = copies_made(device, TENON_COPY_IN);
    CHECK_STATUS(tenon_tensor_copy_to(host, device, &there), TENON_OK);
    CHECK((tenon_stream_query(tn_stream_current(ordinal_of(device))) == TENON_UNAVAILABLE) ==
          is_small);
    memset(host->data, 0xEE, (size_t)counts[c] * 4);
    back = tensor_back(there);
    CHECK(back && has_numbers(back, 5));
    CHECK(copies_made(device, TENON_COPY_IN) == ins + 1);
    tenon_tensor_release(back);
    tenon_tensor_release(there);
    tenon_tensor_release(host);
    float *data = malloc((size_t)counts[c] * 8);
    for (int64_t i = 0; i < 2 * counts[c]; i++)
      data[i] = (float)i;
    CHECK_STATUS(
        tenon_tensor_borrow(data, tenon_dtype(TENON_F32), 2, shape, strides, NULL, NULL, &turned),
        TENON_OK);
    CHECK_STATUS(tenon_tensor_copy_to(turned, device, &there), TENON_OK);
    memset(data, 0xEE, (size_t)counts[c] * 8);
    back = tensor_back(there);
    for (int64_t i = 0; i < counts[c]; i++)
      if (((float *)back->data)[i] != (float)(2 * i) ||
          ((float *)back->data)[counts[c] + i] != (float)(2 * i + 1))
        CHECK_NEVER("elements of a strided tensor");
    tenon_tensor_release(back);
    tenon_tensor_release(there);
    tenon_tensor_release(turned);
    free(data);
  }
  no_race(device, before);
}

TEST("pinned memory belongs to the host, is aligned and cached, is given back by trim, and is "
     "refused where it cannot be had") {
  tenon_device_t device = sim_open(0, "check=fail,delay=0");
  tenon_tensor_t *t;
  int64_t negative = -1;
  int64_t many = INT64_MAX / 4;
  int64_t none = 0;
  CHECK_STATUS(tenon_memory_trim(device), TENON_OK);
  CHECK(stats_of(device).pinned == 0);
  uint64_t asked = stats_of(device).pinned_allocations;
  for (int i = 0; i < 100; i++) {
    t = pinned(device, 1000);
    CHECK(t->device.type == 1 && (uintptr_t)t->data % 64 == 0 && stats_of(device).pinned > 0);
    write_numbers(t, i);
    tenon_tensor_t *sum = add(t, t); /* It is a host tensor like any other. */
    CHECK(((float *)sum->data)[3] == 2 * number(3, i));
    tenon_tensor_release(sum);
    tenon_tensor_release(t);
  }
  CHECK(stats_of(device).pinned_allocations == asked + 1);
  int64_t square[2] = {2, 2};
  tenon_tensor_t *there = tensor_there(device, "f32[2,2] 1 2 3 4");
  tenon_tensor_t *here = NULL;
  tenon_tensor_t *product = NULL;
  CHECK_STATUS(tenon_tensor_create_pinned(device, tenon_dtype(TENON_F32), 2, square, &here),
               TENON_OK);
  tenon_tensor_t *mixed[3] = {there, here, NULL};
  CHECK_STATUS(tenon_op_call(op_of("core::matmul"), NULL, mixed, &product, 0),
               TENON_INVALID); /* It is not on the device. */
  CHECK_STATUS(tenon_op_run(op_of("core::matmul"), NULL, mixed, &there), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "core::matmul: arguments in host memory: b, beside a on sim:0");
  tenon_tensor_release(there);
  tenon_tensor_release(here);
  CHECK_STATUS(tenon_device_synchronize(device), TENON_OK);
  CHECK_STATUS(tenon_memory_trim(device), TENON_OK);
  CHECK(stats_of(device).pinned == 0 && stats_of(device).live == 0);
  CHECK_STATUS(tenon_tensor_create_pinned(device, tenon_dtype(TENON_F32), 1, &negative, &t),
               TENON_INVALID);
  CHECK_STATUS(tenon_tensor_create_pinned(device, tenon_dtype(TENON_STRING), 1, &none, &t),
               TENON_INVALID);
  CHECK_STATUS(tenon_tensor_create_pinned(device, tenon_dtype(TENON_F32), 1, &many, &t),
               TENON_INVALID);
  CHECK_STATUS(tenon_tensor_create_pinned(cpu, tenon_dtype(TENON_F32), 1, &none, &t),
               TENON_NOT_FOUND);
  t = pinned(device, 0);
  CHECK(t->shape[0] == 0 && t->data);
  tenon_tensor_release(t);
  CHECK_STATUS(tenon_memory_trim(device), TENON_OK);
  sim_set(device, "fail=host_allocate:1");
  /* The second attempt succeeds, after cached memory was given back. */
  t = pinned(device, 8);
  CHECK(t != NULL);
  tenon_tensor_release(t);
  tenon_tensor_t *a = tensor_of("f32[3] 1 2 3");
  tenon_tensor_t *b = tensor_there(device, "f32[2] 1 2");
  CHECK_STATUS(tenon_tensor_copy_async(a, b), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "a copy of f32 [3] cannot go to f32 [2]");
  tenon_tensor_release(a);
  tenon_tensor_release(b);
}

TEST(
    "a copy that fails later is a failure of its stream, and the memory that it used is released") {
  tenon_device_t device = sim_open(0, "check=fail,delay=2000");
  tenon_stream_t *bad;
  tenon_tensor_t *x = room(device, 64);
  tenon_tensor_t *mine = NULL;
  int64_t count = 64;
  static float theirs[64];
  CHECK_STATUS(tenon_stream_create(device, &bad), TENON_OK);
  CHECK_STATUS(tenon_stream_use(device, bad, NULL), TENON_OK);
  CHECK_STATUS(
      tenon_tensor_borrow(theirs, tenon_dtype(TENON_F32), 1, &count, NULL, tell, theirs, &mine),
      TENON_OK);
  told = 0;
  sim_set(device, "fail=copy:1");
  CHECK_STATUS(tenon_tensor_copy_async(mine, x), TENON_UNAVAILABLE);
  CHECK_TEXT(tenon_error(), "copy: sim: this call of copy fails");
  sim_set(device, "fault=1");
  CHECK_STATUS(tenon_tensor_copy_async(mine, x), TENON_OK);
  tenon_tensor_release(mine);
  CHECK(tenon_stream_synchronize(bad) != TENON_OK);
  CHECK_TEXT(tenon_error(), "copy failed on sim:0");
  CHECK_STATUS(tenon_stream_use(device, NULL, NULL), TENON_OK);
  CHECK_STATUS(tenon_memory_trim(device), TENON_OK);
  CHECK(told == 1);
  tenon_tensor_release(x);
  tenon_stream_release(bad);
  tenon_shutdown(); /* A failed stream stays failed. */
}

/* between devices */

static void check_across(tenon_device_t from, tenon_device_t to, int64_t count, const char *what) {
  tenon_tensor_t *host = NULL;
  tenon_tensor_t *a = NULL;
  tenon_tensor_t *b = NULL;
  tenon_tensor_t *back = NULL;
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 1, &count, &host), TENON_OK);
  write_numbers(host, 9);
  CHECK_STATUS(tenon_tensor_copy_to(host, from, &a), TENON_OK);
  uint64_t bytes = (uint64_t)count * 4;
  uint64_t parts = (bytes + (4 << 20) - 1) / (4 << 20);
  uint64_t outs = copies_made(from, TENON_COPY_OUT);
  uint64_t ins = copies_made(to, TENON_COPY_IN);
  uint64_t out_bytes = copied_bytes(from, TENON_COPY_OUT);
  uint64_t in_bytes = copied_bytes(to, TENON_COPY_IN);
  CHECK_STATUS(tenon_tensor_copy_to(a, to, &b), TENON_OK);
  CHECK(copies_made(from, TENON_COPY_OUT) == outs + parts &&
        copies_made(to, TENON_COPY_IN) == ins + parts);
  CHECK(copied_bytes(from, TENON_COPY_OUT) == out_bytes + bytes &&
        copied_bytes(to, TENON_COPY_IN) == in_bytes + bytes);
  tenon_tensor_release(a);
  if (b) back = tensor_back(b);
  check_report(back && has_numbers(back, 9), __FILE__, __LINE__, "the same numbers", what);
  tenon_tensor_release(b);
  tenon_tensor_release(back);
  tenon_tensor_release(host);
}

TEST("copies between ordinals without a direct path go through the host in parts, ordered by "
     "events, and no host waits") {
  enum { MIB = 1 << 18 }; /* numbers */
  static const int64_t counts[] = {1, MIB, 4 * MIB + 3, 19 * MIB};
  tenon_device_t first = sim_open(0, "check=fail,delay=2000,peers=0");
  tenon_device_t second = sim_open(1, "");
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
    check_across(first, second, counts[c], "sim to sim");
  uint64_t asked = stats_of(first).pinned_allocations;
  uint64_t host = tn_waits.host;
  tenon_tensor_t *a = room(first, 19 * MIB);
  tenon_tensor_t *b = room(second, 19 * MIB);
  tenon_tensor_t *one = tensor_there(second, "f32[1] 1");
  for (int i = 0; i < 3; i++)
    CHECK_STATUS(tenon_tensor_copy_async(a, b), TENON_OK);
  CHECK(tenon_stream_query(tn_stream_current(ordinal_of(second))) == TENON_UNAVAILABLE);
  CHECK(tn_waits.host == host);
  CHECK_STATUS(tenon_device_synchronize(second), TENON_OK);
  CHECK(stats_of(first).pinned_allocations <=
        /* At most the buffers that were in use at once were allocated. */
        asked + 6);
  asked = stats_of(first).pinned_allocations;
  for (int i = 0; i < 3; i++) {
    CHECK_STATUS(tenon_tensor_copy_async(a, b), TENON_OK);
    CHECK_STATUS(tenon_device_synchronize(second), TENON_OK);
  }
  CHECK(stats_of(first).pinned_allocations == asked); /* No new memory was allocated. */
  CHECK(races(first) == 0);
  tenon_tensor_release(a);
  tenon_tensor_release(b);
  tenon_tensor_release(one);
}

TEST("each wait that orders these parts is needed") {
  tenon_device_t first = sim_open(0, "check=count,delay=200,peers=0");
  tenon_device_t second = sim_open(1, "");
  tenon_tensor_t *a = room(first, 5 << 20);
  tenon_tensor_t *b = room(second, 5 << 20);
  CHECK_STATUS(tenon_device_synchronize(first), TENON_OK);
  CHECK_STATUS(tenon_device_synchronize(second), TENON_OK);
  uint64_t before = tn_waits.enqueued;
  uint64_t count;
  CHECK_STATUS(tenon_tensor_copy_async(a, b), TENON_OK);
  count = tn_waits.enqueued - before;
  CHECK(count ==
        /* Each part's copy in waits for its copy out. From the third part on, the copy out waits
         * for the copy in of the part two before. */
        5 + 3);
  for (uint64_t n = 1; n <= count && LEFT_OUT; n++) {
    CHECK_STATUS(tenon_device_synchronize(first), TENON_OK);
    CHECK_STATUS(tenon_device_synchronize(second), TENON_OK);
    before = races(first);
    tn_waits_skip(n);
    CHECK_STATUS(tenon_tensor_copy_async(a, b), TENON_OK);
    tn_waits_skip(0);
    CHECK(races(first) > before);
  }
  CHECK_STATUS(tenon_device_synchronize(second), TENON_OK);
  tenon_tensor_release(a);
  tenon_tensor_release(b);
}

TEST("between two plug-ins the parts alternate between two cached pieces of memory, and are right "
     "with random delays") {
  enum { MIB = 1 << 18 };
  int32_t count;
  tenon_device_t device = sim_open(0, "check=fail,delay=500");
  tenon_device_t opencl;
  tenon_device_t null = device_of("null", 0);
  uint64_t before = races(device);
  bool has_opencl = tenon_device_count("opencl", &count) == TENON_OK;
  if (has_opencl) {
    opencl = device_of("opencl", 0);
    for (int seed = 1; seed <= SEEDS; seed++) {
      char settings[40];
      snprintf(settings, sizeof settings, "seed=%d", seed);
      sim_set(device, settings);
      check_across(device, opencl, 17 * MIB + 5, "sim to opencl");
      check_across(opencl, device, 17 * MIB + 5, "opencl to sim");
      check_across(device, opencl, 1, "sim to opencl");
      check_across(opencl, device, 1, "opencl to sim");
    }
  }
  /* null computes nothing, but every function is called. */
  tenon_tensor_t *a = room(device, 16 * MIB);
  tenon_tensor_t *b = room(null, 16 * MIB);
  uint64_t asked = stats_of(device).pinned_allocations;
  for (int i = 0; i < 3; i++) {
    CHECK_STATUS(tenon_tensor_copy_async(a, b), TENON_OK);
    CHECK_STATUS(tenon_device_synchronize(device), TENON_OK);
  }
  CHECK(stats_of(device).pinned_allocations <= asked + 2);
  CHECK_STATUS(tenon_tensor_copy_async(b, a), TENON_OK);
  no_race(device, before);
  tenon_tensor_release(a);
  tenon_tensor_release(b);
  if (!has_opencl) SKIP("there is no driver of OpenCL: sim and null alone");
}

TEST("every n-th copy, allocation of pinned memory and of the host fails cleanly, and the next "
     "copy works") {
  enum { MIB = 1 << 18 };
  static const char *const calls[] = {"copy", "host_allocate", "event_create"};
  tenon_shutdown();
  for (size_t c = 0; c <= sizeof calls / sizeof *calls; c++) {
    bool failed = true;
    int n = 0;
    while (failed && n < 60) {
      char setting[64];
      tenon_device_t first = sim_open(0, "check=fail,peers=0");
      tenon_device_t second = sim_open(1, "");
      tenon_tensor_t *a = room(first, 9 * MIB);
      tenon_tensor_t *b = room(second, 9 * MIB);
      tenon_tensor_t *p = NULL;
      int64_t count = 9 * MIB;
      n += STEP;
      if (c < sizeof calls / sizeof *calls) {
        snprintf(setting, sizeof setting, "fail=%s:%d", calls[c], n);
        sim_set(first, setting);
      } else
        fault_memory(n, false);
      tenon_status_t status =
          tenon_tensor_create_pinned(first, tenon_dtype(TENON_F32), 1, &count, &p);
      if (status == TENON_OK) status = tenon_tensor_copy_async(p, a);
      if (status == TENON_OK) status = tenon_tensor_copy_async(a, b);
      if (status == TENON_OK) status = tenon_tensor_copy_async(b, p);
      fault_end();
      sim_set(first, "fail=copy:0,fail=host_allocate:0,fail=event_create:0");
      bool is_retried = c == 1; /* Pinned memory is requested a second time. */
      failed = status != TENON_OK || (is_retried && n < 5);
      if (status != TENON_OK) CHECK(*tenon_error() != 0);
      CHECK_STATUS(tenon_tensor_copy_async(a, b), TENON_OK);
      CHECK_STATUS(tenon_device_synchronize(second), TENON_OK);
      CHECK(races(first) == 0);
      tenon_tensor_release(a);
      tenon_tensor_release(b);
      tenon_tensor_release(p);
      CHECK(tn_memory_live(ordinal_of(first)) == 0 && tn_memory_live(ordinal_of(second)) == 0);
      tenon_shutdown();
    }
    check_report(!failed, __FILE__, __LINE__, "it works in the end",
                 c < 3 ? calls[c] : "host memory");
  }
}

TEST("a device that stops waits for copies under way, and other plug-ins forget its streams") {
  tenon_device_t device = sim_open(0, "check=fail,delay=20000,seed=3");
  tenon_device_t null = device_of("null", 0);
  static float theirs[64];
  tenon_tensor_t *x = room(device, 64);
  tenon_tensor_t *mine = NULL;
  tenon_tensor_t *p = pinned(null, 64);
  tenon_tensor_t *q = pinned(device, 64);
  int64_t count = 64;
  told = 0;
  CHECK_STATUS(
      tenon_tensor_borrow(theirs, tenon_dtype(TENON_F32), 1, &count, NULL, tell, theirs, &mine),
      TENON_OK);
  CHECK_STATUS(tenon_tensor_copy_async(mine, x), TENON_OK);
  CHECK_STATUS(tenon_tensor_copy_async(x, p),
               /* A stream of sim uses memory of null. */
               TENON_OK);
  CHECK_STATUS(tenon_tensor_copy_async(x, q), TENON_OK);
  tenon_tensor_release(mine);
  tenon_tensor_release(x);
  CHECK(told == 0);
  tenon_shutdown();
  CHECK(told == 1);
  tenon_tensor_release(p);
  tenon_tensor_release(q);
}

TEST("memory of other plug-ins forgets the streams of a plug-in that is unloaded") {
  tenon_library_t *library;
  tenon_shutdown();
  CHECK_STATUS(
      tenon_library_load(TEST_LIBRARIES "/../../devices/sim.so", TENON_LOAD_UNLOADABLE, &library),
      TENON_OK);
  tenon_device_t device = sim_open(0, "check=fail,delay=5000");
  tenon_device_t null = device_of("null", 0);
  tenon_tensor_t *x = room(device, 64);
  tenon_tensor_t *p = pinned(null, 64);
  tenon_tensor_t *y = room(null, 64);
  CHECK_STATUS(tenon_tensor_copy_async(x, p), TENON_OK);
  tenon_tensor_release(x);
  CHECK_STATUS(tenon_library_unload(library), TENON_OK);
  /* This follows work of a stream that no longer exists. */
  CHECK_STATUS(tenon_tensor_copy_async(p, y), TENON_OK);
  CHECK(((tn_memory_t *)((tn_tensor_t *)p)->storage->context)->uses->next == NULL);
  tenon_tensor_release(p);
  tenon_tensor_release(y);
}

TEST("nothing is left behind") { tenon_shutdown(); }
