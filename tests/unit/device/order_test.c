/* Order across streams and ordinals. Random programs run on sim, whose checker knows each access,
 * and give the CPU's results with random delays; each wait that is left out is found missing in the
 * first run; no wait is implied by others. SIM_SEEDS makes the test longer (`make sim-seeds`). */
#include "check.h"
#include "sanitizer.h"
#include "tensors.h"

#include "operators.h"
#include "there.h"

#include "device/stream.h"

enum {
  TENSORS = 6,
  STREAMS = 5,
  STEPS = 30,
  COUNT = 64,
};

static int64_t number_of(const char *name, int64_t standard) {
  const char *text = getenv(name);
  return text ? strtoll(text, NULL, 10) : standard;
}

typedef struct program_t { /* streams 0 to 2 of ordinal 0, 3 and 4 of ordinal 1 */
  struct {
    int kind;
    int stream;
    int a;
    int b;
    /* kind 0: add, 1: mul, into `out`; 2: a new tensor at that index; 3: a copy to the other
     * ordinal */
    int out;
  } steps[STEPS];
} program_t;

static tenon_device_t devices[2];
static tenon_stream_t *streams[STREAMS];

static int ordinal_of_stream(int s) { return s > 2; }
static int ordinal_of_tensor(int t) { return t >= TENSORS / 2; }

static program_t program_of(uint64_t seed) {
  program_t p;
  uint64_t state = seed * 2 + 1;
  for (int i = 0; i < STEPS; i++) {
    int o = (int)(draw(&state) % 2);
    int first = o * TENSORS / 2;
    p.steps[i].kind = (int)(draw(&state) % 8);
    p.steps[i].kind = p.steps[i].kind < 3   ? 0
                      : p.steps[i].kind < 5 ? 1
                      : p.steps[i].kind < 6 ? 2
                                            : 3;
    p.steps[i].stream = o ? 3 + (int)(draw(&state) % 2) : (int)(draw(&state) % 3);
    p.steps[i].a = first + (int)(draw(&state) % (TENSORS / 2));
    p.steps[i].b = first + (int)(draw(&state) % (TENSORS / 2));
    p.steps[i].out = first + (int)(draw(&state) % (TENSORS / 2));
  }
  return p;
}

static void fill(tenon_tensor_t *t, int which) {
  for (int i = 0; i < COUNT; i++)
    ((float *)t->data)[i] = 0.5f + (float)((which * 7 + i * 3) % 11) / 16;
}

/* Runs the program on the devices (or, with NULL, on the CPU); results are on the host. Returns
 * false if a call failed. */
static bool run(const program_t *p, bool there, tenon_tensor_t **out) {
  const tenon_op_t *ops[2] = {op_of("core::add"), op_of("core::mul")};
  tenon_tensor_t *t[TENSORS];
  int64_t count = COUNT;
  bool good = true;
  for (int i = 0; i < TENSORS; i++) {
    CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 1, &count, &t[i]), TENON_OK);
    fill(t[i], i);
    if (!there) continue;
    tenon_tensor_t *host = t[i];
    CHECK_STATUS(tenon_tensor_copy_to(host, devices[ordinal_of_tensor(i)], &t[i]), TENON_OK);
    tenon_tensor_release(host);
  }
  for (int i = 0; i < STEPS && good; i++) {
    int kind = p->steps[i].kind;
    int a = p->steps[i].a;
    int b = p->steps[i].b;
    int o = p->steps[i].out;
    int to = kind == 3 ? (a + TENSORS / 2) % TENSORS
                       : o; /* A copy goes to the matching tensor of the other ordinal. */
    int s = kind == 3
                ? (ordinal_of_tensor(to) ? 3 + p->steps[i].stream % 2 : p->steps[i].stream % 3)
                : p->steps[i].stream;
    tenon_tensor_t *inputs[2] = {t[a], t[b]};
    tenon_tensor_t *fresh = NULL;
    if (there)
      CHECK_STATUS(tenon_stream_use(devices[ordinal_of_stream(s)], streams[s], NULL), TENON_OK);
    if (kind == 3)
      good = tenon_tensor_copy_to(t[a],
                                  there ? devices[ordinal_of_tensor(to)] : (tenon_device_t){1, 0},
                                  &fresh) == TENON_OK;
    else if (kind == 2)
      good = tenon_op_call(ops[0], NULL, inputs, &fresh, 0) == TENON_OK;
    else
      good = tenon_op_call_into(ops[kind], NULL, inputs, &t[o]) == TENON_OK;
    if (fresh) {
      tenon_tensor_release(t[to]);
      t[to] = fresh;
    }
  }
  for (int i = 0; i < 2 && there; i++)
    CHECK_STATUS(tenon_stream_use(devices[i], NULL, NULL), TENON_OK);
  for (int i = 0; i < TENSORS; i++) {
    out[i] = t[i];
    if (!there) continue;
    out[i] = NULL;
    good = good && tenon_tensor_copy_to(t[i], (tenon_device_t){1, 0}, &out[i]) == TENON_OK;
    tenon_tensor_release(t[i]);
  }
  return good;
}

