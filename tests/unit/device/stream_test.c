/* Streams: the stream that calls use, failures that persist and name the operator, lost devices,
 * and external streams. */
#include "check.h"
#include "tensors.h"

#include "operators.h"
#include "there.h"

static tenon_status_t add(tenon_tensor_t *a, tenon_tensor_t *b, tenon_tensor_t **out) {
  *out = NULL;
  return tenon_op_call(op_of("core::add"), NULL, (tenon_tensor_t *[]){a, b}, out, 0);
}

TEST("calls use the thread's stream, and their results can be read on another stream") {
  tenon_device_t device = sim_open(0, "check=fail,delay=300");
  tenon_stream_t *s, *before, *now;
  CHECK_STATUS(tenon_stream_create(device, &s), TENON_OK);
  CHECK_STATUS(tenon_stream_use(device, s, &before), TENON_OK);
  CHECK_STATUS(tenon_stream_of(device, &now), TENON_OK);
  CHECK(now == s && before != s);
  tenon_tensor_t *x = tensor_there(device, "f32[3] 1 2 3");
  tenon_tensor_t *y, *z;
  uint64_t ticket = s->ticket;
  CHECK_STATUS(add(x, x, &y), TENON_OK);
  CHECK(s->ticket == ticket + 1);
  CHECK_STATUS(tenon_stream_use(device, NULL, NULL), TENON_OK);
  CHECK_STATUS(add(y, x, &z), TENON_OK);
  CHECK(s->ticket == ticket + 1 && before->ticket > 0);
  check_there(z, "f32[3] 3 6 9");
  CHECK_STATUS(tenon_stream_synchronize(s), TENON_OK);
  CHECK_STATUS(tenon_stream_query(s), TENON_OK);
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  tenon_tensor_release(z);
  tenon_stream_release(s);
  CHECK_STATUS(tenon_stream_create(device, &now), TENON_OK);
  CHECK(now == s); /* Idle streams are reused. */
  CHECK_STATUS(tenon_stream_use(sim_open(1, ""), now, NULL), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "the stream belongs to device sim:0, not to sim:1");
  tenon_stream_release(now);
}

TEST("a late failure is blamed on its operator, stays, and reaches waiting streams but no others") {
  tenon_device_t device = sim_open(0, "check=fail,delay=0");
  tenon_stream_t *bad, *follower, *good;
  tenon_tensor_t *x = tensor_there(device, "f32[2] 1 2");
  tenon_tensor_t *y, *z;
  tenon_tensor_t *host = NULL;
  CHECK_STATUS(tenon_stream_create(device, &bad), TENON_OK);
  CHECK_STATUS(tenon_stream_create(device, &follower), TENON_OK);
  CHECK_STATUS(tenon_stream_create(device, &good), TENON_OK);
  CHECK_STATUS(tenon_stream_use(device, bad, NULL), TENON_OK);
  uint64_t before = bad->ticket;
  char blamed[80];
  snprintf(blamed, sizeof blamed,
           "core::mul failed on sim:0 (work %d of its stream): ", (int)before + 2);
  sim_set(device, "fault=2");
  CHECK_STATUS(add(x, x, &y), TENON_OK); /* This call succeeds. */
  z = NULL;
  CHECK_STATUS(tenon_op_call(op_of("core::mul"), NULL, (tenon_tensor_t *[]){y, y}, &z, 0),
               TENON_OK);
  CHECK(tenon_stream_synchronize(bad) != TENON_OK);
  CHECK_TEXT(tenon_error(), blamed);
  CHECK(tenon_tensor_copy_to(z, (tenon_device_t){1, 0}, &host) != TENON_OK && !host);
  CHECK_TEXT(tenon_error(), "core::mul failed on sim:0");
  tenon_tensor_t *more;
  CHECK(add(x, x, &more) != TENON_OK);
  CHECK_TEXT(tenon_error(), "core::mul failed on sim:0");
  CHECK_STATUS(tenon_stream_use(device, follower, NULL), TENON_OK);
  CHECK(add(z, x, &more) != TENON_OK); /* The call would wait for the failed stream. */
  CHECK_TEXT(tenon_error(), "core::mul failed on sim:0");
  CHECK_STATUS(tenon_stream_use(device, good, NULL), TENON_OK);
  CHECK_STATUS(add(x, x, &more), TENON_OK);
  check_there(more, "f32[2] 2 4");
  CHECK_STATUS(tenon_stream_use(device, NULL, NULL), TENON_OK);
  CHECK(tenon_device_synchronize(device) != TENON_OK);
  CHECK_TEXT(tenon_error(), "core::mul failed on sim:0");
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  tenon_tensor_release(z);
  tenon_tensor_release(more);
  tenon_stream_release(bad);
  tenon_stream_release(follower);
  tenon_stream_release(good);
  tenon_stream_t *fresh;
  CHECK_STATUS(tenon_stream_create(device, &fresh), TENON_OK);
  CHECK(fresh != bad); /* A failed stream is not reused. */
  tenon_stream_release(fresh);
}

