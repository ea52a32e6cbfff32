/* External memory and streams of other frameworks. They become tensors without a copy, in order
 * with the owner's work, without a wait of the host, and are returned in the same way. Also DLPack,
 * in both forms and both directions, and streams that end and whose handles are used again. */
#include <dlfcn.h>

#include "base/memory.h"
#include "check.h"
#include "core/dlpack.h"
#include "core/tensor.h"
#include "device/plugin.h"
#include "device/stream.h"
#include "sanitizer.h"
#include "tensors.h"

#include "operators.h"
#include "there.h"

#include "faults.h"
#include "owner.h"

static tenon_status_t add(tenon_tensor_t *a, tenon_tensor_t *b, tenon_tensor_t **out) {
  *out = NULL;
  return tenon_op_call(op_of("core::add"), NULL, (tenon_tensor_t *[]){a, b}, out, 0);
}

static void add_into(tenon_tensor_t *a, tenon_tensor_t *out) {
  CHECK_STATUS(tenon_op_call_into(op_of("core::add"), NULL, (tenon_tensor_t *[]){a, a}, &out),
               TENON_OK);
}

static const int64_t four = 4;

static tenon_device_t sim_anew(int handles, const char *settings) {
  tenon_shutdown();
  setenv("TENON_SIM", handles ? "handles=1" : "", 1);
  return sim_open(0, settings);
}

#ifdef HAS_TSAN
/* Without a wait there is a race, which the thread sanitizer reports too. */
enum { WAYS = 1 };
#else
enum { WAYS = 2 };
#endif

/* Runs with both kinds of sim, first unchanged and then with the n-th wait left out: then, and only
 * then, there must be a race. */
#define EACH_WAY(handles, skip)                                                                    \
  for (int handles = 0; handles < 2; handles++)                                                    \
    for (uint64_t skip = 0; skip < WAYS; skip++)

static void check_races(const owner_t *w, uint64_t before, uint64_t skip, const char *what) {
  if (!skip)
    no_race(w, before);
  else
    check_report(races_on(w) > before, __FILE__, __LINE__, "the wait that was left out is a race",
                 what);
}

/* tensors */

TEST("an external pointer becomes a tensor without a copy; streams order our work and its owner's "
     "both ways, and no host waits") {
  EACH_WAY(handles, skip) {
    owner_t w = owner_of(sim_anew(handles, "check=count,delay=3000"));
    tenon_external_t e = owner_numbers(&w, 16, &four, w.stream);
    tenon_tensor_t *x = NULL;
    tenon_tensor_t *y = NULL;
    owner_fill(&w, w.native, 0, 64, 3);
    uint64_t copies = copies_of(&w);
    uint64_t host = tn_waits.host;
    uint64_t enqueued = tn_waits.enqueued;
    uint64_t before = races_on(&w);
    if (!CHECK_STATUS(tenon_tensor_import(&e, &x), TENON_OK)) return;
    CHECK(x->data == (handles ? w.memory : (char *)w.memory + 16) &&
          x->byte_offset == (handles ? 16 : 0));
    tn_waits_skip(skip);
    CHECK_STATUS(add(x, x, &y), TENON_OK); /* This runs on the thread's stream. */
    tn_waits_skip(0);
    CHECK(copies_of(&w) == copies && tn_waits.host == host && tn_waits.enqueued == enqueued + 1);
    check_races(&w, before, skip, "read");
    if (!skip) check_there(y, "f32[4] 6 6 6 6");
    CHECK_STATUS(tenon_device_synchronize(w.device), TENON_OK);
    before = races_on(&w);
    add_into(y, x); /* This writes to the owner's memory. */
    tn_waits_skip(skip);
    CHECK(w.told == 0);
    tenon_tensor_release(x);
    tn_waits_skip(0);
    /* The owner is told at once, since its stream waits for ours. */
    CHECK(w.told == 1 && tn_waits.host == host);
    owner_fill(&w, w.native, 0, 64, 4);
    check_races(&w, before, skip, "given back");
    tenon_tensor_release(y);
    CHECK_STATUS(tenon_device_synchronize(w.device), TENON_OK);
    CHECK(stats_of(w.device).live == 0);
    owner_end(&w);
  }
}

