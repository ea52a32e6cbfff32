/* Events of programs: which work an event stands for, waits of the host and of streams, times,
 * failures, imported streams, captured streams, several threads, and devices that have stopped.
 * Work that waits for a gate makes the order of events certain; sim's checker finds missing
 * waits. */
#include <pthread.h>

#include "base/thread.h"
#include "check.h"
#include "sanitizer.h"
#include "tensors.h"

#include "device/event.h"
#include "faults.h"
#include "operators.h"
#include "there.h"

#include "owner.h"

/* work behind gates */

enum {
  GATES = 2,
  SECONDS = 120, /* after which a test that hangs ends */
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool is_open[GATES];
static int done; /* pieces of work that have run */

static void set_gate(int gate, bool open) {
  pthread_mutex_lock(&lock);
  is_open[gate] = open;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}

static int done_now(void) {
  pthread_mutex_lock(&lock);
  int count = done;
  pthread_mutex_unlock(&lock);
  return count;
}

static tenon_status_t pass_gate(void *argument, void *const *addresses, char *message) {
  (void)addresses;
  (void)message;
  int gate = *(int *)argument;
  pthread_mutex_lock(&lock);
  while (gate >= 0 && !is_open[gate])
    pthread_cond_wait(&changed, &lock);
  done++;
  pthread_mutex_unlock(&lock);
  return TENON_OK;
}

/* Enqueues a piece of work that waits for a gate; -1: for none. */
static void enqueue(tenon_stream_t *s, int gate) {
  uint64_t ticket = tn_stream_ticket(s, "test::gate");
  CHECK_STATUS(sim->enqueue(&s->ordinal->context, s->native, ticket, "gate", pass_gate, &gate,
                            sizeof gate, 0, NULL),
               TENON_OK);
  tn_stream_ended(s);
}

static void hold(tenon_stream_t *s, int gate) {
  alarm(SECONDS);
  set_gate(gate, false);
  enqueue(s, gate);
}

static void finish(tenon_stream_t *s) {
  for (int i = 0; i < GATES; i++)
    set_gate(i, true);
  CHECK_STATUS(tenon_stream_synchronize(s), TENON_OK);
}

static tenon_stream_t *stream_on(tenon_device_t device) {
  tenon_stream_t *s = NULL;
  CHECK_STATUS(tenon_stream_create(device, &s), TENON_OK);
  return s;
}

static tenon_event_t *event_on(tenon_device_t device, uint32_t flags) {
  tenon_event_t *e = NULL;
  CHECK_STATUS(tenon_event_create(device, flags, &e), TENON_OK);
  return e;
}

static tenon_event_t *event_in(tenon_stream_t *s) {
  tenon_event_t *e = event_on(s->ordinal->context.device, 0);
  CHECK_STATUS(tenon_event_record(e, s), TENON_OK);
  return e;
}

static tenon_status_t call(const char *op, tenon_tensor_t *x, tenon_tensor_t **out) {
  *out = NULL;
  return tenon_op_call(op_of(op), NULL, (tenon_tensor_t *[]){x, x}, out, 0);
}

/* Tables in front of sim's own */

static tenon_device_table_t table, own;

static void put_table(tenon_device_t device) {
  tn_ordinal_t *o = ordinal_of(device);
  memset(&own, 0, sizeof own);
  memcpy(&own, o->table, o->table->size < sizeof own ? o->table->size : sizeof own);
  table = own;
  o->table = &table;
}

/* Starts sim anew, without some functions of its table. */
static tenon_device_t begin_without(bool has_events, bool forks) {
  static const tenon_item_t items[] = {TENON_DEVICE(&table), {TENON_TAG_END, 0, 0, NULL, NULL}};
  static const tenon_descriptor_t library = {sizeof library, TENON_ABI, TENON_LAYOUT, 0,
                                             "other_sim",    "1.0.0",   items};
  tenon_shutdown();
  put_table(device_of("sim", 0));
  tenon_shutdown();
  if (!forks) table.forked = NULL;
  if (!has_events) {
    table.event_create = NULL;
    table.event_destroy = NULL;
    table.event_record = NULL;
    table.event_query = NULL;
    table.event_synchronize = NULL;
    table.stream_wait = NULL;
  }
  CHECK_STATUS(tenon_library_add(&library, NULL, NULL, NULL), TENON_OK);
  return sim_open(0, "");
}

static tenon_status_t open_and_synchronize(tenon_on_t on, void *event) {
  set_gate(0, true);
  return own.event_synchronize(on, event);
}

static tenon_status_t open_and_finish(tenon_on_t on, void *stream, tenon_fault_t *fault) {
  set_gate(0, true);
  return own.stream_synchronize(on, stream, fault);
}

static tenon_status_t refuse_record(tenon_on_t on, void *event, void *stream) {
  (void)event;
  (void)stream;
  return tenon_fail(on, TENON_MEMORY, "no memory for a mark");
}

static int destroyed;
static void count_destroy(tenon_on_t on, void *event) {
  destroyed++;
  own.event_destroy(on, event);
}

/* what an event stands for */

TEST("an event is done when the work before it is, whatever its stream gets later") {
  tenon_stream_t *s = stream_on(sim_open(0, "check=fail,delay=50"));
  tenon_event_t *first = event_on(s->ordinal->context.device, 0);
  hold(s, 0);
  CHECK_STATUS(tenon_event_record(first, s), TENON_OK);
  hold(s, 1);
  tenon_event_t *second = event_in(s);
  CHECK_STATUS(tenon_event_query(first), TENON_UNAVAILABLE);
  CHECK_TEXT(tenon_error(), "the event is not done yet");
  int before = done_now();
  set_gate(0, true);
  CHECK_STATUS(tenon_event_synchronize(first), TENON_OK);
  CHECK(done_now() == before + 1);
  CHECK_STATUS(tenon_event_query(first), TENON_OK);
  CHECK_STATUS(tenon_event_query(second), TENON_UNAVAILABLE);
  CHECK_STATUS(tenon_stream_query(s), TENON_UNAVAILABLE);
  finish(s);
  CHECK_STATUS(tenon_event_query(second), TENON_OK);
  tenon_event_release(first);
  tenon_event_release(second);
  tenon_event_release(NULL);
  tenon_stream_release(s);
}

TEST("a stream that waits for an event does not wait for later work") {
  tenon_device_t device = sim_open(0, "check=fail,delay=50");
  tenon_stream_t *a = stream_on(device);
  tenon_stream_t *b = stream_on(device);
  enqueue(a, -1);
  tenon_event_t *e = event_in(a);
  hold(a, 0);
  uint64_t host = tn_waits.host;
  CHECK_STATUS(tenon_stream_wait_event(b, e), TENON_OK);
  enqueue(b, -1);
  CHECK_STATUS(tenon_stream_synchronize(b), TENON_OK);
  CHECK_STATUS(tenon_stream_query(a), TENON_UNAVAILABLE);
  CHECK(tn_waits.host == host);
  finish(a);
  tenon_event_release(e);
  tenon_stream_release(a);
  tenon_stream_release(b);
}

TEST("an event that was never recorded is done, and no stream waits for it") {
  tenon_device_t device = sim_open(0, "check=fail");
  tenon_stream_t *s = stream_on(device);
  tenon_event_t *e = event_on(device, 0);
  uint64_t waits = tn_waits.enqueued;
  CHECK_STATUS(tenon_event_query(e), TENON_OK);
  CHECK_STATUS(tenon_event_synchronize(e), TENON_OK);
  CHECK_STATUS(tenon_stream_wait_event(s, e), TENON_OK);
  CHECK(tn_waits.enqueued == waits);
  tenon_event_release(e);
  tenon_stream_release(s);
}

TEST("an event that is recorded again stands for the new position only") {
  tenon_device_t device = sim_open(0, "check=fail,delay=50");
  tenon_stream_t *a = stream_on(device);
  tenon_stream_t *b = stream_on(device);
  hold(a, 0);
  tenon_event_t *e = event_in(a);
  CHECK_STATUS(tenon_event_query(e), TENON_UNAVAILABLE);
  enqueue(b, -1);
  CHECK_STATUS(tenon_event_record(e, b), TENON_OK);
  CHECK_STATUS(tenon_event_synchronize(e), TENON_OK);
  CHECK_STATUS(tenon_event_query(e), TENON_OK);
  CHECK_STATUS(tenon_stream_query(a), TENON_UNAVAILABLE);
  CHECK_STATUS(tenon_event_record(e, a), TENON_OK);
  CHECK_STATUS(tenon_event_query(e), TENON_UNAVAILABLE);
  finish(a);
  tenon_event_release(e);
  tenon_stream_release(a);
  tenon_stream_release(b);
}

/* waits of streams, as sim's checker sees them */

/* A wait that is left out is a race, which the thread sanitizer would report, too. */
#ifdef HAS_TSAN
enum { SKIPS = 1 };
#else
enum { SKIPS = 2 };
#endif

/* Work that writes to the memory of `w`, of which the host knows no more than the ticket. */
static void write_on(const owner_t *w, tenon_stream_t *s) {
  uint64_t ticket = tn_stream_ticket(s, "test::write");
  float value = 1;
  CHECK_STATUS(w->o->table->fill(&w->o->context, s->native, ticket, (tenon_memory_t){w->memory, 0},
                                 64 * sizeof value, &value, sizeof value),
               TENON_OK);
  tn_stream_ended(s);
}

TEST("work after a wait for an event follows the work before the event, and a wait that is left "
     "out is found") {
  for (uint64_t skips = 0; skips < SKIPS; skips++) {
    owner_t w = owner_of(sim_open(0, "check=count,delay=200"));
    tenon_stream_t *a = stream_on(w.device);
    tenon_stream_t *b = stream_on(w.device);
    uint64_t races = races_on(&w);
    write_on(&w, a);
    tenon_event_t *e = event_in(a);
    tn_waits_skip(skips);
    CHECK_STATUS(tenon_stream_wait_event(b, e), TENON_OK);
    tn_waits_skip(0);
    write_on(&w, b);
    CHECK((races_on(&w) > races) == (skips == 1));
    tenon_event_release(e);
    owner_end(&w);
    tenon_stream_release(a);
    tenon_stream_release(b);
  }
}

TEST("a stream that waits for an event keeps waiting for the old position when the event is "
     "recorded again") {
  owner_t w = owner_of(sim_open(0, "check=count,delay=200"));
  tenon_stream_t *a = stream_on(w.device);
  tenon_stream_t *b = stream_on(w.device);
  tenon_stream_t *c = stream_on(w.device);
  uint64_t races = races_on(&w);
  write_on(&w, a);
  tenon_event_t *e = event_in(a);
  CHECK_STATUS(tenon_stream_wait_event(b, e), TENON_OK);
  enqueue(c, -1);
  CHECK_STATUS(tenon_event_record(e, c), TENON_OK);
  write_on(&w, b);
  CHECK(races_on(&w) == races);
  tenon_stream_t *d = stream_on(w.device);
  CHECK_STATUS(tenon_stream_wait_event(d, e), TENON_OK);
  /* The event stands for work of c, which does not write. */
  if (SKIPS > 1) write_on(&w, d);
  CHECK((races_on(&w) > races) == (SKIPS > 1));
  tenon_event_release(e);
  owner_end(&w);
  tenon_stream_release(a);
  tenon_stream_release(b);
  tenon_stream_release(c);
  tenon_stream_release(d);
}

TEST("an event in an imported stream stands for work that its owner enqueued, too") {
  for (uint64_t skips = 0; skips < SKIPS; skips++) {
    owner_t w = owner_of(sim_open(0, "check=count,delay=3000"));
    tenon_stream_t *s = stream_on(w.device);
    uint64_t races = races_on(&w);
    tenon_event_t *e = event_in(w.stream);
    CHECK_STATUS(tenon_event_synchronize(e), TENON_OK);
    owner_fill(&w, w.native, 0, 4, 5);
    CHECK_STATUS(tenon_event_record(e, w.stream), TENON_OK);
    tn_waits_skip(skips);
    CHECK_STATUS(tenon_stream_wait_event(s, e), TENON_OK);
    tn_waits_skip(0);
    write_on(&w, s);
    CHECK((races_on(&w) > races) == (skips == 1));
    owner_end(&w); /* Returns the stream to its owner, who ends it. */
    CHECK_STATUS(tenon_event_query(e), TENON_OK);
    CHECK_STATUS(tenon_event_synchronize(e), TENON_OK);
    CHECK_STATUS(tenon_stream_wait_event(s, e), TENON_OK);
    tenon_event_release(e);
    tenon_stream_release(s);
  }
}

TEST("waits that an event implies are left out, and so are those that follow from its end") {
  tenon_device_t device = sim_open(0, "check=fail,delay=200");
  /* Other tests wait without need on purpose. */
  const uint64_t implied = sim->implied_waits(&ordinal_of(device)->context, NULL, 0);
  tenon_stream_t *a = stream_on(device);
  tenon_stream_t *b = stream_on(device);
  tenon_tensor_t *x = tensor_there(device, "f32[2] 1 2");
  tenon_tensor_t *y, *z, *sum;
  CHECK_STATUS(tenon_stream_use(device, a, NULL), TENON_OK);
  CHECK_STATUS(call("core::add", x, &y), TENON_OK); /* a waits for the stream of x */
  tenon_event_t *e = event_in(a);
  uint64_t ticket = a->ticket;
  tn_waits_t before = tn_waits;
  CHECK_STATUS(tenon_stream_wait_event(b, e), TENON_OK);
  CHECK_STATUS(tenon_stream_wait_event(b, e), TENON_OK);
  CHECK_STATUS(tenon_stream_wait_event(a, e), TENON_OK);
  CHECK(tn_waits.enqueued == before.enqueued + 1 && tn_waits.implied == before.implied + 2);
  CHECK_STATUS(tenon_stream_use(device, b, NULL), TENON_OK);
  CHECK_STATUS(call("core::add", y, &z), TENON_OK);
  CHECK_STATUS(call("core::add", x, &sum), TENON_OK);
  CHECK(tn_waits.enqueued == before.enqueued + 1 && tn_waits.host == before.host);
  CHECK_STATUS(tenon_event_synchronize(e), TENON_OK);
  CHECK(tn_stream_is_done(a, ticket));
  enqueue(a, -1);
  CHECK(!tn_stream_is_done(a, a->ticket));
  CHECK_STATUS(tenon_stream_use(device, NULL, NULL), TENON_OK);
  check_there(z, "f32[2] 4 8");
  check_there(sum, "f32[2] 2 4");
  CHECK(sim->implied_waits(&ordinal_of(device)->context, NULL, 0) == implied);
  tenon_event_release(e);
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  tenon_tensor_release(z);
  tenon_tensor_release(sum);
  tenon_stream_release(a);
  tenon_stream_release(b);
}

TEST("streams of another ordinal wait without the host, and for another plug-in the host waits for "
     "the event alone") {
  tenon_device_t device = sim_open(0, "check=fail");
  tenon_stream_t *a = stream_on(device);
  tenon_stream_t *peer = stream_on(device_of("sim", 1));
  tenon_stream_t *foreign = stream_on(device_of("null", 0));
  put_table(device);
  table.event_synchronize = open_and_synchronize;
  hold(a, 0);
  tenon_event_t *e = event_in(a);
  hold(a, 1);
  tn_waits_t before = tn_waits;
  CHECK_STATUS(tenon_stream_wait_event(peer, e), TENON_OK);
  CHECK(tn_waits.enqueued == before.enqueued + 1 && tn_waits.host == before.host);
  CHECK_STATUS(tenon_stream_query(peer), TENON_UNAVAILABLE);
  int count = done_now();
  CHECK_STATUS(tenon_stream_wait_event(foreign, e), TENON_OK);
  CHECK(tn_waits.host == before.host + 1 && done_now() == count + 1);
  CHECK_STATUS(tenon_stream_query(a), TENON_UNAVAILABLE);
  finish(a);
  tenon_event_release(e);
  tenon_stream_release(a);
  tenon_stream_release(peer);
  tenon_stream_release(foreign);
  tenon_shutdown();
}

/* devices without events, and without streams */

TEST("on a device without events the host waits for the stream of an event") {
  tenon_device_t device = begin_without(false, true);
  tenon_stream_t *a = stream_on(device);
  tenon_stream_t *b = stream_on(device);
  tenon_event_t *e = event_on(device, 0);
  CHECK_STATUS(tenon_event_query(e), TENON_OK);
  hold(a, 0);
  CHECK_STATUS(tenon_event_record(e, a), TENON_OK);
  CHECK_STATUS(tenon_event_query(e), TENON_UNAVAILABLE);
  uint64_t host = tn_waits.host;
  int count = done_now();
  table.stream_synchronize = open_and_finish;
  CHECK_STATUS(tenon_stream_wait_event(b, e), TENON_OK);
  CHECK(done_now() == count + 1 && tn_waits.host == host + 1);
  CHECK_STATUS(tenon_event_query(e), TENON_OK);
  hold(a, 0);
  /* The host has seen the end of the work, so later work does not matter. */
  CHECK_STATUS(tenon_event_query(e), TENON_OK);
  CHECK_STATUS(tenon_stream_wait_event(b, e), TENON_OK);
  CHECK(tn_waits.host == host + 1);
  CHECK_STATUS(tenon_event_record(e, a), TENON_OK);
  CHECK_STATUS(tenon_event_query(e), TENON_UNAVAILABLE);
  CHECK_STATUS(tenon_event_synchronize(e), TENON_OK);
  CHECK(done_now() == count + 2);
  tenon_event_release(e);
  tenon_stream_release(a);
  tenon_stream_release(b);
}

TEST("on a device without events an event in an imported stream stands for work of its owner") {
  owner_t w = owner_of(begin_without(false, true));
  hold(&(tenon_stream_t){.ordinal = w.o, .native = w.native}, 0); /* the host knows no ticket */
  tenon_event_t *e = event_in(w.stream);
  CHECK_STATUS(tenon_event_query(e), TENON_UNAVAILABLE);
  int count = done_now();
  set_gate(0, true);
  CHECK_STATUS(tenon_event_synchronize(e), TENON_OK);
  CHECK(done_now() == count + 1);
  CHECK_STATUS(tenon_event_record(e, w.stream), TENON_OK);
  owner_end(&w); /* The stream was waited for when it was returned. */
  CHECK_STATUS(tenon_event_query(e), TENON_OK);
  CHECK_STATUS(tenon_event_synchronize(e), TENON_OK);
  tenon_event_release(e);
}

TEST("on a device without events, the failure of a stream is the failure of its events") {
  tenon_device_t device = begin_without(false, true);
  tenon_stream_t *a = stream_on(device);
  tenon_stream_t *b = stream_on(device);
  sim_set(device, "fault=1");
  enqueue(a, -1);
  tenon_event_t *e = event_in(a);
  CHECK_STATUS(tenon_stream_wait_event(b, e), TENON_INTERNAL);
  CHECK_TEXT(tenon_error(), "test::gate failed on sim:0");
  CHECK_STATUS(tenon_event_query(e), TENON_INTERNAL);
  CHECK_TEXT(tenon_error(), "test::gate failed on sim:0");
  CHECK_STATUS(tenon_event_synchronize(e), TENON_INTERNAL);
  CHECK_STATUS(tenon_event_record(e, a), TENON_INTERNAL);
  CHECK_STATUS(tenon_stream_query(b), TENON_OK);
  tenon_event_release(e);
  tenon_stream_release(a);
  tenon_stream_release(b);
  tenon_shutdown();
}

/* A device without streams, which is host memory. */

static tenon_status_t one_ordinal(tenon_device_context_t *context, int32_t *out_count) {
  (void)context;
  *out_count = 1;
  return TENON_OK;
}
static tenon_status_t plain_start(tenon_device_context_t *context) {
  (void)context;
  return TENON_OK;
}
static void plain_stop(tenon_device_context_t *context) { (void)context; }
static tenon_status_t plain_properties(tenon_on_t on, tenon_device_properties_t *out) {
  (void)on;
  out->features = TENON_DEVICE_ADDRESSES;
  out->memory = 1 << 20;
  out->alignment = 64;
  return TENON_OK;
}
static tenon_status_t plain_allocate(tenon_on_t on, uint64_t bytes, void **out_handle) {
  *out_handle = aligned_alloc(64, (bytes + 63) / 64 * 64);
  return *out_handle ? TENON_OK : tenon_fail(on, TENON_MEMORY, "no memory");
}
static void plain_free(tenon_on_t on, void *handle) {
  (void)on;
  free(handle);
}
static tenon_status_t plain_copy(tenon_on_t on, void *stream, const tenon_copy_t *copy) {
  (void)on;
  (void)stream;
  memmove((char *)copy->to.handle + copy->to.offset, (char *)copy->from.handle + copy->from.offset,
          copy->bytes);
  return TENON_OK;
}
static tenon_status_t plain_synchronize(tenon_on_t on) {
  (void)on;
  return TENON_OK;
}

TEST("on a device without streams every event is done, and has the time of the host") {
  static const tenon_device_table_t plain = {.size = sizeof plain,
                                             .abi = TENON_DEVICE_ABI,
                                             .name = "plain",
                                             .type = 12,
                                             .enumerate = one_ordinal,
                                             .start = plain_start,
                                             .stop = plain_stop,
                                             .properties = plain_properties,
                                             .allocate = plain_allocate,
                                             .free = plain_free,
                                             .copy = plain_copy,
                                             .synchronize = plain_synchronize};
  static const tenon_item_t items[] = {TENON_DEVICE(&plain), {TENON_TAG_END, 0, 0, NULL, NULL}};
  static const tenon_descriptor_t library = {sizeof library, TENON_ABI, TENON_LAYOUT, 0,
                                             "plain",        "1.0.0",   items};
  CHECK_STATUS(tenon_library_add(&library, NULL, NULL, NULL), TENON_OK);
  tenon_device_t device = device_of("plain", 0);
  tenon_stream_t *s = stream_on(device);
  tenon_event_t *begin = event_on(device, TENON_EVENT_TIMED);
  tenon_event_t *end = event_on(device, TENON_EVENT_TIMED);
  int64_t elapsed = -1;
  int64_t before = tn_now();
  CHECK_STATUS(tenon_event_record(begin, s), TENON_OK);
  int64_t first = tn_now();
  tenon_tensor_t *x = tensor_there(device, "f32[3] 1 2 3");
  int64_t last = tn_now();
  CHECK_STATUS(tenon_event_record(end, s), TENON_OK);
  int64_t after = tn_now();
  CHECK_STATUS(tenon_event_query(end), TENON_OK);
  CHECK_STATUS(tenon_event_synchronize(end), TENON_OK);
  CHECK_STATUS(tenon_stream_wait_event(s, end), TENON_OK);
  CHECK_STATUS(tenon_event_elapsed(begin, end, &elapsed), TENON_OK);
  CHECK(elapsed >= last - first && elapsed <= after - before);
  tenon_stream_t *other = stream_on(sim_open(0, "check=fail"));
  uint64_t host = tn_waits.host;
  CHECK_STATUS(tenon_stream_wait_event(other, end), TENON_OK);
  CHECK(tn_waits.host == host);
  hold(other, 0);
  tenon_event_t *e = event_in(other);
  put_table(other->ordinal->context.device);
  table.event_synchronize = open_and_synchronize;
  int count = done_now();
  CHECK_STATUS(tenon_stream_wait_event(s, e), TENON_OK); /* The host waits. */
  CHECK(tn_waits.host == host + 1 && done_now() == count + 1);
  tenon_tensor_release(x);
  tenon_event_release(begin);
  tenon_event_release(end);
  tenon_event_release(e);
  tenon_stream_release(s);
  tenon_stream_release(other);
  tenon_shutdown();
}

/* times */

TEST("the time between two events is that of the work between them") {
  tenon_device_t device = sim_open(0, "check=fail");
  tenon_stream_t *s = stream_on(device);
  tenon_event_t *begin = event_on(device, TENON_EVENT_TIMED);
  tenon_event_t *end = event_on(device, TENON_EVENT_TIMED);
  int64_t elapsed = -1;
  hold(s, 0);
  CHECK_STATUS(tenon_event_record(begin, s), TENON_OK);
  hold(s, 1);
  CHECK_STATUS(tenon_event_record(end, s), TENON_OK);
  CHECK_STATUS(tenon_event_elapsed(begin, end, &elapsed), TENON_UNAVAILABLE);
  CHECK_TEXT(tenon_error(), "the event `begin` is not done yet");
  int64_t before = tn_now();
  set_gate(0, true);
  CHECK_STATUS(tenon_event_synchronize(begin), TENON_OK);
  int64_t first = tn_now();
  CHECK_STATUS(tenon_event_elapsed(begin, end, &elapsed), TENON_UNAVAILABLE);
  CHECK_TEXT(tenon_error(), "the event `end` is not done yet");
  int64_t last = tn_now();
  set_gate(1, true);
  CHECK_STATUS(tenon_event_synchronize(end), TENON_OK);
  int64_t after = tn_now();
  CHECK_STATUS(tenon_event_elapsed(begin, end, &elapsed), TENON_OK);
  CHECK(elapsed >= last - first && elapsed <= after - before);
  int64_t back = 0;
  CHECK_STATUS(tenon_event_elapsed(end, begin, &back), TENON_OK);
  CHECK(back == -elapsed);
  /* The host knows no ticket of this work, but the event has no time before it. */
  tenon_stream_t foreign = {.ordinal = s->ordinal, .native = s->native};
  hold(&foreign, 0);
  CHECK_STATUS(tenon_event_record(end, s), TENON_OK);
  CHECK_STATUS(tenon_event_query(end), TENON_UNAVAILABLE);
  CHECK_STATUS(tenon_event_elapsed(begin, end, &elapsed), TENON_UNAVAILABLE);
  set_gate(0, true);
  CHECK_STATUS(tenon_event_synchronize(end), TENON_OK);
  CHECK_STATUS(tenon_event_elapsed(begin, end, &elapsed), TENON_OK);
  tenon_event_release(begin);
  tenon_event_release(end);
  tenon_stream_release(s);
}

TEST("times need events with times, which were recorded, of one device") {
  tenon_device_t device = sim_open(0, "check=fail");
  tenon_stream_t *s = stream_on(device);
  tenon_event_t *timed = event_on(device, TENON_EVENT_TIMED);
  tenon_event_t *plain = event_in(s);
  tenon_event_t *peer = event_on(device_of("sim", 1), TENON_EVENT_TIMED);
  tenon_event_t *none = NULL;
  int64_t elapsed;
  CHECK_STATUS(tenon_event_elapsed(timed, timed, &elapsed), TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(), "the event `begin` was never recorded");
  CHECK_STATUS(tenon_event_record(timed, s), TENON_OK);
  CHECK_STATUS(tenon_event_synchronize(timed), TENON_OK);
  CHECK_STATUS(tenon_event_elapsed(timed, plain, &elapsed), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "the event `end` has no time: create it with TENON_EVENT_TIMED");
  CHECK_STATUS(tenon_event_elapsed(timed, peer, &elapsed), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "the event `begin` is of device sim:0 and `end` of sim:1");
  CHECK_STATUS(tenon_event_create(device_of("null", 1), TENON_EVENT_TIMED, &none),
               TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(), "events of device null:1 have no times");
  CHECK_STATUS(tenon_event_create(device, 6, &none), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "flags 0x6 of an event: expected 0 or TENON_EVENT_TIMED");
  CHECK_STATUS(tenon_event_create((tenon_device_t){1, 0}, 0, &none), TENON_NOT_FOUND);
  CHECK(!none);
  tenon_event_release(timed);
  tenon_event_release(plain);
  tenon_event_release(peer);
  tenon_stream_release(s);
  CHECK_STATUS(tenon_event_create(begin_without(false, true), TENON_EVENT_TIMED, &none),
               TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(), "events of device sim:0 have no times");
  tenon_shutdown();
}

/* failures */

TEST("an event fails if work before it failed, and names the operator; earlier events do not") {
  tenon_device_t device = sim_open(0, "check=fail");
  tenon_stream_t *a = stream_on(device);
  tenon_stream_t *b = stream_on(device);
  tenon_tensor_t *x = tensor_there(device, "f32[2] 1 2");
  tenon_tensor_t *y = NULL;
  int64_t elapsed;
  hold(a, 0);
  tenon_event_t *early = event_in(a);
  tenon_event_t *late = event_on(device, TENON_EVENT_TIMED);
  sim_set(device, "fault=1");
  CHECK_STATUS(tenon_stream_use(device, a, NULL), TENON_OK);
  CHECK_STATUS(call("core::mul", x, &y), TENON_OK);
  CHECK_STATUS(tenon_stream_use(device, NULL, NULL), TENON_OK);
  CHECK_STATUS(tenon_event_record(late, a), TENON_OK); /* The failure is not known yet. */
  set_gate(0, true);
  CHECK_STATUS(tenon_event_synchronize(late), TENON_INTERNAL);
  CHECK_TEXT(tenon_error(), "core::mul failed on sim:0 (work ");
  CHECK_STATUS(tenon_event_query(late), TENON_INTERNAL);
  CHECK_TEXT(tenon_error(), "core::mul failed on sim:0 (work ");
  CHECK_STATUS(tenon_event_elapsed(late, late, &elapsed), TENON_INTERNAL);
  CHECK_TEXT(tenon_error(), "core::mul failed on sim:0 (work ");
  CHECK_STATUS(tenon_stream_wait_event(b, late), TENON_INTERNAL);
  CHECK_TEXT(tenon_error(), "core::mul failed on sim:0 (work ");
  CHECK_STATUS(tenon_event_query(early), TENON_OK);
  CHECK_STATUS(tenon_event_synchronize(early), TENON_OK);
  CHECK_STATUS(tenon_stream_wait_event(b, early), TENON_OK);
  CHECK_STATUS(tenon_event_record(early, a), TENON_INTERNAL);
  CHECK_TEXT(tenon_error(), "core::mul failed on sim:0 (work ");
  CHECK_STATUS(tenon_event_query(early), TENON_OK); /* It keeps its position. */
  CHECK_STATUS(tenon_stream_wait_event(a, early), TENON_INTERNAL);
  CHECK_STATUS(tenon_stream_synchronize(b), TENON_OK); /* b did not wait for the failure. */
  tenon_event_release(early);
  tenon_event_release(late);
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  tenon_stream_release(a);
  tenon_stream_release(b);
}

TEST("a failure that is not known yet reaches the streams that wait for the event") {
  tenon_device_t device = sim_open(0, "check=fail");
  tenon_stream_t *a = stream_on(device);
  tenon_stream_t *b = stream_on(device);
  hold(b, 1); /* so that the ring of b has the same tickets */
  hold(a, 0);
  sim_set(device, "fault=1");
  uint64_t ticket = tn_stream_ticket(a, "test::bad");
  float value = 1;
  owner_t w = owner_of(device);
  CHECK_STATUS(w.o->table->fill(&w.o->context, a->native, ticket, (tenon_memory_t){w.memory, 0},
                                sizeof value, &value, sizeof value),
               TENON_OK);
  tn_stream_ended(a);
  tenon_event_t *e = event_in(a);
  CHECK_STATUS(tenon_stream_wait_event(b, e), TENON_OK);
  for (int i = 0; i < 4; i++)
    enqueue(b, -1);
  set_gate(0, true);
  set_gate(1, true);
  CHECK_STATUS(tenon_stream_synchronize(b), TENON_INTERNAL);
  CHECK_TEXT(tenon_error(), "test::bad failed on sim:0 (work ");
  tenon_event_release(e);
  owner_end(&w);
  tenon_stream_release(a);
  tenon_stream_release(b);
}

TEST("an event of a stream that nobody else holds keeps the stream, and names the operator later") {
  tenon_device_t device = sim_open(0, "check=fail");
  tenon_stream_t *a = stream_on(device);
  tenon_event_t *e = event_in(a);
  tenon_stream_release(a);
  tenon_stream_t *other = stream_on(device);
  CHECK(other != a);
  CHECK_STATUS(tenon_event_record(e, other), TENON_OK);
  tenon_stream_t *again = stream_on(device);
  CHECK(again == a); /* The event has gone to another stream. */
  sim_set(device, "fault=1");
  enqueue(other, -1);
  /* The failure may be known already. */
  (void)tenon_event_record(e, other);
  tenon_stream_release(other);
  (void)tenon_stream_synchronize(other);
  CHECK(stream_on(device) != other);
  CHECK_STATUS(tenon_event_record(e, other), TENON_INTERNAL);
  CHECK_TEXT(tenon_error(), "test::gate failed on sim:0");
  tenon_event_release(e);
  tenon_shutdown();
}

TEST(
    "without memory, and when the device refuses, an event is not created, or keeps its position") {
  tenon_device_t device = sim_open(0, "check=fail");
  tenon_stream_t *s = stream_on(device);
  tenon_event_t *e = NULL;
  sim_set(device, "fail=event_create:1");
  CHECK_STATUS(tenon_event_create(device, 0, &e), TENON_UNAVAILABLE);
  CHECK_TEXT(tenon_error(), "event_create");
  fault_memory(1, false);
  CHECK_STATUS(tenon_event_create(device, 0, &e), TENON_MEMORY);
  fault_end();
  CHECK(!e);
  hold(s, 0);
  e = event_in(s);
  put_table(device);
  table.event_record = refuse_record;
  tenon_stream_t *other = stream_on(device);
  CHECK_STATUS(tenon_event_record(e, other), TENON_MEMORY);
  CHECK_TEXT(tenon_error(), "no memory for a mark");
  CHECK_STATUS(tenon_event_query(e), TENON_UNAVAILABLE);
  uint64_t waits = tn_waits.enqueued;
  CHECK_STATUS(tenon_stream_wait_event(other, e), TENON_OK);
  CHECK(tn_waits.enqueued == waits + 1);
  finish(s);
  CHECK(other->references == 1);
  tenon_event_release(e);
  tenon_stream_release(s);
  tenon_stream_release(other);
  tenon_shutdown();
}

TEST("an event is recorded only in streams of its own device") {
  tenon_device_t device = sim_open(0, "check=fail");
  tenon_stream_t *peer = stream_on(sim_open(1, ""));
  tenon_event_t *e = event_on(device, 0);
  CHECK_STATUS(tenon_event_record(e, peer), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "an event of device sim:0 was to be recorded in a stream of sim:1");
  tenon_event_release(e);
  tenon_stream_release(peer);
}

static void count_release(void *context) { ++*(int *)context; }

TEST("host memory of a copy is given back when an event after the copy is seen to be done") {
  tenon_device_t device = sim_open(0, "check=fail");
  float data[4] = {1, 2, 3, 4};
  int64_t shape[1] = {4};
  for (int waits = 0; waits < 2; waits++) {
    tenon_stream_t *s = stream_on(device);
    tenon_tensor_t *x = tensor_there(device, "f32[4] 0 0 0 0");
    tenon_tensor_t *host = NULL;
    int released = 0;
    CHECK_STATUS(tenon_tensor_borrow(data, tenon_dtype(TENON_F32), 1, shape, NULL, count_release,
                                     &released, &host),
                 TENON_OK);
    hold(s, 0);
    CHECK_STATUS(tenon_stream_use(device, s, NULL), TENON_OK);
    CHECK_STATUS(tenon_tensor_copy_async(host, x), TENON_OK);
    CHECK_STATUS(tenon_stream_use(device, NULL, NULL), TENON_OK);
    tenon_event_t *e = event_in(s);
    hold(s, 1);
    tenon_tensor_release(host);
    CHECK_STATUS(tenon_event_query(e), TENON_UNAVAILABLE);
    CHECK(released == 0);
    set_gate(0, true);
    if (waits) CHECK_STATUS(tenon_event_synchronize(e), TENON_OK);
    while (!waits && tenon_event_query(e) == TENON_UNAVAILABLE)
      tn_thread_yield();
    CHECK(released == 1);
    finish(s);
    check_there(x, "f32[4] 1 2 3 4");
    tenon_event_release(e);
    tenon_tensor_release(x);
    tenon_stream_release(s);
  }
}

/* captured streams */

TEST("a stream that is being captured records no event, and waits only for what is done") {
  tenon_device_t device = sim_open(0, "check=fail");
  tenon_stream_t *captured = stream_on(device);
  tenon_stream_t *s = stream_on(device);
  tenon_event_t *finished = event_in(captured);
  hold(s, 0);
  tenon_event_t *pending = event_in(s);
  void *recording = NULL;
  CHECK_STATUS(tn_stream_capture(captured), TENON_OK);
  CHECK_STATUS(tenon_event_record(finished, captured), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(), "the program records an event, which cannot be captured");
  CHECK_STATUS(tenon_stream_wait_event(captured, pending), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(), "work waits for another stream, which cannot be captured");
  CHECK_STATUS(tenon_stream_wait_event(captured, finished), TENON_OK);
  CHECK_STATUS(tenon_event_query(finished), TENON_OK);
  finish(s);
  CHECK_STATUS(tenon_event_synchronize(pending), TENON_OK);
  CHECK_STATUS(tenon_stream_wait_event(captured, pending), TENON_OK);
  CHECK_STATUS(tn_stream_capture_end(captured, &recording), TENON_OK);
  ordinal_of(device)->table->recording_free(&ordinal_of(device)->context, recording);
  tenon_event_release(finished);
  tenon_event_release(pending);
  tenon_stream_release(captured);
  tenon_stream_release(s);
}

/* threads */

enum {
  THREADS = 4,
  ROUNDS = 300,
};
static pthread_barrier_t start;
static tenon_stream_t *shared_streams[2];
static tenon_event_t *shared_event;
static uint32_t shared_flags;

static void *use_event(void *argument) {
  const size_t number = (size_t)(uintptr_t)argument;
  tenon_stream_t *s = shared_streams[number % 2];
  pthread_barrier_wait(&start);
  for (int i = 0; i < ROUNDS; i++) {
    tenon_event_t *mine = event_on(s->ordinal->context.device, shared_flags);
    int64_t elapsed = 0;
    enqueue(s, -1);
    CHECK_STATUS(tenon_event_record(shared_event, s), TENON_OK);
    CHECK_STATUS(tenon_stream_wait_event(shared_streams[(number + 1) % 2], shared_event), TENON_OK);
    tenon_status_t status = tenon_event_query(shared_event);
    CHECK(status == TENON_OK || status == TENON_UNAVAILABLE);
    if (i % 8 == 0) CHECK_STATUS(tenon_event_synchronize(shared_event), TENON_OK);
    CHECK_STATUS(tenon_event_record(mine, s), TENON_OK);
    if (shared_flags) status = tenon_event_elapsed(mine, shared_event, &elapsed);
    CHECK(status == TENON_OK || status == TENON_UNAVAILABLE);
    tenon_event_release(mine);
  }
  return NULL;
}

TEST("several threads record one event, query it and wait for it at the same time") {
  for (int has_events = 1; has_events >= 0; has_events--) {
    tenon_device_t device =
        has_events ? sim_open(0, "check=fail,delay=0") : begin_without(false, true);
    pthread_t threads[THREADS];
    shared_flags = has_events ? TENON_EVENT_TIMED : 0;
    shared_event = event_on(device, shared_flags);
    for (int i = 0; i < 2; i++)
      shared_streams[i] = stream_on(device);
    CHECK(pthread_barrier_init(&start, NULL, THREADS) == 0);
    for (size_t i = 0; i < THREADS; i++)
      CHECK(pthread_create(&threads[i], NULL, use_event, (void *)(uintptr_t)i) == 0);
    for (int i = 0; i < THREADS; i++)
      CHECK(pthread_join(threads[i], NULL) == 0);
    pthread_barrier_destroy(&start);
    tenon_event_release(shared_event);
    for (int i = 0; i < 2; i++)
      tenon_stream_release(shared_streams[i]);
  }
  tenon_shutdown();
}

/* devices that have stopped */

static tenon_event_t *kept;
static tenon_stream_t *kept_stream;

static void check_useless(tenon_event_t *e, tenon_stream_t *s, const char *why) {
  int64_t elapsed;
  CHECK_STATUS(tenon_event_query(e), TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(), why);
  CHECK_STATUS(tenon_event_synchronize(e), TENON_PRECONDITION);
  CHECK_STATUS(tenon_event_record(e, s), TENON_PRECONDITION);
  CHECK_STATUS(tenon_stream_wait_event(s, e), TENON_PRECONDITION);
  CHECK_STATUS(tenon_event_elapsed(e, e, &elapsed), TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(), why);
}

TEST("an event of a device that has stopped can only be released, also when the device is back") {
  tenon_device_t device = sim_open(0, "check=fail");
  tenon_event_t *events[3];
  tenon_stream_t *s = stream_on(device);
  put_table(device);
  table.event_destroy = count_destroy;
  destroyed = 0;
  for (int i = 0; i < 3; i++)
    events[i] = event_in(s);
  tenon_event_release(events[1]);
  CHECK(destroyed == 1);
  tenon_shutdown();
  CHECK(destroyed == 3);
  s = stream_on(sim_open(0, "check=fail"));
  check_useless(events[0], s, "the device of an event has stopped: release the event");
  tenon_event_release(events[2]);
  tenon_shutdown();
  tenon_event_release(events[0]);
}

static void uses_event(void) {
  alarm(SECONDS);
  CHECK_STATUS(tenon_event_query(kept), TENON_OK);
  enqueue(kept_stream, -1);
  CHECK_STATUS(tenon_event_record(kept, kept_stream), TENON_OK);
  CHECK_STATUS(tenon_event_synchronize(kept), TENON_OK);
  tenon_event_release(kept);
}

static void is_lost(void) {
  check_useless(kept, kept_stream, "it is lost after a fork");
  tenon_event_release(kept);
}

static void is_released(void) { tenon_event_release(kept); }

TEST("in a child of fork an event works if its device does; otherwise it can only be released") {
#ifdef IS_INSTRUMENTED
  SKIP("sanitizers do not follow a process with threads into a child");
#endif
  for (int forks = 1; forks >= 0; forks--) {
    kept_stream = stream_on(begin_without(true, forks));
    kept = event_in(kept_stream);
    CHECK_STATUS(tenon_event_synchronize(kept), TENON_OK);
    CHECK(in_child(forks ? uses_event : is_lost));
    CHECK(in_child(is_released));
    CHECK_STATUS(tenon_event_query(kept), TENON_OK);
    tenon_event_release(kept);
    tenon_stream_release(kept_stream);
  }
}

TEST("nothing is left behind") { tenon_shutdown(); }
