/* Bound calls: their own state and attributes, three functions that call, and a device for
 * operators without tensor arguments. */
#include "check.h"
#include "tensors.h"

#include "npu.h"
#include "operators.h"

static int created, destroyed;

static tenon_status_t ticks_create(tenon_node_t *node) {
  int64_t *next = malloc(sizeof *next);
  if (!next) return tenon_fail(node, TENON_MEMORY, "no memory for ticks");
  *next = node->attrs[0].as.i;
  created++;
  node->state = next;
  return TENON_OK;
}

static void ticks_destroy(void *state) {
  free(state);
  destroyed++;
}

/* Returns start, start + 1, ... */
static tenon_status_t ticks_run(tenon_call_t *call) {
  *(int64_t *)call->outputs[0]->data =
      __atomic_fetch_add((int64_t *)call->state, 1, __ATOMIC_RELAXED);
  return TENON_OK;
}

static tenon_registration_t *
define(void) { /* a source operator with a state, and without a device attribute */
  tenon_registration_t *r = NULL;
  const tenon_item_t items[] = {TENON_OP("demo::ticks(*, int start=0) -> Tensor",
                                         TENON_TYPES("out = i64"), TENON_SHAPES("out: [1]"),
                                         TENON_STATE(ticks_create, ticks_destroy),
                                         TENON_KERNEL("cpu", ticks_run)),
                                {0}};
  created = destroyed = 0;
  CHECK_STATUS(tenon_op_add(items, NULL, NULL, 0, &r), TENON_OK);
  return r;
}

static tenon_bound_t *bind_on(tenon_device_t device, const char *name, const char *attrs_text) {
  const tenon_op_t *op = op_of(name);
  tenon_attrs_t *attrs = attrs_of(op, attrs_text);
  tenon_bound_t *bound = NULL;
  CHECK_STATUS(tenon_bound_create_on(device, op, attr_values(attrs), &bound), TENON_OK);
  tenon_attrs_release(attrs);
  return bound;
}

/* Returns -1 if the call fails. */
static int64_t tick(tenon_bound_t *bound, tenon_device_t device) {
  tenon_tensor_t *out = NULL;
  tenon_tensor_t *here = NULL;
  CHECK_STATUS(tenon_bound_call(bound, NULL, &out, 0), TENON_OK);
  bool is_there = out && out->device.type == device.type && out->device.id == device.id;
  CHECK_STATUS(tenon_tensor_copy_to(out, (tenon_device_t){1, 0}, &here), TENON_OK);
  int64_t value = is_there ? tensor_int(here, 0) : -1;
  tenon_tensor_release(out);
  tenon_tensor_release(here);
  return value;
}

static const tenon_device_t cpu = {1, 0};

TEST("a source operator runs where it is bound, whatever the thread's default device, with a state "
     "of its own") {
  npu_start();
  tenon_registration_t *r = define();
  tenon_device_t second = {npu_device.type, npu_device.id + 1};
  tenon_bound_t *there = bind_on(npu_device, "demo::ticks", "start=5");
  tenon_bound_t *here = bind_on(cpu, "demo::ticks", "start=5");
  tenon_bound_t *next = bind_on(second, "demo::ticks", NULL);
  tenon_bound_t *any = NULL;
  CHECK_STATUS(tenon_bound_create(op_of("demo::ticks"), NULL, &any), TENON_OK);
  CHECK(created == 4);
  CHECK(tick(there, npu_device) == 5 && tick(there, npu_device) == 6 && tick(here, cpu) == 5);
  CHECK(tick(next, second) == 0 && tick(any, cpu) == 0);
  CHECK_STATUS(tenon_device_default_set(npu_device), TENON_OK);
  CHECK(tick(any, npu_device) == 1 && tick(here, cpu) == 6 && tick(next, second) == 1);
  CHECK_STATUS(tenon_device_default_set(cpu), TENON_OK);
  CHECK(tick(any, cpu) == 2 && tick(there, npu_device) == 7);
  tenon_tensor_t *out = tensor_of("i64[1] 0");
  CHECK_STATUS(tenon_bound_run(here, NULL, &out), TENON_OK);
  CHECK_TENSOR(out, "i64[1] 7");
  CHECK_STATUS(tenon_bound_call_into(here, NULL, &out), TENON_OK);
  CHECK_TENSOR(out, "i64[1] 8");
  tenon_tensor_release(out);
  tenon_bound_release(there);
  tenon_bound_release(here);
  tenon_bound_release(next);
  tenon_bound_release(any);
  CHECK(destroyed == 4);
  tenon_registration_release(r);
  tenon_shutdown();
}

