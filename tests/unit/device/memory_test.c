/* The caching allocator: blocks are reused, split, merged and given back; memory that other streams
 * use is kept; a device without free memory gives a clear error, and later calls work. */
#include "base/memory.h"
#include "check.h"
#include "core/tensor.h"
#include "device/memory.h"
#include "tensors.h"

#include "faults.h"
#include "operators.h"
#include "there.h"

static tenon_tensor_t *bytes_there(tenon_device_t device, int64_t size) {
  tenon_tensor_t *t = NULL;
  CHECK_STATUS(tenon_tensor_create_on(device, tenon_dtype(TENON_U8), 1, &size, &t), TENON_OK);
  return t;
}

TEST("memory that was released serves the next tensor, without asking the device") {
  tenon_device_t device = sim_open(0, "check=fail");
  tenon_tensor_t *a = bytes_there(device, 1000);
  tenon_memory_stats_t first = stats_of(device);
  const void *data = a->data;
  tenon_tensor_release(a);
  for (int i = 0; i < 100; i++) {
    tenon_tensor_t *b = bytes_there(device, 1000);
    CHECK(b->data == data);
    tenon_tensor_release(b);
  }
  tenon_memory_stats_t last = stats_of(device);
  CHECK(last.device_allocations == first.device_allocations &&
        last.allocations == first.allocations + 100);
  CHECK(last.live == 0 && last.live_bytes == 0 && last.live_bytes_peak >= 1000 &&
        last.reserved == first.reserved);
}

/* Checks that no two live blocks overlap, with handles and offsets, too. */
static bool are_apart(tenon_tensor_t *const *all, int count) {
  for (int i = 0; i < count; i++)
    for (int k = 0; k < i; k++) {
      if (!all[i] || !all[k]) continue;
      const tn_memory_t *a = ((tn_tensor_t *)all[i])->storage->context;
      const tn_memory_t *b = ((tn_tensor_t *)all[k])->storage->context;
      if (a->handle == b->handle && a->offset < b->offset + b->size &&
          b->offset < a->offset + a->size)
        return false;
    }
  return true;
}

TEST("pieces of all sizes, released in any order, never overlap, are aligned, and are merged "
     "again") {
  enum {
    MOST = 64,
    STEPS = 4000,
  };
  tenon_device_t device = device_of("null", 0);
  tenon_tensor_t *all[MOST] = {NULL};
  uint64_t state = 77;
  uint64_t live = 0;
  uint64_t peak = 0;
  CHECK_STATUS(tenon_memory_trim(device), TENON_OK);
  for (int i = 0; i < STEPS; i++) {
    int at = (int)(draw(&state) % MOST);
    if (all[at]) {
      live -= (uint64_t)all[at]->shape[0];
      tenon_tensor_release(all[at]);
      all[at] = NULL;
    } else {
      int64_t size = (int64_t)(draw(&state) % ((uint64_t)1 << draw(&state) % 24)) + 1;
      all[at] = bytes_there(device, size);
      const tn_memory_t *m = ((tn_tensor_t *)all[at])->storage->context;
      CHECK(m->offset % 64 == 0 && m->size >= (uint64_t)size);
      live += (uint64_t)size;
      peak = live > peak ? live : peak;
    }
    if (i % 50 == 0) CHECK(are_apart(all, MOST));
    if (stats_of(device).live_bytes != live) CHECK_NEVER("live bytes are counted wrong");
  }
  for (int i = 0; i < MOST; i++)
    tenon_tensor_release(all[i]);
  tenon_memory_stats_t stats = stats_of(device);
  CHECK(stats.live == 0 && stats.live_bytes == 0 && stats.live_bytes_peak == peak);
  CHECK_STATUS(tenon_memory_trim(device), TENON_OK);
  stats = stats_of(device);
  CHECK(stats.reserved == 0 &&
        stats.segments == 0); /* All blocks were merged: each segment was free as a whole. */
}

TEST("memory that another stream still uses is not given out until that work is complete") {
  tenon_device_t device = sim_open(0, "check=fail,delay=20000");
  tenon_stream_t *other;
  CHECK_STATUS(tenon_stream_create(device, &other), TENON_OK);
  tenon_tensor_t *x = tensor_there(device, "f32[4] 1 2 3 4");
  tenon_tensor_t *out = NULL;
  const void *data = x->data;
  CHECK_STATUS(tenon_device_synchronize(device), TENON_OK);
  CHECK_STATUS(tenon_stream_use(device, other, NULL), TENON_OK);
  CHECK_STATUS(tenon_op_call(op_of("core::add"), NULL, (tenon_tensor_t *[]){x, x}, &out, 0),
               TENON_OK);
  CHECK_STATUS(tenon_stream_use(device, NULL, NULL), TENON_OK);
  tenon_tensor_release(x); /* The other stream still reads it, perhaps 10 ms from now. */
  tenon_tensor_t *y = tensor_there(device, "f32[4] 9 9 9 9");
  CHECK(y->data != data);
  check_there(out, "f32[4] 2 4 6 8");
  /* The work is complete, and trim notices that. */
  CHECK_STATUS(tenon_memory_trim(device), TENON_OK);
  tenon_tensor_t *z = bytes_there(device, 16);
  CHECK(z->data == data);
  tenon_tensor_release(y);
  tenon_tensor_release(z);
  tenon_tensor_release(out);
  tenon_stream_release(other);
  sim_set(device, "delay=0");
}