TEST("external memory can have views, strides in both directions, and no elements") {
  for (int handles = 0; handles < 2; handles++) {
    owner_t w = owner_of(sim_anew(handles, "check=fail,delay=300"));
    int64_t shape[2] = {2, 2};
    int64_t strides[2] = {-2, 1};
    int64_t none[2] = {0, 2};
    tenon_tensor_t *x = NULL;
    tenon_tensor_t *y = NULL;
    tenon_tensor_t *other = tensor_there(w.device, "f32[2,2] 1 2 3 4");
    tenon_tensor_t *part = NULL;
    for (uint64_t i = 0; i < 4; i++)
      owner_fill(&w, w.native, 64 + 4 * i, 1, (float)i);
    tenon_external_t e = owner_numbers(&w, 72, shape, w.stream);
    e.ndim = 2;
    e.strides = strides;
    CHECK_STATUS(tenon_tensor_import(&e, &x), TENON_OK);
    CHECK_STATUS(add(x, other, &y), TENON_OK);
    check_there(y, "f32[2,2] 3 5 3 5");
    tenon_attrs_t *attrs = attrs_of(op_of("core::as_strided"), "shape=[2]; strides=[1]; offset=0");
    CHECK_STATUS(tenon_op_call(op_of("core::as_strided"), attr_values(attrs), &x, &part, 0),
                 TENON_OK);
    tenon_attrs_release(attrs);
    tenon_tensor_release(x);
    tenon_tensor_release(y);
    CHECK(w.told == 0); /* The view still holds the memory. */
    tenon_tensor_release(part);
    CHECK(w.told == 1);
    e.shape = none;
    e.data = NULL;
    CHECK_STATUS(tenon_tensor_import(&e, &x), TENON_OK);
    CHECK(x->shape[0] == 0 && w.told == 2); /* An empty tensor uses no memory. */
    tenon_tensor_release(x);
    tenon_tensor_release(other);
    owner_end(&w);
    CHECK(stats_of(w.device).live == 0);
  }
}

TEST("without a stream the owner is told once the host has seen all work done, at the latest when "
     "the device stops") {
  owner_t w = owner_of(sim_anew(0, "check=fail,delay=0"));
  tenon_external_t e = owner_numbers(&w, 0, &four, NULL);
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *y = NULL;
  owner_fill(&w, w.native, 0, 4, 1);
  /* This also waits for the work that the owner enqueued. */
  CHECK_STATUS(tenon_stream_synchronize(w.stream), TENON_OK);
  sim_set(w.device, "delay=30000,seed=7");
  for (int i = 0; i < 2; i++) {
    CHECK_STATUS(tenon_tensor_import(&e, &x), TENON_OK);
    for (int k = 0; k < 4; k++) {
      CHECK_STATUS(add(x, x, &y), TENON_OK);
      tenon_tensor_release(y);
    }
    tenon_tensor_release(x);
    CHECK(w.told == i);
    if (i == 0)
      CHECK_STATUS(tenon_device_synchronize(w.device), TENON_OK);
    else {
      w.o->table->stream_destroy(&w.o->context, w.native);
      tenon_shutdown();
    }
    CHECK(w.told == i + 1);
  }
}

TEST("a tensor that outlives its device still tells its owner") {
  owner_t w = owner_of(sim_anew(0, "check=fail,delay=0"));
  tenon_external_t e = owner_numbers(&w, 0, &four, w.stream);
  tenon_tensor_t *x = NULL;
  CHECK_STATUS(tenon_tensor_import(&e, &x), TENON_OK);
  tenon_shutdown();
  CHECK(w.told == 0);
  tenon_tensor_release(x);
  CHECK(w.told == 1);
}

TEST("failed work on external memory is blamed on its operator, and the owner is told once nothing "
     "runs") {
  owner_t w = owner_of(sim_anew(0, "check=fail,delay=1000"));
  tenon_external_t e = owner_numbers(&w, 0, &four, w.stream);
  tenon_stream_t *bad;
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *y = NULL;
  tenon_tensor_t *host = NULL;
  owner_fill(&w, w.native, 0, 4, 1);
  CHECK_STATUS(tenon_stream_create(w.device, &bad), TENON_OK);
  CHECK_STATUS(tenon_stream_use(w.device, bad, NULL), TENON_OK);
  CHECK_STATUS(tenon_tensor_import(&e, &x), TENON_OK);
  sim_set(w.device, "fault=1");
  CHECK_STATUS(tenon_op_call(op_of("core::mul"), NULL, (tenon_tensor_t *[]){x, x}, &y, 0),
               TENON_OK);
  CHECK(tenon_tensor_copy_to(y, (tenon_device_t){1, 0}, &host) != TENON_OK);
  CHECK_TEXT(tenon_error(), "core::mul failed on sim:0");
  CHECK(tenon_tensor_copy_to(x, (tenon_device_t){1, 0}, &host) !=
        TENON_OK); /* The stream stays failed. */
  CHECK_STATUS(tenon_stream_use(w.device, NULL, NULL), TENON_OK);
  tenon_tensor_release(x);
  CHECK(w.told == 1);
  /* Releasing the tensor does not replace the message. */
  CHECK_TEXT(tenon_error(), "core::mul failed on sim:0");
  /* The owner's stream still works. */
  CHECK_STATUS(tenon_stream_synchronize(w.stream), TENON_OK);
  tenon_tensor_release(y);
  tenon_stream_release(bad);
  owner_end(&w);
}