TEST("a bound call sets the operator's device attribute, and random numbers come from that "
     "device's generator") {
  npu_start();
  tenon_generator_t *generator = NULL;
  tenon_generator_t *host = NULL;
  CHECK_STATUS(tenon_generator_of(npu_device, &generator), TENON_OK);
  CHECK_STATUS(tenon_generator_of(cpu, &host), TENON_OK);
  tenon_generator_seed_set(generator, 42);
  tenon_generator_seed_set(host, 42);
  tenon_bound_t *there = bind_on(npu_device, "core::randint", "high=1000; shape=[3]");
  tenon_bound_t *here = bind_on(cpu, "core::randint", "high=1000; shape=[3]");
  tenon_tensor_t *a = NULL;
  tenon_tensor_t *b = NULL;
  tenon_tensor_t *c = NULL;
  CHECK_STATUS(tenon_bound_call(there, NULL, &a, 0), TENON_OK);
  CHECK_STATUS(tenon_bound_call(here, NULL, &b, 0), TENON_OK);
  CHECK(a && a->device.type == npu_device.type && b && b->device.type == 1);
  CHECK(tenon_generator_offset_get(generator) == 8 && tenon_generator_offset_get(host) == 8);
  CHECK_STATUS(tenon_tensor_copy_to(a, cpu, &c), TENON_OK);
  CHECK(tensor_equal(b, c, 0));
  tenon_tensor_release(a);
  tenon_tensor_release(b);
  tenon_tensor_release(c);
  tenon_bound_release(there);
  tenon_bound_release(here);
  /* The default of its device attribute is the CPU. */
  there = bind_on(npu_device, "core::allocate", "size=16");
  a = NULL;
  CHECK_STATUS(tenon_bound_call(there, NULL, &a, 0), TENON_OK);
  CHECK(a && a->device.type == npu_device.type);
  tenon_tensor_release(a);
  tenon_bound_release(there);
  tenon_shutdown();
}

TEST("tensors of another device, an unknown device, and results that do not fit are refused") {
  npu_start();
  tenon_bound_t *neg = bind_on(npu_device, "core::neg", NULL);
  tenon_bound_t *none = NULL;
  tenon_tensor_t *x = tensor_of("f32[2] 1 2");
  tenon_tensor_t *y = NULL;
  tenon_tensor_t *out = NULL;
  tenon_tensor_t *short_ = tensor_of("f32[1] 0");
  CHECK_STATUS(tenon_bound_call(neg, &x, &out, 0), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "core::neg: bound to npu:0, but its arguments are on cpu:0");
  CHECK(out == NULL);
  CHECK_STATUS(tenon_tensor_copy_to(x, npu_device, &y), TENON_OK);
  CHECK_STATUS(tenon_bound_call(neg, &y, &out, 0), TENON_OK);
  CHECK(out && out->device.type == npu_device.type);
  CHECK_STATUS(tenon_bound_create_on((tenon_device_t){2, 3}, op_of("core::neg"), NULL, &none),
               TENON_INVALID);
  CHECK_TEXT(tenon_error(), "core::neg: device (type 2, id 3) belongs to no backend");
  CHECK(none == NULL);
  tenon_bound_t *here = bind_on(cpu, "core::neg", NULL);
  CHECK_STATUS(tenon_bound_call_into(here, &x, &short_), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "expected shape [2], found [1]");
  CHECK_STATUS(tenon_bound_call_into(here, &x, &x), TENON_OK);
  CHECK_TENSOR(x, "f32[2] -1 -2");
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  tenon_tensor_release(out);
  tenon_tensor_release(short_);
  tenon_bound_release(neg);
  tenon_bound_release(here);
  tenon_bound_release(NULL);
  tenon_shutdown();
}