static void drop(tenon_tensor_t **all) {
  for (int i = 0; i < TENSORS; i++)
    tenon_tensor_release(all[i]);
}

static void open_all(const char *settings) {
  for (int i = 0; i < 2; i++)
    devices[i] = sim_open(i, settings);
  for (int i = 0; i < STREAMS && !streams[i]; i++)
    CHECK_STATUS(tenon_stream_create(devices[ordinal_of_stream(i)], &streams[i]), TENON_OK);
}

static uint64_t races(sim_finding_t *finding) {
  return sim->races(&ordinal_of(devices[0])->context, finding, finding ? 64 : 0);
}

TEST("with random delays, programs over five streams and two ordinals give the CPU's bits, without "
     "a race") {
  open_all("check=count,delay=60");
  for (int64_t seed = 1; seed <= number_of("SIM_SEEDS", 50); seed++) {
    char settings[64];
    tenon_tensor_t *here[TENSORS], *there[TENSORS];
    program_t p = program_of((uint64_t)seed);
    snprintf(settings, sizeof settings, "seed=%lld", (long long)seed);
    sim_set(devices[0], settings);
    CHECK(run(&p, false, here) && run(&p, true, there));
    for (int i = 0; i < TENSORS; i++)
      CHECK(there[i] && memcmp(here[i]->data, there[i]->data, COUNT * sizeof(float)) == 0);
    drop(here);
    drop(there);
  }
  sim_finding_t finding[64];
  uint64_t count = races(finding);
  check_report(count == 0, __FILE__, __LINE__, "no race", count ? finding[0].text : NULL);
}

TEST("no enqueued wait is implied by other waits") {
  sim_finding_t finding[64];
  uint64_t count = sim->implied_waits(&ordinal_of(devices[0])->context, finding, 64);
  check_report(count == 0, __FILE__, __LINE__, "no implied wait", count ? finding[0].text : NULL);
  CHECK(tn_waits.enqueued > 100 && tn_waits.implied > 10);
}

TEST("each wait that is left out is found missing in the first run") {
  uint64_t taken = 0;
#ifdef HAS_TSAN
  SKIP("without a wait there is a race, which the thread sanitizer reports too");
#endif
  sim_set(devices[0], "delay=0");
  for (uint64_t seed = 1; seed <= 12; seed++) {
    program_t p = program_of(seed);
    tenon_tensor_t *results[TENSORS];
    uint64_t before = tn_waits.enqueued;
    CHECK(run(&p, true, results));
    drop(results);
    uint64_t count = tn_waits.enqueued - before;
    for (uint64_t n = 1; n <= count; n++, taken++) {
      uint64_t found = races(NULL);
      CHECK_STATUS(tenon_device_synchronize(devices[0]), TENON_OK);
      CHECK_STATUS(tenon_device_synchronize(devices[1]), TENON_OK);
      tn_waits_skip(n);
      (void)run(&p, true, results);
      tn_waits_skip(0);
      drop(results);
      char text[120];
      snprintf(text, sizeof text, "seed %d, wait %d of %d", (int)seed, (int)n, (int)count);
      check_report(races(NULL) > found, __FILE__, __LINE__, "a race", text);
    }
  }
  CHECK(taken > 60);
}

TEST("nothing is left behind") {
  for (int i = 0; i < STREAMS; i++) {
    tenon_stream_release(streams[i]);
    streams[i] = NULL;
  }
  for (int i = 0; i < 2; i++)
    CHECK(stats_of(devices[i]).live == 0);
  tenon_shutdown();
}