TEST("external memory that cannot be a tensor is refused with the reason, and stays its owner's") {
  for (int handles = 0; handles < 2; handles++) {
    owner_t w = owner_of(sim_anew(handles, "check=fail,delay=0"));
    owner_t other = owner_of(sim_open(1, ""));
    int64_t shape[2] = {4, 4};
    int64_t up[2] = {-4, 1};
    int64_t far[2] = {INT64_MAX / 2, 1};
    int64_t many = OWNER_BYTES;
    const tenon_external_t good = owner_numbers(&w, 0, shape, w.stream);
    tenon_external_t bad[10];
    const char *texts[10] = {
        "belongs to no backend",
        "the stream of others' memory is of device sim:1, and the memory of sim:0",
        handles ? "its first element is at offset 2: expected a multiple of 4"
                : ": expected a multiple of 4",
        handles ? "reach 48 bytes before the memory's begin" : "not memory of sim",
        "shape and strides address more memory than 62 bits can describe",
        "expected numbers",
        "of ordinal 1",
        "which has 4096 bytes",
        "is NULL, and its tensor has elements",
        "extents must not be negative"};
    for (int i = 0; i < 10; i++) {
      bad[i] = good;
      bad[i].ndim = 2;
    }
    bad[0].device = (tenon_device_t){2, 0};
    bad[1].stream = other.stream;
    bad[2].byte_offset = 2;
    bad[3].strides = up;
    bad[4].strides = far;
    bad[5].dtype = tenon_dtype(TENON_STRING);
    bad[6].data = other.memory;
    bad[6].stream = NULL;
    bad[7].ndim = 1;
    bad[7].shape = &many;
    bad[8].data = NULL;
    bad[9].shape = up;
    for (int i = 0; i < 10; i++) {
      tenon_tensor_t *x = NULL;
      CHECK(tenon_tensor_import(&bad[i], &x) != TENON_OK && !x);
      CHECK_TEXT(tenon_error(), texts[i]);
    }
    static const uint32_t stores[] = {TENON_I32, 0}; /* a device with fewer dtypes than sim */
    tenon_tensor_t *x = NULL;
    int64_t n = 1;
    w.o->properties.stores = stores;
    CHECK_STATUS(tenon_tensor_import(&good, &x), TENON_UNIMPLEMENTED);
    CHECK_TEXT(tenon_error(), "device sim:0 does not store f32");
    w.o->properties.stores = NULL;
    /* Every failed allocation must be a clean error. */
    for (bool failed = true; failed && n < 50; n++) {
      fault_memory(n, false);
      failed = tenon_tensor_import(&good, &x) != TENON_OK;
      fault_end();
      if (failed) CHECK(w.told == 0 && stats_of(w.device).live == 0);
    }
    CHECK(n > 3);
    tenon_tensor_release(x);
    CHECK(w.told == 1 && other.told == 0);
    owner_end(&w);
    owner_end(&other);
  }
}

TEST("no call of any kind writes to read-only memory") {
  owner_t w = owner_of(sim_anew(0, "check=fail,delay=0"));
  tenon_external_t e = owner_numbers(&w, 0, &four, w.stream);
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *y = NULL;
  tenon_tensor_t *host = tensor_of("f32[4] 1 2 3 4");
  tenon_tensor_t *here = NULL;
  e.flags = TENON_EXTERNAL_READ_ONLY;
  owner_fill(&w, w.native, 0, 4, 2);
  CHECK_STATUS(tenon_tensor_import(&e, &x), TENON_OK);
  CHECK_STATUS(add(x, x, &y), TENON_OK);
  CHECK_STATUS(tenon_op_call_into(op_of("core::add"), NULL, (tenon_tensor_t *[]){y, y}, &x),
               TENON_INVALID);
  CHECK_TEXT(tenon_error(), "core::add: result out: the tensor that is given is read-only");
  CHECK_STATUS(tenon_op_call(op_of("core::uniform_"), NULL, &x, (tenon_tensor_t *[]){NULL}, 0),
               TENON_INVALID);
  CHECK_TEXT(tenon_error(),
             "core::uniform_: argument x is written to, and its tensor is read-only");
  CHECK_STATUS(tenon_tensor_copy_async(host, x), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "read-only");
  check_there(x, "f32[4] 2 2 2 2");
  float numbers[4] = {1, 2, 3, 4}; /* The host's memory can be read-only, too. */
  tenon_external_t of_host = {.size = sizeof of_host,
                              .flags = TENON_EXTERNAL_READ_ONLY,
                              .device = {1, 0},
                              .data = numbers,
                              .dtype = tenon_dtype(TENON_F32),
                              .ndim = 1,
                              .shape = &four};
  CHECK_STATUS(tenon_tensor_import(&of_host, &here), TENON_OK);
  CHECK_STATUS(
      tenon_op_call_into(op_of("core::add"), NULL, (tenon_tensor_t *[]){host, host}, &here),
      TENON_INVALID);
  tenon_tensor_t *results[1] = {here};
  CHECK_STATUS(
      tenon_op_call(op_of("core::add"), NULL, (tenon_tensor_t *[]){host, host}, results, 0),
      TENON_INVALID);
  CHECK_STATUS(tenon_op_call(op_of("core::uniform_"), NULL, &here, (tenon_tensor_t *[]){NULL}, 0),
               TENON_INVALID);
  CHECK(numbers[0] == 1 && numbers[3] == 4);
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  tenon_tensor_release(host);
  tenon_tensor_release(here);
  owner_end(&w);
}