TEST("a stream that waits for a failing one blames the operator there, not its own of the same "
     "number") {
  tenon_device_t device = sim_open(0, "check=fail,delay=2000");
  tenon_stream_t *first, *second;
  tenon_tensor_t *x = tensor_there(device, "f32[2] 1 2");
  tenon_tensor_t *y;
  tenon_tensor_t *z[3] = {NULL};
  tenon_tensor_t *w;
  CHECK_STATUS(tenon_stream_create(device, &first), TENON_OK);
  CHECK_STATUS(tenon_stream_create(device, &second), TENON_OK);
  CHECK_STATUS(tenon_stream_use(device, second, NULL), TENON_OK);
  /* The ring of the second stream holds every number that a failure could name. */
  while (second->ticket < first->ticket + 8) {
    CHECK_STATUS(add(x, x, &y), TENON_OK);
    tenon_tensor_release(y);
  }
  CHECK_STATUS(tenon_stream_synchronize(second), TENON_OK);
  CHECK_STATUS(tenon_stream_use(device, first, NULL), TENON_OK);
  sim_set(device, "fault=1");
  CHECK_STATUS(tenon_op_call(op_of("core::mul"), NULL, (tenon_tensor_t *[]){x, x}, z, 0), TENON_OK);
  CHECK_STATUS(tenon_stream_use(device, second, NULL), TENON_OK);
  CHECK_STATUS(add(z[0], x, &w), TENON_OK); /* The failure is not known yet. */
  CHECK(tenon_stream_synchronize(second) != TENON_OK);
  CHECK_TEXT(tenon_error(), "core::mul failed on sim:0");
  CHECK_STATUS(tenon_stream_use(device, NULL, NULL), TENON_OK);
  tenon_tensor_release(x);
  tenon_tensor_release(z[0]);
  tenon_tensor_release(w);
  tenon_stream_release(first);
  tenon_stream_release(second);
  sim_set(device, "delay=0");
}

TEST("one lost ordinal leaves the other one working") {
  tenon_device_t first = sim_open(0, "check=fail");
  tenon_device_t second = sim_open(1, "check=fail");
  tenon_tensor_t *x = tensor_there(second, "f32[2] 1 2");
  tenon_tensor_t *y = tensor_there(first, "f32[2] 1 2");
  tenon_tensor_t *out = NULL;
  sim->lose(&ordinal_of(first)->context);
  CHECK(add(y, y, &out) != TENON_OK || tenon_device_synchronize(first) != TENON_OK);
  CHECK_TEXT(tenon_error(), "lost");
  tenon_tensor_release(out);
  CHECK_STATUS(add(x, x, &out), TENON_OK);
  check_there(out, "f32[2] 2 4");
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  tenon_tensor_release(out);
}

TEST("views begin inside memory, on devices with addresses and on devices with handles") {
  static const char *const settings[] = {"", "handles=1"};
  for (int h = 0; h < 2; h++) {
    tenon_shutdown();
    setenv("TENON_SIM", settings[h], 1);
    tenon_device_t device = sim_open(0, "check=fail");
    tenon_tensor_t *x = tensor_there(device, "f32[4,2] 1 2 3 4 5 6 7 8");
    tenon_tensor_t *part = NULL;
    tenon_tensor_t *turned = NULL;
    tenon_tensor_t *out = NULL;
    tenon_attrs_t *attrs =
        attrs_of(op_of("core::as_strided"), "shape=[2, 2]; strides=[2, 1]; offset=4");
    CHECK_STATUS(tenon_op_call(op_of("core::as_strided"), attr_values(attrs), &x, &part, 0),
                 TENON_OK);
    tenon_attrs_release(attrs);
    CHECK(part && (part->data == x->data) == (h == 1) &&
          part->byte_offset - x->byte_offset == (h ? 16 : 0));
    CHECK_STATUS(add(part, part, &out), TENON_OK);
    check_there(out, "f32[2,2] 10 12 14 16");
    check_there(part, "f32[2,2] 5 6 7 8");
    CHECK_STATUS(tenon_op_call(op_of("core::transpose"), NULL, &part, &turned, 0), TENON_OK);
    check_there(turned, "f32[2,2] 5 7 6 8");
    tenon_tensor_release(out);
    CHECK_STATUS(add(turned, part, &out), TENON_OK);
    check_there(out, "f32[2,2] 10 13 13 16");
    tenon_tensor_release(x);
    tenon_tensor_release(part);
    tenon_tensor_release(turned);
    tenon_tensor_release(out);
    CHECK(stats_of(device).live == 0);
  }
  unsetenv("TENON_SIM");
}

TEST("nothing is left behind") { tenon_shutdown(); }