TEST("a reached limit and a full device are reported, after cached memory was given back, and the "
     "next call works") {
  tenon_device_t device = sim_open(1, "check=fail");
  tenon_tensor_t *held = bytes_there(device, 3 << 20);
  tenon_tensor_t *more = NULL;
  int64_t size = 8 << 20;
  CHECK_STATUS(tenon_memory_trim(device), TENON_OK);
  CHECK_STATUS(tenon_memory_limit_set(device, 6 << 20), TENON_OK);
  CHECK_STATUS(tenon_tensor_create_on(device, tenon_dtype(TENON_U8), 1, &size, &more),
               TENON_MEMORY);
  CHECK_TEXT(tenon_error(),
             "device sim:1 has no memory for 8388608 bytes: 1 tensors hold 3145728 bytes");
  CHECK_TEXT(tenon_error(), "the limit of 6291456 bytes is reached");
  CHECK(stats_of(device).failures == 1 && stats_of(device).live == 1);
  tenon_tensor_t *cached =
      /* It stays cached after its release, and leaves no room for a larger block. */
      bytes_there(device, 2 << 20);
  tenon_tensor_release(cached);
  size = 3 << 20;
  CHECK_STATUS(tenon_tensor_create_on(device, tenon_dtype(TENON_U8), 1, &size, &more), TENON_OK);
  CHECK(stats_of(device).flushes == 2);
  CHECK_STATUS(tenon_memory_limit_set(device, 0), TENON_OK);
  tenon_tensor_release(more);
  tenon_tensor_release(held);
  size = (int64_t)1 << 40;
  CHECK_STATUS(tenon_tensor_create_on(device, tenon_dtype(TENON_U8), 1, &size, &more),
               TENON_MEMORY);
  CHECK_TEXT(tenon_error(), "the device has 1073741824 in all");
  size = INT64_MAX - 1;
  CHECK_STATUS(tenon_tensor_create_on(device, tenon_dtype(TENON_U8), 1, &size, &more),
               TENON_INVALID);
  tenon_tensor_t *x = tensor_there(device, "f32[2] 1 2");
  check_there(x, "f32[2] 1 2");
  tenon_tensor_release(x);
}

TEST("every n-th allocation of device and host, copy and launch fails cleanly, and the next run "
     "works") {
  static const char *const calls[] = {"copy",         "launch", "stream_create",
                                      "event_create", "piece",  "host memory"};
  enum {
    PIECE = 4,
    HOST,
    KINDS,
  };
  for (int c = 0; c < KINDS; c++) {
    bool failed = true;
    int failures = 0;
    /* Idle streams would be reused together with their events. */
    tenon_shutdown();
    tenon_device_t device = sim_open(0, "check=fail");
    for (int n = 1; failed && n < 200; n++) {
      char setting[64];
      tenon_stream_t *stream = NULL;
      tenon_tensor_t *x = NULL;
      tenon_tensor_t *out[2] = {NULL};
      tenon_tensor_t *back = NULL;
      uint64_t live = stats_of(device).live;
      CHECK_STATUS(tenon_memory_trim(device), TENON_OK);
      if (c == HOST)
        fault_memory(n, false);
      else if (c == PIECE)
        fault_begin(&(fault_plan_t){.kinds = 1 << FAULT_PIECE, .at = n, .times = 2});
      else {
        snprintf(setting, sizeof setting, "fail=%s:%d", calls[c], n);
        sim_set(device, setting);
      }
      tenon_tensor_t *host = NULL;
      int64_t shape = 4;
      tenon_status_t status = tenon_stream_create(device, &stream);
      if (status == TENON_OK) status = tenon_stream_use(device, stream, NULL);
      if (status == TENON_OK)
        status = tenon_tensor_create(tenon_dtype(TENON_F32), 1, &shape, &host);
      for (int i = 0; i < 4 && host; i++)
        ((float *)host->data)[i] = (float)i;
      if (status == TENON_OK) status = tenon_tensor_copy_to(host, device, &x);
      if (status == TENON_OK)
        status = tenon_op_call(op_of("core::add"), NULL, (tenon_tensor_t *[]){x, x}, &out[0], 0);
      (void)tenon_stream_use(device, NULL, NULL);
      if (status == TENON_OK)
        status =
            tenon_op_call(op_of("core::mul"), NULL, (tenon_tensor_t *[]){x, out[0]}, &out[1], 0);
      if (status == TENON_OK) status = tenon_tensor_copy_to(out[1], (tenon_device_t){1, 0}, &back);
      fault_end();
      failed = status != TENON_OK;
      failures += failed;
      if (failed)
        CHECK(*tenon_error() != 0);
      else
        CHECK_TENSOR(back, "f32[4] 0 2 8 18");
      tenon_tensor_release(host);
      tenon_tensor_release(x);
      tenon_tensor_release(out[0]);
      tenon_tensor_release(out[1]);
      tenon_tensor_release(back);
      tenon_stream_release(stream);
      CHECK(stats_of(device).live == live);
    }
    check_report(!failed && failures, __FILE__, __LINE__, "it fails, and works in the end",
                 calls[c]);
    sim_set(device, "fail=copy:1000000");
  }
}

TEST("nothing is left behind, and tensors that outlive the device can be released") {
  tenon_device_t device = device_of("sim", 0);
  tenon_tensor_t *held = bytes_there(device, 100);
  tenon_tensor_t *view = tensor_there(device, "f32[2] 1 2");
  CHECK(stats_of(device).live == 2);
  tenon_shutdown();
  tenon_tensor_release(held);
  tenon_tensor_release(view);
  device = device_of("sim", 0);
  CHECK(stats_of(device).live == 0);
  tenon_shutdown();
}