/* streams that end */

TEST("releasing an external stream waits for its work, and tensors that were in order with it stay "
     "usable") {
  owner_t w = owner_of(sim_anew(0, "check=fail,delay=20000,seed=3"));
  tenon_external_t e = owner_numbers(&w, 0, &four, w.stream);
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *y = NULL;
  for (int i = 0; i < 4; i++)
    owner_fill(&w, w.native, 0, 4, 5);
  CHECK_STATUS(tenon_tensor_import(&e, &x), TENON_OK);
  CHECK_STATUS(tenon_stream_use(w.device, w.stream, NULL), TENON_OK);
  tenon_stream_release(w.stream);
  CHECK_STATUS(w.o->table->stream_query(&w.o->context, w.native, NULL), TENON_OK);
  w.o->table->stream_destroy(&w.o->context, w.native);
  /* The thread still uses the stream. */
  CHECK(add(x, x, &y) == TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(), "was returned to its owner");
  CHECK_STATUS(tenon_stream_use(w.device, NULL, NULL), TENON_OK);
  CHECK_STATUS(add(x, x, &y), TENON_OK);
  uint64_t host = tn_waits.host;
  tenon_tensor_release(x); /* No stream can wait for it, so the host waits. */
  CHECK(w.told == 1 && tn_waits.host == host + 1);
  check_there(y, "f32[4] 10 10 10 10");
  tenon_tensor_release(y);
  w.o->table->free(&w.o->context, w.memory);
  CHECK(races_on(&w) == 0);
}

TEST("a stream that reuses the handle of a released stream is not taken for that stream") {
  for (int handles = 0; handles < 2; handles++) {
    owner_t w = owner_of(sim_anew(handles, "check=count,delay=3000,reuse=1"));
    void *first = w.native;
    tenon_stream_t *before = w.stream;
    tenon_external_t e = owner_numbers(&w, 0, &four, w.stream);
    tenon_tensor_t *x = NULL;
    tenon_tensor_t *y = NULL;
    tenon_tensor_t *mine = tensor_there(w.device, "f32[4] 1 2 3 4");
    owner_fill(&w, w.native, 0, 4, 5);
    CHECK_STATUS(tenon_tensor_import(&e, &x), TENON_OK);
    CHECK_STATUS(add(x, x, &y), TENON_OK);
    CHECK_STATUS(tenon_stream_wait(w.stream, tn_stream_current(w.o)),
                 /* From here on each stream knows the other. */
                 TENON_OK);
    tenon_stream_release(w.stream);
    w.o->table->stream_destroy(&w.o->context, w.native);
    w.native = owner_native(&w);
    for (int i = 0; i < 8 && w.native != first; i++)
      w.native = owner_native(&w);
    CHECK(w.native == first);
    CHECK_STATUS(tenon_stream_import(w.device, w.native, &w.stream), TENON_OK);
    /* The stream structure is used again, and must not keep what it knew. */
    CHECK(w.stream == before);
    uint64_t races = races_on(&w);
    uint64_t host = tn_waits.host;
    /* The new stream waits for our work, and our work waits for its writes. */
    for (int i = 0; i < 2; i++) {
      CHECK_STATUS(tenon_stream_use(w.device, w.stream, NULL), TENON_OK);
      add_into(mine, y);
      CHECK_STATUS(tenon_stream_use(w.device, NULL, NULL), TENON_OK);
      add_into(y, mine);
    }
    /* The tensor was of the ended stream, whose structure belongs to another stream now. */
    tenon_tensor_release(x);
    CHECK(w.told == 1 && tn_waits.host == host);
    no_race(&w, races);
    check_there(mine, "f32[4] 16 32 48 64");
    tenon_tensor_release(y);
    tenon_tensor_release(mine);
    owner_end(&w);
  }
}

/* DLPack */

typedef struct pack_t { /* A DLPack tensor from another producer. */
  struct DLManagedTensorVersioned versioned;
  struct DLManagedTensor legacy;
  int64_t shape[1];
  int deleted;
} pack_t;
static void delete_versioned(struct DLManagedTensorVersioned *self) {
  ((pack_t *)self->manager_ctx)->deleted++;
}
static void delete_legacy(struct DLManagedTensor *self) {
  ((pack_t *)self->manager_ctx)->deleted++;
}

static void pack_of(pack_t *p, tenon_device_t device, void *data, uint64_t offset, uint64_t flags) {
  *p = (pack_t){.shape = {4}};
  tn_dl_tensor_t dl = {data, device, 1, tenon_dtype(TENON_F32), p->shape, NULL, offset};
  p->versioned = (struct DLManagedTensorVersioned){{1, 1}, p, delete_versioned, flags, dl};
  p->legacy = (struct DLManagedTensor){dl, p, delete_legacy};
}

TEST("memory is imported by DLPack, in both forms, without a copy, and returned in order with the "
     "consumer's stream") {
  static const tenon_device_t foreign = {12, 77};
  EACH_WAY(handles, skip) for (int legacy = 0; legacy < 2; legacy++) {
    owner_t w = owner_of(sim_anew(handles, "check=count,delay=3000"));
    pack_t p;
    tenon_tensor_t *x = NULL;
    tenon_tensor_t *y = NULL;
    tenon_dlpack_t options = {.size = sizeof options, .device = w.device, .stream = w.stream};
    uint64_t host = tn_waits.host;
    uint64_t before = races_on(&w);
    uint64_t copies = copies_of(&w);
    pack_of(&p, foreign, w.memory, 32, 0);
    owner_fill(&w, w.native, 0, 64, 3);
    tenon_status_t status = legacy ? tenon_tensor_from_dlpack_legacy_on(&p.legacy, &options, &x)
                                   : tenon_tensor_from_dlpack_on(&p.versioned, &options, &x);
    if (!CHECK_STATUS(status, TENON_OK)) return;
    tn_waits_skip(skip);
    CHECK_STATUS(add(x, x, &y), TENON_OK);
    tn_waits_skip(0);
    check_races(&w, before, skip, "read");
    CHECK(copies_of(&w) == copies && tn_waits.host == host);
    CHECK(p.deleted == 0);
    tenon_tensor_release(x);
    CHECK(p.deleted == 1 && tn_waits.host == host);
    if (!skip) check_there(y, "f32[4] 6 6 6 6");
    tenon_tensor_release(y);
    owner_end(&w);
  }
}

/* A tensor as its consumer sees it: how it came, and how it is returned. */
typedef struct lent_t {
  tn_dl_tensor_t dl;
  struct DLManagedTensorVersioned *versioned;
  struct DLManagedTensor *legacy;
} lent_t;

static tenon_status_t lend(tenon_tensor_t *t, const tenon_dlpack_t *options, int legacy,
                           lent_t *out) {
  *out = (lent_t){.versioned = NULL};
  tenon_status_t status = legacy ? tenon_tensor_to_dlpack_legacy_on(t, options, &out->legacy)
                                 : tenon_tensor_to_dlpack_on(t, options, &out->versioned);
  if (status == TENON_OK) out->dl = legacy ? out->legacy->dl_tensor : out->versioned->dl_tensor;
  return status;
}

static void give_back(lent_t *lent) {
  if (lent->versioned) lent->versioned->deleter(lent->versioned);
  if (lent->legacy) lent->legacy->deleter(lent->legacy);
}

/* The consumer's own work on the tensor. */
static void consume(const owner_t *w, const lent_t *lent, float value) {
  tenon_memory_t to = {lent->dl.data, lent->dl.byte_offset};
  CHECK_STATUS(w->o->table->fill(&w->o->context, w->native, 0, to, 16, &value, sizeof value),
               TENON_OK);
}

TEST("a tensor is exported by DLPack: the consumer's stream waits for our work, and we reuse the "
     "memory after the consumer's") {
  EACH_WAY(handles, skip) for (int legacy = 0; legacy < 2; legacy++) {
    owner_t w = owner_of(sim_anew(handles, "check=count,delay=3000"));
    tenon_dlpack_t options = {.size = sizeof options, .stream = w.stream};
    tenon_tensor_t *x = tensor_there(w.device, "f32[4] 1 2 3 4");
    tenon_tensor_t *y = NULL;
    tenon_tensor_t *z = NULL;
    lent_t lent;
    CHECK_STATUS(add(x, x, &y), TENON_OK);
    uint64_t host = tn_waits.host;
    uint64_t before = races_on(&w);
    uint64_t copies = copies_of(&w);
    tn_waits_skip(skip);
    if (!CHECK_STATUS(lend(y, &options, legacy, &lent), TENON_OK)) return;
    tn_waits_skip(0);
    CHECK(copies_of(&w) == copies && tn_waits.host == host);
    CHECK(lent.dl.device.type == 12 && lent.dl.device.id == w.device.id && lent.dl.data == y->data);
    CHECK(lent.dl.byte_offset == y->byte_offset && (handles || lent.dl.byte_offset == 0) &&
          lent.dl.ndim == 1);
    if (!legacy) CHECK(lent.versioned->version.major == 1 && lent.versioned->flags == 0);
    consume(&w, &lent, 7);
    check_races(&w, before, skip, "handed over");
    CHECK_STATUS(tenon_device_synchronize(w.device), TENON_OK);
    before = races_on(&w);
    if (!skip) check_there(y, "f32[4] 7 7 7 7");
    /* This work is still in the consumer's stream when it returns the tensor. */
    consume(&w, &lent, 8);
    tenon_tensor_release(y);
    tn_waits_skip(skip);
    give_back(&lent);
    for (int i = 0; i < 2 && !z; i++)
      CHECK_STATUS(add(x, x, &z), TENON_OK); /* The result may lie where y was, or elsewhere. */
    tn_waits_skip(0);
    if (!skip) no_race(&w, before);
    tenon_tensor_release(x);
    tenon_tensor_release(z);
    owner_end(&w);
    CHECK(stats_of(w.device).live == 0);
  }
}

TEST("memory that a consumer returns is not reused while the consumer's stream uses it") {
  owner_t w = owner_of(sim_anew(0, "check=fail,delay=20000,seed=5"));
  tenon_dlpack_t options = {.size = sizeof options, .stream = w.stream};
  tenon_tensor_t *x = tensor_there(w.device, "f32[4] 1 2 3 4");
  tenon_tensor_t *y = NULL;
  const void *data = x->data;
  lent_t lent;
  CHECK_STATUS(lend(x, &options, 0, &lent), TENON_OK);
  tenon_tensor_release(x);
  for (int i = 0; i < 3; i++)
    consume(&w, &lent, 1);
  give_back(&lent);
  CHECK_STATUS(tenon_tensor_create_on(w.device, tenon_dtype(TENON_F32), 1, &four, &y), TENON_OK);
  CHECK(y->data != data);
  tenon_tensor_release(y);
  owner_end(&w); /* This waits for the owner's work. */
  CHECK_STATUS(tenon_memory_trim(w.device),
               /* The work is seen to be complete, and the memory joins the free memory. */
               TENON_OK);
  CHECK(stats_of(w.device).reserved == 0);
}

TEST("without a stream the host waits before a tensor is exported, unless no order is wanted; a "
     "consumer may outlive the device") {
  owner_t w = owner_of(sim_anew(0, "check=fail,delay=20000,seed=2"));
  tenon_dlpack_t options = {.size = sizeof options, .flags = TENON_DLPACK_UNORDERED};
  tenon_dlpack_t ordered = {.size = sizeof ordered};
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *y = NULL;
  tenon_tensor_t *z = tensor_there(w.device, "f32[4] 1 2 3 4");
  lent_t lent[3];
  CHECK_STATUS(add(z, z, &y), TENON_OK);
  CHECK_STATUS(add(y, z, &x), TENON_OK);
  uint64_t host = tn_waits.host;
  CHECK_STATUS(lend(x, &options, 0, &lent[0]), TENON_OK);
  CHECK(tn_waits.host == host && tenon_stream_query(tn_stream_current(w.o)) == TENON_UNAVAILABLE);
  CHECK_STATUS(lend(x, NULL, 1, &lent[1]), TENON_OK);
  CHECK(tn_waits.host == host + 1 && tenon_stream_query(tn_stream_current(w.o)) == TENON_OK);
  ordered.stream = w.stream;
  CHECK_STATUS(lend(x, &ordered, 0, &lent[2]), TENON_OK);
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  tenon_tensor_release(z);
  tenon_shutdown();
  for (int i = 0; i < 3; i++)
    give_back(&lent[i]);
}

TEST("our own tensors are imported again by DLPack; read-only tensors and copies are marked; what "
     "DLPack cannot express is refused") {
  tenon_device_t device = sim_anew(0, "check=fail,delay=0");
  tenon_device_t cpu = {1, 0};
  owner_t w = owner_of(device);
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *back = NULL;
  tenon_external_t e = owner_numbers(&w, 16, &four, w.stream);
  tenon_dlpack_t copy = {.size = sizeof copy, .flags = TENON_DLPACK_COPY};
  tenon_dlpack_t options = {.size = sizeof options};
  struct DLManagedTensorVersioned *out = NULL;
  struct DLManagedTensor *legacy = NULL;
  pack_t p;
  owner_fill(&w, w.native, 0, 64, 3);
  e.flags = TENON_EXTERNAL_READ_ONLY;
  CHECK_STATUS(tenon_tensor_import(&e, &x), TENON_OK);
  CHECK_STATUS(tenon_tensor_to_dlpack_legacy(x, &legacy), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "a read-only tensor cannot leave by the legacy form");
  CHECK_STATUS(tenon_tensor_to_dlpack_legacy_on(x, &copy, &legacy), TENON_OK);
  CHECK_STATUS(tenon_tensor_from_dlpack_legacy(legacy, &back),
               /* The tensor is recognised as our own. */
               TENON_OK);
  CHECK(back->data != x->data);
  check_there(back, "f32[4] 3 3 3 3");
  tenon_tensor_release(back);
  CHECK_STATUS(tenon_tensor_to_dlpack(x, &out), TENON_OK);
  CHECK(out->flags == 1);
  CHECK_STATUS(tenon_tensor_from_dlpack(out, &back), TENON_OK);
  CHECK(back->data == x->data);
  CHECK_STATUS(tenon_op_call_into(op_of("core::add"), NULL, (tenon_tensor_t *[]){x, x}, &back),
               TENON_INVALID);
  CHECK_TEXT(tenon_error(), "read-only");
  tenon_tensor_release(back);
  CHECK_STATUS(tenon_tensor_to_dlpack_on(x, &copy, &out), TENON_OK);
  CHECK(out->flags == 2 && out->dl_tensor.data != x->data);
  out->deleter(out);
  pack_of(&p, (tenon_device_t){12, 77}, w.memory, 0, 0);
  CHECK_STATUS(tenon_tensor_from_dlpack(&p.versioned, &back), TENON_INVALID);
  CHECK_TEXT(tenon_error(),
             "DLPack device (type 12, id 77): extensions share that type; say which device it is");
  pack_of(&p, cpu, w.memory, 0, 0);
  options.device = device;
  CHECK_STATUS(tenon_tensor_from_dlpack_on(&p.versioned, &options, &back), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "the tensor is on DLPack device (type 1, id 0): expected (type 12");
  pack_of(&p, (tenon_device_t){2, 0}, w.memory, 0, 0);
  CHECK_STATUS(tenon_tensor_from_dlpack(&p.versioned, &back), TENON_NOT_FOUND);
  CHECK_TEXT(tenon_error(), "DLPack device (type 2, id 0) belongs to no device that was opened");
  options.device.type = 0;
  options.stream = w.stream;
  tenon_tensor_t *host = tensor_of("f32[1] 1");
  CHECK_STATUS(tenon_tensor_to_dlpack_on(host, &options, &out), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "the consumer's stream is not of the tensor's device (type 1");
  CHECK(p.deleted == 0);
  tenon_tensor_release(host);
  tenon_tensor_release(x);
  owner_end(&w);
}

/* OpenCL */

/* The loader's functions, as a framework calls them. They use the plug-in's own context, so that
 * its objects fit. */
static void *(*create_buffer)(void *, uint64_t, size_t, void *, int32_t *);
static int32_t (*release_buffer)(void *);
static void *(*create_queue)(void *, void *, uint64_t, int32_t *);
static int32_t (*release_queue)(void *);
static int32_t (*write_buffer)(void *, void *, uint32_t, size_t, size_t, const void *, uint32_t,
                               void *const *, void **);
static int32_t (*read_buffer)(void *, void *, uint32_t, size_t, size_t, void *, uint32_t,
                              void *const *, void **);
static void *(*create_gate)(void *, int32_t *);
static int32_t (*open_gate)(void *, int32_t);
static int32_t (*barrier)(void *, uint32_t, void *const *, void **);
static int32_t (*release_event)(void *);
static int32_t (*flush)(void *);
static void *(*create_context)(const intptr_t *, uint32_t, void *const *, void *, void *,
                               int32_t *);
static int32_t (*release_context)(void *);

static void loader_functions(void) {
  void *library = dlopen("libOpenCL.so.1", RTLD_NOW);
  if (!CHECK(library != NULL)) exit(1);
  *(void **)&create_buffer = dlsym(library, "clCreateBuffer");
  *(void **)&release_buffer = dlsym(library, "clReleaseMemObject");
  *(void **)&create_queue = dlsym(library, "clCreateCommandQueue");
  *(void **)&release_queue = dlsym(library, "clReleaseCommandQueue");
  *(void **)&write_buffer = dlsym(library, "clEnqueueWriteBuffer");
  *(void **)&read_buffer = dlsym(library, "clEnqueueReadBuffer");
  *(void **)&create_gate = dlsym(library, "clCreateUserEvent");
  *(void **)&open_gate = dlsym(library, "clSetUserEventStatus");
  *(void **)&barrier = dlsym(library, "clEnqueueBarrierWithWaitList");
  *(void **)&release_event = dlsym(library, "clReleaseEvent");
  *(void **)&flush = dlsym(library, "clFlush");
  *(void **)&create_context = dlsym(library, "clCreateContext");
  *(void **)&release_context = dlsym(library, "clReleaseContext");
}

TEST("a cl_mem with an external cl_command_queue is a tensor without a copy, after the queue's "
     "work, and is exported as kDLOpenCL with its offset") {
  enum {
    BYTES = 1024,
    AT = 256,
  };
  int32_t count;
  int32_t error = 0;
  static float numbers[BYTES / 4], old[BYTES / 4], seen[4];
  tenon_shutdown();
  if (tenon_device_count("opencl", &count) != TENON_OK) SKIP("there is no driver of OpenCL");
#ifdef HAS_TSAN
  SKIP("source kernels of operators are not run under the thread sanitizer");
#endif
  loader_functions();
  tenon_device_t device = device_of("opencl", 0);
  tn_ordinal_t *o = ordinal_of(device);
  void *context = o->table->native(&o->context, "cl_context", NULL);
  void *id = o->table->native(&o->context, "cl_device_id", NULL);
  void *memory = create_buffer(context, 1, BYTES, NULL, &error);
  void *queue = create_queue(context, id, 0, &error);
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *y = NULL;
  tenon_tensor_t *warm = tensor_there(device, "f32[4] 1 2 3 4");
  tenon_stream_t *stream;
  CHECK(error == 0);
  for (int i = 0; i < BYTES / 4; i++)
    numbers[i] = (float)i;
  CHECK_STATUS(add(warm, warm, &y), TENON_OK); /* The kernel is compiled now. */
  check_there(y, "f32[4] 2 4 6 8");
  tenon_tensor_release(y);
  CHECK_STATUS(tenon_stream_import(device, queue, &stream), TENON_OK);
  tenon_external_t e = {.size = sizeof e,
                        .device = device,
                        .data = memory,
                        .byte_offset = AT,
                        .dtype = tenon_dtype(TENON_F32),
                        .ndim = 1,
                        .shape = &four,
                        .stream = stream};
  /* A gate holds the owner's write back until it is opened. */
  for (int skip = 1; skip >= 0; skip--) {
    CHECK(write_buffer(queue, memory, 1, 0, BYTES, old, 0, NULL, NULL) == 0);
    void *gate = create_gate(context, &error);
    void *held = NULL;
    CHECK(error == 0 && barrier(queue, 1, &gate, &held) == 0);
    CHECK(write_buffer(queue, memory, 0, 0, BYTES, numbers, 0, NULL, NULL) == 0 &&
          flush(queue) == 0);
    uint64_t copies = 0;
    uint64_t host = tn_waits.host;
    for (int d = TENON_COPY_IN; d <= TENON_COPY_PEER; d++)
      copies += o->copies[d].count;
    CHECK_STATUS(tenon_tensor_import(&e, &x), TENON_OK);
    CHECK(x->data == memory && x->byte_offset == AT);
    tn_waits_skip((uint64_t)skip);
    CHECK_STATUS(add(x, x, &y), TENON_OK);
    tn_waits_skip(0);
    for (int d = TENON_COPY_IN; d <= TENON_COPY_PEER; d++)
      copies -= o->copies[d].count;
    CHECK(copies == 0 && tn_waits.host == host);
    /* The copy did not wait: the gate is still closed. */
    if (skip) check_there(y, "f32[4] 0 0 0 0");
    CHECK(open_gate(gate, 0) == 0 && release_event(gate) == 0 && release_event(held) == 0);
    if (!skip) check_there(y, "f32[4] 128 130 132 134");
    tenon_tensor_release(y);
    tenon_tensor_release(x);
    CHECK_STATUS(tenon_stream_synchronize(stream), TENON_OK);
  }
  CHECK_STATUS(tenon_tensor_import(&e, &x), TENON_OK);
  for (int legacy = 0; legacy < 2; legacy++) { /* Our write comes first, then the queue's read. */
    tenon_dlpack_t options = {.size = sizeof options, .stream = stream};
    tenon_tensor_t *back = NULL;
    lent_t lent;
    add_into(warm, x);
    CHECK_STATUS(lend(x, &options, legacy, &lent), TENON_OK);
    CHECK(lent.dl.device.type == 4 && lent.dl.device.id == 0 && lent.dl.data == memory &&
          lent.dl.byte_offset == AT);
    CHECK(read_buffer(queue, lent.dl.data, 1, lent.dl.byte_offset, 16, seen, 0, NULL, NULL) == 0);
    CHECK(seen[0] == 2 && seen[3] == 8);
    CHECK_STATUS(legacy ? tenon_tensor_from_dlpack_legacy_on(lent.legacy, &options, &back)
                        : tenon_tensor_from_dlpack_on(lent.versioned, &options, &back),
                 TENON_OK);
    CHECK(back->data == memory && back->byte_offset == AT);
    check_there(back, "f32[4] 2 4 6 8");
    tenon_tensor_release(back);
  }
  tenon_tensor_release(x);
  e.byte_offset = BYTES - 8;
  CHECK_STATUS(tenon_tensor_import(&e, &x), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "the imported memory object has 1024 bytes, and 1032 are needed");
  void *other = create_context(NULL, 1, &id, NULL, NULL, &error);
  void *theirs = create_buffer(other, 1, BYTES, NULL, &error);
  e.data = theirs;
  e.byte_offset = 0;
  CHECK_STATUS(tenon_tensor_import(&e, &x), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "the imported memory object is of another context");
  CHECK(release_buffer(theirs) == 0 && release_context(other) == 0);
  tenon_stream_release(stream);
  tenon_tensor_release(warm);
  CHECK(release_buffer(memory) == 0 && release_queue(queue) == 0);
  CHECK(stats_of(device).live == 0);
}

TEST("nothing is left behind") {
  unsetenv("TENON_SIM");
  tenon_shutdown();
}
