/* Stubs: how the parent kernel prepares the arguments, on a program's backend and on the CPU; which
 * function serves which stub; ranges and threads; lists and errors. */
#include <stdlib.h>
#include <tenon/iterator.h>

#include "base/cpu.h"
#include "check.h"
#include "tensors.h"

#include "operators.h"

#include "failing.h"
#include "npu.h"
#include "views.h"

enum { MEMORY = 4096 };
static const tenon_device_t cpu_device = {1, 0};
static tenon_tensor_t *memory, *npu_memory; /* the memory of the views in views.h */
/* What the last stub received, with its axes. */
static tenon_iterator_t last;
enum { MOST = 8 };
static tenon_tensor_t last_operands[MOST];
static int64_t last_shape[16], calls;

static char *address(const tenon_iterator_t *it, uint32_t operand, int64_t index, int64_t element) {
  const tenon_tensor_t *t = it->tensors[operand];
  return (t->device.type == 1 ? (char *)t->data : (char *)hide(t->data)) +
         tenon_iterator_at(it, operand, index, element);
}

static void remember(const tenon_iterator_t *it) {
  last = *it;
  calls++;
  for (uint32_t i = 0; i < it->count && i < MOST; i++)
    if (it->tensors[i]) last_operands[i] = *it->tensors[i];
  memcpy(last_shape, it->shape, (size_t)(it->ndim + it->reduced) * sizeof *last_shape);
}

/* Iterates over runs of the last axis, as a stub would. */
static tenon_status_t multiply(const tenon_iterator_t *it) {
  int32_t axis = it->ndim - 1;
  remember(it);
  for (int64_t i = it->begin, n; i < it->end; i += n) {
    const char *a = address(it, 0, i, 0);
    const char *b = address(it, 1, i, 0);
    char *out = address(it, 2, i, 0);
    n = tenon_iterator_run(it, i);
    CHECK(n > 0 && n <= it->end - i);
    for (int64_t k = 0; k < n; k++) {
      int32_t x = *(const int32_t *)(a + k * it->strides[0][axis]);
      int32_t y = *(const int32_t *)(b + k * it->strides[1][axis]);
      *(int32_t *)(out + k * it->strides[2][axis]) = x * y + x;
    }
  }
  return TENON_OK;
}

static tenon_status_t total(const tenon_iterator_t *it) {
  remember(it);
  CHECK(it->tensors[1] == NULL && it->reduced >= 1);
  for (int64_t i = it->begin; i < it->end; i++) {
    int32_t sum = 0;
    for (int64_t k = 0; k < it->inner; k++)
      sum += *(int32_t *)(void *)address(it, 0, i, k);
    *(int32_t *)(void *)address(it, 2, i, 0) = sum;
  }
  return TENON_OK;
}

static void start(void) {
  static int started;
  int64_t size = MEMORY;
  if (started++) return;
  npu_start();
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_I32), 1, &size, &memory), TENON_OK);
  for (int32_t i = 0; i < MEMORY; i++)
    ((int32_t *)memory->data)[i] = (i * 7 + 3) % 101 - 50;
  CHECK_STATUS(tenon_tensor_copy_to(memory, npu_device, &npu_memory), TENON_OK);
}

static tenon_registration_t *fill_slot(const char *op, const char *where, tenon_stub_fn stub,
                                       uint32_t flags) {
  tenon_registration_t *r = NULL;
  CHECK_STATUS(tenon_stub_add(op, where, stub, NULL, NULL, flags, &r), TENON_OK);
  return r;
}

/* Limits the instruction sets (NULL: no limit), and has the limit read as at a start of the
 * runtime. */
static void limit_to(const char *limit) {
  if (limit)
    setenv("TENON_CPU_CAPABILITY", limit, 1);
  else
    unsetenv("TENON_CPU_CAPABILITY");
  tn_cpu_limit_read();
}

/* Fills a stub of the CPU as on a processor with no more than that instruction set. */
static tenon_registration_t *fill_under(const char *limit, const char *op, const char *where,
                                        tenon_stub_fn stub, uint32_t flags) {
  limit_to(limit);
  tenon_registration_t *r = fill_slot(op, where, stub, flags);
  limit_to(NULL);
  return r;
}

static tenon_tensor_t *view_of(const view_case_t *v, bool on_npu) {
  tenon_tensor_t *t = NULL;
  tenon_tensor_t *of = on_npu ? npu_memory : memory;
  CHECK_STATUS(tenon_tensor_borrow_on(on_npu ? npu_device : cpu_device,
                                      (char *)of->data + v->offset * 4, tenon_dtype(TENON_I32),
                                      v->ndim, v->shape, v->strides, NULL, NULL, &t),
               TENON_OK);
  return t;
}

static tenon_tensor_t *host_of(const tenon_tensor_t *t) {
  tenon_tensor_t *host = NULL;
  CHECK_STATUS(tenon_tensor_copy_to(t, cpu_device, &host), TENON_OK);
  return host;
}

static int64_t checksum(const tenon_tensor_t *t) {
  int64_t sum = 0;
  tenon_tensor_t *host = host_of(t);
  for (int64_t i = 0, n = tenon_count(host); i < n; i++)
    sum += tensor_int(host, i) * (i + 1);
  tenon_tensor_release(host);
  return sum;
}

static void check_axes(int case_index, int32_t ndim, int32_t reduced, const int64_t *shape) {
  bool same = last.ndim == ndim && last.reduced == reduced;
  for (int32_t i = 0; i < ndim + reduced && same; i++)
    same = last_shape[i] == shape[i];
  if (CHECK(same)) return;
  fprintf(stderr, "  case %d: %d + %d axes, expected %d + %d; first extents %lld and %lld\n",
          case_index, (int)last.ndim, (int)last.reduced, (int)ndim, (int)reduced,
          (long long)last_shape[0], (long long)shape[0]);
}

/* Makes a tensor on the device of `like`, with the same shape, whose axes are in reverse order and
 * backwards. */
static tenon_tensor_t *backwards_like(const tenon_tensor_t *like, bool on_npu,
                                      tenon_tensor_t **out_room) {
  int64_t strides[8];
  int64_t room = 1;
  int64_t first = 0;
  tenon_tensor_t *t = NULL;
  for (int32_t i = 0; i < like->ndim; i++) {
    strides[i] = -room * 2;
    room *= 2 * (like->shape[i] ? like->shape[i] : 1);
    if (like->shape[i]) first -= (like->shape[i] - 1) * strides[i];
  }
  CHECK_STATUS(tenon_tensor_create_on(on_npu ? npu_device : cpu_device, tenon_dtype(TENON_I32), 1,
                                      &room, out_room),
               TENON_OK);
  CHECK_STATUS(tenon_tensor_borrow_on((*out_room)->device, (char *)(*out_room)->data + first * 4,
                                      tenon_dtype(TENON_I32), like->ndim, like->shape, strides,
                                      NULL, NULL, &t),
               TENON_OK);
  return t;
}

/* what the parent kernel does */

static void check_pointwise(bool on_npu) {
  const tenon_op_t *op = op_of("core::mul");
  for (size_t i = 0; i < sizeof pointwise_cases / sizeof *pointwise_cases; i++) {
    const pointwise_case_t *c = &pointwise_cases[i];
    tenon_tensor_t *inputs[2] = {view_of(&c->a, on_npu), view_of(&c->b, on_npu)};
    tenon_tensor_t *out = NULL;
    tenon_tensor_t *room, *given;
    calls = 0;
    CHECK_STATUS(tenon_op_call(op, NULL, inputs, &out, 0), TENON_OK);
    CHECK(calls == (tenon_count(out) > 0) && checksum(out) == c->checksum);
    if (calls && !(out->keys & (uint64_t)1 << 48)) check_axes((int)i, c->ndim, 0, c->shape);
    given = backwards_like(out, on_npu, &room);
    CHECK_STATUS(tenon_op_call_into(op, NULL, inputs, &given), TENON_OK);
    CHECK(checksum(given) == c->checksum);
    tenon_tensor_release(inputs[0]);
    tenon_tensor_release(inputs[1]);
    tenon_tensor_release(out);
    tenon_tensor_release(given);
    tenon_tensor_release(room);
  }
}

TEST("a stub gets what NumPy would iterate over: broadcast operands, any strides, merged axes, and "
     "no empty call") {
  start();
  tenon_registration_t *there = fill_slot("core::mul", "npu i32 strided", multiply, 0);
  tenon_registration_t *here =
      fill_under("default", "core::mul", "cpu i32 strided", multiply, TENON_OVERRIDE);
  check_pointwise(true);
  check_pointwise(false);
  tenon_registration_release(here);
  tenon_registration_release(there);
}

static void check_reductions(bool on_npu) {
  const tenon_op_t *op = op_of("core::reduce_sum");
  for (size_t i = 0; i < sizeof reduction_cases / sizeof *reduction_cases; i++) {
    const reduction_case_t *c = &reduction_cases[i];
    tenon_tensor_t *inputs[2] = {view_of(&c->x, on_npu), NULL};
    tenon_tensor_t *out = NULL;
    tenon_tensor_t *room, *given;
    int64_t count = c->axis_count;
    tenon_attrs_t *attrs = attrs_of(op, c->keeps ? "keepdims=True" : "keepdims=False");
    if (count)
      CHECK_STATUS(tenon_tensor_borrow((void *)(uintptr_t)c->axes, tenon_dtype(TENON_I64), 1,
                                       &count, NULL, NULL, NULL, &inputs[1]),
                   TENON_OK);
    calls = 0;
    CHECK_STATUS(tenon_op_call(op, attr_values(attrs), inputs, &out, 0), TENON_OK);
    CHECK(calls == (tenon_count(out) > 0) && checksum(out) == c->checksum);
    if (calls && c->ndim) check_axes((int)i, c->ndim, c->reduced, c->shape);
    given = backwards_like(out, on_npu, &room);
    CHECK_STATUS(tenon_op_call_into(op, attr_values(attrs), inputs, &given), TENON_OK);
    CHECK(checksum(given) == c->checksum);
    tenon_attrs_release(attrs);
    tenon_tensor_release(inputs[0]);
    tenon_tensor_release(inputs[1]);
    tenon_tensor_release(out);
    tenon_tensor_release(given);
    tenon_tensor_release(room);
  }
}

TEST("the stub of a reduction gets kept and reduced axes, merged as NumPy merges them") {
  start();
  tenon_registration_t *there = fill_slot("core::reduce_sum", "npu i32 strided", total, 0);
  tenon_registration_t *here =
      fill_under("default", "core::reduce_sum", "cpu i32 strided", total, 0);
  check_reductions(true);
  check_reductions(false);
  tenon_registration_release(here);
  tenon_registration_release(there);
}

TEST("a reduction of no elements gives the stub's initial value, and without results the stub is "
     "not called") {
  start();
  tenon_registration_t *r = fill_slot("core::reduce_sum", "npu i32", total, 0);
  const view_case_t empty = {0, 3, {2, 0, 3}, {3, 3, 1}};
  const struct {
    const char *axes;
    const char *expected;
    int64_t calls;
  } cases[] = {{"i64[1] 1", "i32[2, 1, 3] 0 0 0 0 0 0", 1},
               {"i64[2] 0 2", "i32[1, 0, 1]", 0},
               {NULL, "i32[1, 1, 1] 0", 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tenon_tensor_t *inputs[2] = {view_of(&empty, true), tensor_of(cases[i].axes)};
    tenon_tensor_t *out = NULL;
    calls = 0;
    CHECK_STATUS(tenon_op_call(op_of("core::reduce_sum"), NULL, inputs, &out, 0), TENON_OK);
    tenon_tensor_t *host = host_of(out);
    CHECK_TENSOR(host, cases[i].expected);
    CHECK(calls == cases[i].calls && (!calls || last.inner == 0));
    tenon_tensor_release(inputs[0]);
    tenon_tensor_release(inputs[1]);
    tenon_tensor_release(out);
    tenon_tensor_release(host);
  }
  tenon_registration_release(r);
}

static tenon_status_t multiply_dense(const tenon_iterator_t *it) {
  for (uint32_t i = 0; i < it->count; i++)
    CHECK(it->tensors[i]->strides[1] == 1 &&
          it->tensors[i]->strides[0] == it->tensors[i]->shape[1]);
  return multiply(it);
}

TEST("a stub that is not declared strided gets dense operands, which are broadcast all the same") {
  start();
  tenon_registration_t *r = fill_slot("core::mul", "npu i32", multiply_dense, 0);
  const view_case_t a = {0, 2, {3, 4}, {1, 3}};
  const view_case_t b = {7, 2, {1, 4}, {9, -2}};
  tenon_tensor_t *inputs[2] = {view_of(&a, true), view_of(&b, true)};
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_op_call(op_of("core::mul"), NULL, inputs, &out, 0), TENON_OK);
  int64_t sum = 0;
  const int32_t *m = memory->data;
  for (int64_t i = 0; i < 12; i++) {
    int32_t x = m[i / 4 + i % 4 * 3];
    int32_t y = m[7 - i % 4 * 2];
    sum += (x * y + x) * (i + 1);
  }
  CHECK(checksum(out) == sum);
  tenon_tensor_release(inputs[0]);
  tenon_tensor_release(inputs[1]);
  tenon_tensor_release(out);
  tenon_registration_release(r);
}

static void check_overlap(bool on_npu) {
  const int64_t shape[1] = {6};
  int64_t size = 8;
  const struct {
    int64_t from;
    int64_t to;
    const char *expected; /* np.add(np.multiply(x, x), x, out=y) of np.arange(8) */
  } cases[] = {{0, 1, "i32[8] 0 0 2 6 12 20 30 7"},
               {2, 1, "i32[8] 0 6 12 20 30 42 56 7"},
               {1, 1, "i32[8] 0 2 6 12 20 30 42 7"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tenon_tensor_t *host = tensor_of("i32[8] 0 1 2 3 4 5 6 7");
    tenon_tensor_t *room = NULL;
    tenon_tensor_t *x = NULL;
    tenon_tensor_t *y = NULL;
    tenon_tensor_t *inputs[2];
    CHECK_STATUS(tenon_tensor_copy_to(host, on_npu ? npu_device : cpu_device, &room), TENON_OK);
    CHECK(room->shape[0] == size);
    CHECK_STATUS(tenon_tensor_borrow_on(room->device, (char *)room->data + cases[i].from * 4,
                                        room->dtype, 1, shape, NULL, NULL, NULL, &x),
                 TENON_OK);
    CHECK_STATUS(tenon_tensor_borrow_on(room->device, (char *)room->data + cases[i].to * 4,
                                        room->dtype, 1, shape, NULL, NULL, NULL, &y),
                 TENON_OK);
    inputs[0] = inputs[1] = x;
    CHECK_STATUS(tenon_op_call_into(op_of("core::mul"), NULL, inputs, &y), TENON_OK);
    CHECK((last_operands[0].data == x->data) ==
          /* An input at the same address is not copied. */
          (cases[i].from == cases[i].to));
    tenon_tensor_release(host);
    host = host_of(room);
    CHECK_TENSOR(host, cases[i].expected);
    tenon_tensor_release(host);
    tenon_tensor_release(x);
    tenon_tensor_release(y);
    tenon_tensor_release(room);
  }
}

TEST("an input that a result would overwrite is copied first, unless both have the same address") {
  start();
  tenon_registration_t *there = fill_slot("core::mul", "npu i32 strided", multiply, 0);
  tenon_registration_t *here =
      fill_under("default", "core::mul", "cpu i32 strided", multiply, TENON_OVERRIDE);
  check_overlap(true);
  check_overlap(false);
  tenon_registration_release(here);
  tenon_registration_release(there);
}

TEST("operands with the same gaps are used in place") {
  start();
  tenon_registration_t *r =
      fill_under("default", "core::mul", "cpu i32 strided", multiply, TENON_OVERRIDE);
  const int64_t shape[2] = {2, 2};
  const int64_t strides[2] = {4, 2};
  tenon_tensor_t *from = tensor_of("i32[8] 1 2 3 4 5 6 7 8");
  tenon_tensor_t *to = tensor_of("i32[8] 0 0 0 0 0 0 0 0");
  tenon_tensor_t *x, *y;
  CHECK_STATUS(tenon_tensor_borrow(from->data, from->dtype, 2, shape, strides, NULL, NULL, &x),
               TENON_OK);
  CHECK_STATUS(tenon_tensor_borrow(to->data, to->dtype, 2, shape, strides, NULL, NULL, &y),
               TENON_OK);
  tenon_tensor_t *inputs[2] = {x, x};
  CHECK_STATUS(tenon_op_call_into(op_of("core::mul"), NULL, inputs, &y), TENON_OK);
  CHECK_TENSOR(to, "i32[8] 2 0 12 0 30 0 56 0");
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  tenon_tensor_release(from);
  tenon_tensor_release(to);
  tenon_registration_release(r);
}

TEST("numbers in host memory are copied to the device of the call, and results elsewhere are "
     "refused") {
  start();
  tenon_registration_t *r = fill_slot("core::mul", "npu i32 strided", multiply, 0);
  const view_case_t a = {0, 1, {3}, {1}};
  tenon_tensor_t *inputs[2] = {view_of(&a, true), tensor_of("i32[] 10")};
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_op_call(op_of("core::mul"), NULL, inputs, &out, 0), TENON_OK);
  CHECK(out->device.type == npu_device.type && last_operands[1].device.type == npu_device.type);
  tenon_tensor_t *host = host_of(out);
  tenon_tensor_t *here = tensor_of("i32[3] 0 0 0");
  CHECK_TENSOR(host, "i32[3] -517 -440 -363"); /* -47, -40 and -33, 11 times */
  CHECK_STATUS(tenon_op_run(op_of("core::mul"), NULL, inputs, &here), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "core::mul: arguments in host memory: out");
  tenon_tensor_release(inputs[0]);
  tenon_tensor_release(inputs[1]);
  tenon_tensor_release(out);
  tenon_tensor_release(host);
  tenon_tensor_release(here);
  tenon_registration_release(r);
}

/* which function is called */

#define NUMBERED(n)                                                                                \
  static tenon_status_t number_##n(const tenon_iterator_t *it) {                                   \
    for (int64_t i = it->begin; i < it->end; i++)                                                  \
      *(float *)(void *)address(it, it->count - 1, i, 0) = n;                                      \
    return TENON_OK;                                                                               \
  }
NUMBERED(1)
NUMBERED(2)
NUMBERED(3)
NUMBERED(4)

static int answer(const char *name, bool on_npu) {
  tenon_tensor_t *x = tensor_of("f32[2] 5 5");
  tenon_tensor_t *there = x;
  tenon_tensor_t *out = NULL;
  if (on_npu) CHECK_STATUS(tenon_tensor_copy_to(x, npu_device, &there), TENON_OK);
  tenon_tensor_t *inputs[2] = {there, there};
  int found = -1;
  if (CHECK_STATUS(tenon_op_call(op_of(name), NULL, inputs, &out, 0), TENON_OK)) {
    tenon_tensor_t *host = host_of(out);
    found = (int)tensor_float(host, 1);
    tenon_tensor_release(host);
  }
  tenon_tensor_release(x);
  tenon_tensor_release(out);
  if (on_npu) tenon_tensor_release(there);
  return found;
}

TEST("of the CPU's stubs, the newest one for the best available instruction set is called") {
  start();
  static const char *const limits[] = {"default", "avx2", "avx512"};
  bool has[3] = {true, tn_cpu_has(tn_cpu_rank("avx2", 4)), tn_cpu_has(tn_cpu_rank("avx512", 6))};
  if (!has[1]) SKIP("this processor has no AVX2");
  for (int i = 0; i < 3; i++) {
    if (!has[i]) continue;
    limit_to(limits[i]);
    tenon_registration_t *base = fill_slot("core::add", "cpu f32", number_1, TENON_OVERRIDE);
    CHECK(answer("core::add", false) ==
          /* A loop of core has a better instruction set. */
          (i == 0 ? 1 : 10));
    tenon_registration_t *avx2 = fill_slot("core::add", "cpu avx2 f32", number_2, TENON_OVERRIDE);
    CHECK(answer("core::add", false) == (i == 0 ? 1 : i == 1 ? 2 : 10));
    tenon_registration_t *avx512 =
        fill_slot("core::add", "cpu avx512 f32", number_3, TENON_OVERRIDE);
    CHECK(answer("core::add", false) == i + 1);
    tenon_registration_t *newer =
        fill_slot("core::add", "cpu avx512 f32", number_4, TENON_OVERRIDE);
    CHECK(answer("core::add", false) == (i == 2 ? 4 : i + 1));
    tenon_registration_release(newer);
    tenon_registration_release(avx512);
    CHECK(answer("core::add", false) == (i == 0 ? 1 : i == 1 ? 2 : 10));
    tenon_registration_release(avx2);
    tenon_registration_release(base);
    CHECK(answer("core::add", false) == 10);
    limit_to(NULL);
  }
}

static tenon_status_t whole_kernel(tenon_call_t *call) {
  for (int64_t i = 0; i < tenon_count(call->outputs[0]); i++)
    ((float *)show(call->outputs[0]))[i] = 7;
  return TENON_OK;
}

TEST("a filled stub is a kernel of its backend: the newest wins, TENON_OVERRIDE replaces it, it "
     "can be undone, and it precedes the fallback") {
  start();
  const tenon_op_t *op = op_of("core::sub");
  tenon_slot_info_t info = {.size = sizeof info};
  tenon_registration_t *again = NULL;
  tenon_registration_t *kernel = NULL;
  /* The call falls back. */
  CHECK(answer("core::sub", true) == 0 && !tenon_op_has_kernel(op, "npu"));
  tenon_registration_t *r = fill_slot("core::sub", "npu f32 strided", number_1, 0);
  CHECK(answer("core::sub", true) == 1 && tenon_op_has_kernel(op, "npu"));
  CHECK_STATUS(tenon_op_slot(op, "npu", &info), TENON_OK);
  CHECK_TEXT(info.rule, "kernel"), CHECK_TEXT(info.kernel, "npu stub f32 strided");
  CHECK(info.function == (tenon_any_fn)number_1);
  CHECK_STATUS(tenon_stub_add("core::sub", "npu f32", number_2, NULL, NULL, 0, &again),
               TENON_EXISTS);
  CHECK_TEXT(tenon_error(), "a kernel 'npu stub f32 strided' is there already");
  again = fill_slot("core::sub", "npu f32", number_2, TENON_OVERRIDE);
  CHECK(answer("core::sub", true) == 2);
  CHECK_STATUS(
      tenon_kernel_add("core::sub", "npu f32", whole_kernel, NULL, NULL, TENON_OVERRIDE, &kernel),
      TENON_OK);
  CHECK(answer("core::sub", true) == 7);
  tenon_registration_release(kernel);
  CHECK(answer("core::sub", true) == 2);
  tenon_registration_release(again);
  CHECK(answer("core::sub", true) == 1);
  tenon_registration_release(r);
  CHECK(answer("core::sub", true) == 0 && !tenon_op_has_kernel(op, "npu"));
}

TEST("a stub may be filled before its operator is defined") {
  start();
  static const tenon_item_t items[] = {
      TENON_OP("later::scaled(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"),
               TENON_TRAITS(TENON_POINTWISE), TENON_STUB("cpu f32", number_1)),
      {TENON_TAG_END, 0, 0, NULL, NULL}};
  char *waiting = NULL;
  tenon_registration_t *r = fill_slot("later::scaled", "npu f32", number_2, 0);
  tenon_registration_t *defined = NULL;
  CHECK_STATUS(tenon_dangling(&waiting), TENON_OK);
  CHECK_TEXT(waiting, "later::scaled");
  tenon_text_release(waiting);
  CHECK_STATUS(tenon_op_add(items, NULL, NULL, 0, &defined), TENON_OK);
  CHECK(answer("later::scaled", true) == 2 && answer("later::scaled", false) == 1);
  tenon_registration_release(r);
  tenon_registration_release(defined);
}

/* ranges and threads */

static int64_t parts, parts_size,
    /* A part that begins at or after this element fails; -1: none fails. */
    parts_stop;

static tenon_status_t square_part(const tenon_iterator_t *it) {
  __atomic_fetch_add(&parts, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&parts_size, it->end - it->begin, __ATOMIC_RELAXED);
  if (parts_stop >= 0 && it->begin >= parts_stop)
    return tenon_fail(it, TENON_ABORTED, "a part of %s", (char *)it->context);
  for (int64_t i = it->begin, n; i < it->end; i += n) {
    n = tenon_iterator_run(it, i);
    for (int64_t k = 0; k < n; k++)
      *(float *)(void *)(address(it, 1, i, 0) + k * it->strides[1][it->ndim - 1]) +=
          *(float *)(void *)(address(it, 0, i, 0) + k * it->strides[0][it->ndim - 1]);
  }
  return TENON_OK;
}

static char texts[] = "this test";
static tenon_status_t square_split(const tenon_iterator_t *it) {
  memset(it->tensors[1]->data, 0,
         /* Each part adds to its elements, so an element in two parts shows. */
         (size_t)it->end * sizeof(float));
  return it->host->split(it, 100, square_part, texts);
}

TEST("a range is split for threads: every element is in one part, whatever the number of threads, "
     "and failures come back") {
  start();
  const int64_t shape[3] = {7, 5, 64};
  const int64_t strides[3] = {64, 448, 1};
  tenon_registration_t *r =
      fill_under("default", "core::floor", "cpu f32 strided", square_split, TENON_OVERRIDE);
  tenon_tensor_t *x = tensor_of("f32[2240] ~5");
  tenon_tensor_t *view = NULL;
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_tensor_borrow(x->data, x->dtype, 3, shape, strides, NULL, NULL, &view),
               TENON_OK);
  for (int32_t threads = 1; threads <= 8; threads += 7) {
    tenon_threads_set(threads);
    tenon_tensor_t *given = tensor_of("f32[7, 5, 64] ~6");
    parts = parts_size = 0;
    parts_stop = -1;
    CHECK_STATUS(tenon_op_call_into(op_of("core::floor"), NULL, &view, &given), TENON_OK);
    CHECK(parts == (threads == 1 ? 1 : 22) && parts_size == 2240);
    for (int64_t i = 0; i < 2240; i++)
      if (!CHECK(((float *)given->data)[i] ==
                 ((float *)x->data)[i / 320 * 64 + i / 64 % 5 * 448 + i % 64]))
        break;
    tenon_tensor_release(given);
  }
  parts_stop = 1;
  CHECK_STATUS(tenon_op_call(op_of("core::floor"), NULL, &view, &out, 0), TENON_ABORTED);
  CHECK_TEXT(tenon_error(), "core::floor: a part of this test");
  tenon_threads_set(0);
  tenon_tensor_release(x);
  tenon_tensor_release(view);
  tenon_registration_release(r);
}

static tenon_status_t total_part(const tenon_iterator_t *it) {
  __atomic_fetch_add(&parts, 1, __ATOMIC_RELAXED);
  for (int64_t i = it->begin; i < it->end; i++) {
    float sum = 0;
    for (int64_t k = 0; k < it->inner; k++)
      sum += *(float *)(void *)address(it, 0, i, k);
    *(float *)(void *)address(it, 2, i, 0) = sum;
  }
  return TENON_OK;
}
static tenon_status_t total_split(const tenon_iterator_t *it) {
  return it->host->split(it, 64, total_part, NULL);
}

TEST("the size of a reduction's parts depends on the elements that are read") {
  start();
  tenon_registration_t *r = fill_under("default", "core::reduce_sum", "cpu f32", total_split, 0);
  tenon_tensor_t *inputs[2] = {
      tensor_of("f32[4, 2, 3] 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23"),
      NULL};
  tenon_threads_set(4);
  parts = 0;
  tenon_tensor_t *out = NULL;
  inputs[1] = tensor_of("i64[2] 1 -1");
  CHECK_STATUS(tenon_op_call(op_of("core::reduce_sum"), NULL, inputs, &out, 0), TENON_OK);
  CHECK_TENSOR(out, "f32[4, 1, 1] 15 51 87 123");
  CHECK(parts == 1); /* 24 elements */
  tenon_tensor_release(inputs[0]);
  tenon_tensor_release(inputs[1]);
  tenon_tensor_release(out);
  inputs[0] = tensor_of("f32[8, 64] ~1");
  inputs[1] = tensor_of("i64[1] 1");
  parts = 0;
  out = NULL;
  CHECK_STATUS(tenon_op_call(op_of("core::reduce_sum"), NULL, inputs, &out, 0), TENON_OK);
  CHECK(parts == 8); /* of 64 elements, the least for this operator */
  tenon_threads_set(0);
  tenon_tensor_release(inputs[0]);
  tenon_tensor_release(inputs[1]);
  tenon_tensor_release(out);
  tenon_registration_release(r);
}

/* reductions of other libraries */

/* The largest element along an axis, weighted, and its index. */
static tenon_status_t largest(const tenon_iterator_t *it) {
  CHECK(tenon_dtype_id(it->dtype) == TENON_F32 && it->count == 4);
  for (int64_t i = it->begin; i < it->end; i++) {
    float best = 0;
    int64_t at = -1;
    for (int64_t k = 0; k < it->inner; k++) {
      float value = *(float *)(void *)address(it, 0, i, k);
      if (it->tensors[1]) value *= *(float *)(void *)address(it, 1, i, k);
      if (at < 0 || value > best) {
        best = value;
        at = k;
      }
    }
    *(float *)(void *)address(it, 2, i, 0) = best;
    if (it->tensors[3]) *(int64_t *)(void *)address(it, 3, i, 0) = at;
  }
  return TENON_OK;
}

static tenon_status_t largest_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  int64_t axis = infer->attrs[0].as.i < 0 ? infer->attrs[0].as.i + x->ndim : infer->attrs[0].as.i;
  for (int o = 0; o < 2; o++) {
    if (!infer->outputs[o]) continue;
    infer->outputs[o]->ndim = 0;
    for (int32_t i = 0; i < x->ndim; i++)
      if (i != axis) infer->outputs[o]->dims[infer->outputs[o]->ndim++] = x->dims[i];
  }
  return TENON_OK;
}

#define LARGEST(reduces, ...)                                                                      \
  {                                                                                                \
    TENON_OP(                                                                                      \
        "own::largest(Tensor x, Tensor? weight=None, *, int axis=-1) -> (Tensor out, Tensor? at)", \
        TENON_TYPES("x, weight: f32; out = x; at = i64"), TENON_REDUCES(reduces),                  \
        TENON_INFER(largest_infer), __VA_ARGS__),                                                  \
    {                                                                                              \
      TENON_TAG_END, 0, 0, NULL, NULL                                                              \
    }                                                                                              \
  }

TEST("any library may define a reduction: an axis by attribute, a broadcast second input, two "
     "results") {
  start();
  static const tenon_item_t items[] =
      LARGEST("x over axis", TENON_STUB("cpu f32 strided", largest));
  tenon_registration_t *defined = NULL;
  CHECK_STATUS(tenon_op_add(items, NULL, NULL, 0, &defined), TENON_OK);
  tenon_tensor_t *inputs[2] = {tensor_of("f32[2, 3] 1 5 2 9 4 8"), NULL};
  tenon_tensor_t *outputs[2] = {NULL, NULL};
  tenon_attrs_t *attrs = attrs_of(op_of("own::largest"), "axis=0");
  CHECK_STATUS(tenon_op_call(op_of("own::largest"), NULL, inputs, outputs, 0), TENON_OK);
  CHECK_TENSOR(outputs[0], "f32[2] 5 9"), CHECK_TENSOR(outputs[1], "i64[2] 1 0");
  tenon_tensor_release(outputs[0]);
  tenon_tensor_release(outputs[1]);
  outputs[0] = outputs[1] = NULL;
  inputs[1] = tensor_of("f32[3] 1 -1 2");
  CHECK_STATUS(tenon_op_call(op_of("own::largest"), attr_values(attrs), inputs, outputs, 1),
               TENON_OK);
  CHECK_TENSOR(outputs[0], "f32[3] 9 -4 16");
  CHECK(outputs[1] == NULL && tenon_op_stub(op_of("own::largest")) &&
        !tenon_op_stub(op_of("core::matmul")));
  tenon_tensor_release(outputs[0]);
  tenon_tensor_release(inputs[0]);
  tenon_tensor_release(inputs[1]);
  tenon_attrs_release(attrs);
  tenon_registration_release(defined);
}

TEST("the stub of core::sum_to gets the axes that broadcasting had added") {
  start();
  tenon_registration_t *r = fill_slot("core::sum_to", "npu i32 strided", total, 0);
  const view_case_t x = {0, 3, {2, 3, 2}, {6, 2, 1}};
  tenon_tensor_t *inputs[2] = {view_of(&x, true), tensor_of("i64[2] 1 2")};
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_op_call(op_of("core::sum_to"), NULL, inputs, &out, 0), TENON_OK);
  tenon_tensor_t *host = host_of(out);
  CHECK_TENSOR(host, "i32[1, 2] -72 -30"); /* (np.arange(12) * 7 - 47).reshape(6, 2).sum(0) */
  tenon_tensor_release(inputs[0]);
  tenon_tensor_release(inputs[1]);
  tenon_tensor_release(out);
  tenon_tensor_release(host);
  tenon_registration_release(r);
}

/* Returns the index of -10, or -1. */
static tenon_status_t find(const tenon_iterator_t *it) {
  for (int64_t i = it->begin; i < it->end; i++) {
    int64_t at = -1;
    for (int64_t k = 0; k < it->inner; k++)
      if (*(int32_t *)(void *)address(it, 0, i, k) == -10) at = k;
    *(int64_t *)(void *)address(it, 1, i, 0) = at;
  }
  return TENON_OK;
}

TEST("the stub of a backend works beside the CPU's whole kernel") {
  start();
  tenon_registration_t *r = fill_slot("core::arg_max", "npu i32 strided", find, 0);
  tenon_tensor_t *host = tensor_of("i32[3, 2] 1 -10 -10 5 6 7");
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *out = NULL;
  tenon_attrs_t *attrs = attrs_of(op_of("core::arg_max"), "axis=-1; keepdims=False");
  CHECK_STATUS(tenon_tensor_copy_to(host, npu_device, &x), TENON_OK);
  CHECK_STATUS(tenon_op_call(op_of("core::arg_max"), attr_values(attrs), &x, &out, 0), TENON_OK);
  tenon_tensor_release(host);
  host = host_of(out);
  CHECK_TENSOR(host, "i64[3] 1 0 -1");
  tenon_tensor_release(x);
  tenon_tensor_release(out);
  tenon_tensor_release(host);
  tenon_attrs_release(attrs);
  tenon_registration_release(r);
}

/* lists and errors */

TEST("filled stubs are listed, and the dispatch table names them") {
  start();
  const tenon_op_t *op = op_of("core::mul");
  tenon_registration_t *r = fill_slot("core::mul", "npu f32|i32 strided", multiply, 0);
  tenon_stub_slot_t slot = {.size = sizeof slot};
  tenon_stub_slot_t before = slot;
  CHECK_TEXT(tenon_op_stub(op), "pointwise"),
      CHECK_TEXT(tenon_op_stub(op_of("core::reduce_max")), "x over axes");
  CHECK(tenon_op_stub(op_of("core::concat")) == NULL);
  CHECK_STATUS(tenon_op_stub_slot(op, 0, &slot), TENON_OK);
  CHECK_TEXT(slot.backend, "npu"), CHECK_TEXT(slot.kernel, "npu stub f32|i32 strided"),
      CHECK_TEXT(slot.library, "program");
  CHECK(!*slot.capability && slot.is_usable);
  int32_t count = 1;
  for (; tenon_op_stub_slot(op, count, &slot) == TENON_OK; count++) {
    CHECK(strcmp(slot.backend, "cpu") == 0 &&
          slot.number < (count > 1 ? before.number : UINT64_MAX));
    before = slot;
    CHECK((strcmp(slot.capability, "avx2") == 0) == (strstr(slot.kernel, "avx2") != NULL));
    CHECK((*slot.capability == 0) ==
          (strchr(slot.kernel, ';') == NULL)); /* "cpu loop f32, f32 -> f32; avx2" */
    CHECK(slot.is_usable == tn_cpu_has(tn_cpu_rank(slot.capability, strlen(slot.capability))));
  }
  CHECK(count > 11);
  CHECK_STATUS(tenon_op_stub_slot(op, -1, &slot), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "core::mul: no slot -1 of its stub is filled");
  CHECK_STATUS(tenon_op_stub_slot(op_of("core::concat"), 0, &slot), TENON_INVALID);
  char *table = NULL;
  CHECK_STATUS(tenon_op_table(op, &table), TENON_OK);
  CHECK_TEXT(table, "kernel: npu stub f32|i32 strided [program");
  tenon_text_release(table);
  tenon_registration_release(r);
}

static void check_refused(const char *op, const char *where, tenon_stub_fn stub, uint32_t flags,
                          tenon_status_t status, const char *part) {
  tenon_registration_t *r = NULL;
  CHECK_STATUS(tenon_stub_add(op, where, stub, NULL, NULL, flags, &r), status);
  CHECK_TEXT(tenon_error(), part);
  tenon_registration_release(r);
}

TEST("an invalid stub is refused, and the message says what would be valid") {
  start();
  check_refused(
      "core::matmul", "npu f32", number_1, 0, TENON_INVALID,
      "core::matmul: 'npu stub f32': it has no stub, which only pointwise operators and reductions "
      "without lists have: expected KERNEL, or one of those that have: core::");
  CHECK_TEXT(tenon_error(), "... (all by `tenon ops --stubs`)");
  check_refused("core::mul", "composite", number_1, 0, TENON_INVALID,
                "stubs are of backends, and have functions");
  check_refused("core::mul", "autograd npu", number_1, 0, TENON_INVALID,
                "stubs are of backends, and have functions");
  check_refused("core::mul", "npu fallthrough", NULL, 0, TENON_INVALID,
                "stubs are of backends, and have functions");
  check_refused("core::mul", "npu", NULL, 0, TENON_INVALID,
                "core::mul: STUB 'npu' has no function");
  check_refused("core::mul", "npu f33", number_1, 0, TENON_INVALID, "f33");
  check_refused("core::mul", "npu f64", number_1, TENON_OVERRIDE, TENON_NOT_FOUND,
                "overrides nothing");
  check_refused(NULL, "npu f64", number_1, 0, TENON_INVALID,
                "a stub needs the name of its operator and of its backend");
}

static void check_undefined(const tenon_item_t *items, const char *part) {
  tenon_registration_t *r = NULL;
  CHECK_STATUS(tenon_op_add(items, NULL, NULL, 0, &r), TENON_INVALID);
  CHECK_TEXT(tenon_error(), part);
  tenon_registration_release(r);
}

static tenon_status_t no_loop(const tenon_loop_t *loop) {
  return tenon_fail(loop, TENON_INTERNAL, "never called");
}

TEST("the message for an operator without a stub lists those with one, however long its name is") {
#define LONG "stub_test::a_name_of_more_letters_than_those_that_are_compared_with_others"
  static const tenon_item_t items[] = {
      TENON_OP(LONG "(Tensor[] x) -> Tensor", TENON_TYPES("x: f32; out = x"),
               TENON_SHAPES("out: [1]"), TENON_STUB("npu f32", number_1)),
      {TENON_TAG_END, 0, 0, NULL, NULL}};
  start();
  check_undefined(items, LONG ": 'npu stub f32': it has no stub");
  CHECK_TEXT(tenon_error(), "one of those that have: core::");
}

TEST("declarations of reductions are checked") {
  static const tenon_item_t unknown[] = LARGEST("y over axis", TENON_STUB("cpu f32", largest));
  static const tenon_item_t word[] = LARGEST("x by axis", TENON_STUB("cpu f32", largest));
  static const tenon_item_t none[] = LARGEST("x over weight", TENON_STUB("cpu f32", largest));
  static const tenon_item_t optional[] =
      LARGEST("weight over axis", TENON_STUB("cpu f32", largest));
  static const tenon_item_t more[] = LARGEST("x over axis, x", TENON_STUB("cpu f32", largest));
  static const tenon_item_t loop[] =
      LARGEST("x over axis", TENON_LOOP("f32, f32 -> f32, i64", no_loop));
  start();
  check_undefined(unknown, "expected the name of an input, found 'y'");
  check_undefined(word, "'over' and axes, or the end");
  check_undefined(none,
                  "'weight' cannot list axes: expected an input that is @host, an int or int[]");
  check_undefined(optional,
                  "input 'weight' cannot be reduced: it is a list, optional, written to or @host");
  check_undefined(more, "expected the end");
  check_undefined(loop, "loops are of pointwise operators, and this one is a reduction");
}

TEST("tenon_op_run checks the axes and the result of a reduction") {
  start();
  tenon_registration_t *r = fill_slot("core::reduce_sum", "npu i32 strided", total, 0);
  const view_case_t x = {0, 2, {2, 3}, {3, 1}};
  const view_case_t y = {0, 3, {2, 1, 1}, {1, 1, 1}};
  tenon_tensor_t *inputs[2] = {view_of(&x, true), tensor_of("i64[1] 2")};
  tenon_tensor_t *out = view_of(&y, true);
  CHECK_STATUS(tenon_op_run(op_of("core::reduce_sum"), NULL, inputs, &out), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "core::reduce_sum: axis 2 is outside [-2, 2) of a tensor of rank 2");
  ((int64_t *)inputs[1]->data)[0] = -1;
  CHECK_STATUS(tenon_op_run(op_of("core::reduce_sum"), NULL, inputs, &out), TENON_INVALID);
  CHECK_TEXT(tenon_error(),
             "core::reduce_sum: result out of rank 3 does not fit input x of rank 2");
  tenon_tensor_release(inputs[0]);
  tenon_tensor_release(inputs[1]);
  tenon_tensor_release(out);
  tenon_registration_release(r);
}

TEST("elements smaller than a byte are refused, because they have no strides in bytes") {
  start();
  static const tenon_item_t items[] = {
      TENON_OP("own::small(Tensor x) -> Tensor", TENON_TYPES("x: any; out = x"),
               TENON_TRAITS(TENON_POINTWISE), TENON_STUB("cpu", number_1)),
      {TENON_TAG_END, 0, 0, NULL, NULL}};
  tenon_registration_t *r = NULL;
  int64_t shape[1] = {4};
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_op_add(items, NULL, NULL, 0, &r), TENON_OK);
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_I4), 1, shape, &x), TENON_OK);
  CHECK_STATUS(tenon_op_call(op_of("own::small"), NULL, &x, &out, 0), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(), "own::small: x: elements of i4 share bytes");
  tenon_tensor_release(x);
  tenon_registration_release(r);
}

static tenon_status_t call_overlapping(void *context) {
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *y = NULL;
  tenon_tensor_t *room = context;
  tenon_tensor_t *inputs[2];
  const int64_t shape[1] = {6};
  tenon_status_t status =
      tenon_tensor_borrow(room->data, room->dtype, 1, shape, NULL, NULL, NULL, &x);
  if (status == TENON_OK)
    status =
        tenon_tensor_borrow((int32_t *)room->data + 1, room->dtype, 1, shape, NULL, NULL, NULL, &y);
  inputs[0] = inputs[1] = x;
  if (status == TENON_OK) status = tenon_op_call_into(op_of("core::mul"), NULL, inputs, &y);
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  return status;
}

TEST("a stub with overlapping arguments survives the failure of each allocation") {
  start();
  tenon_registration_t *r =
      fill_under("default", "core::mul", "cpu i32 strided", multiply, TENON_OVERRIDE);
  tenon_tensor_t *room = tensor_of("i32[8] 0 1 2 3 4 5 6 7");
  fail_each("a stub with overlapping arguments", call_overlapping, room, 1);
  tenon_tensor_release(room);
  tenon_registration_release(r);
}

/* stubs in graphs and gradients */

TEST("graphs run with filled stubs, on the CPU and on a backend") {
  start();
  tenon_registration_t *there = fill_slot("core::mul", "npu i32 strided", multiply, 0);
  tenon_registration_t *here =
      fill_under("default", "core::mul", "cpu i32 strided", multiply, TENON_OVERRIDE);
  for (int on_npu = 0; on_npu < 2; on_npu++) {
    tenon_builder_t *b = graph_begin();
    tenon_edge_t inputs[2] = {graph_input(b, "a", TENON_I32, 2), graph_input(b, "b", TENON_I32, 1)};
    tenon_edge_t product;
    inputs[0] = graph_step(b, "core::transpose", "perm=[1, 0]", inputs[0]);
    graph_node(b, "product", "core::mul", NULL, inputs, &product, 1);
    graph_output(b, "y", product);
    tenon_executable_t *e = on_npu ? graph_compile_on(b, npu_device) : graph_compile(b, 0);
    calls = 0;
    CHECK_GRAPH(e, TEXTS("i32[2, 3] 1 2 3 4 5 6", "i32[2] 10 -1"),
                TEXTS("i32[3, 2] 11 0 22 0 33 0"));
    CHECK(calls == 1);
    tenon_executable_release(e);
  }
  tenon_registration_release(here);
  tenon_registration_release(there);
}

static tenon_status_t product(const tenon_iterator_t *it) {
  for (int64_t i = it->begin; i < it->end; i++)
    *(double *)(void *)address(it, 2, i, 0) =
        *(double *)(void *)address(it, 0, i, 0) * *(double *)(void *)address(it, 1, i, 0);
  return TENON_OK;
}

TEST("an operator keeps its gradient on a backend that fills its stub") {
  start();
  tenon_registration_t *r = fill_slot("core::mul", "npu f64 strided", product, 0);
  tenon_tensor_t *host = tensor_of("f64[3] 2 3 4");
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *y = NULL;
  tenon_tensor_t *out = NULL;
  tenon_tensor_t *inputs[2];
  CHECK_STATUS(tenon_tensor_copy_to(host, npu_device, &x), TENON_OK);
  CHECK_STATUS(tenon_tensor_copy_to(host, npu_device, &y), TENON_OK);
  CHECK_STATUS(tenon_tensor_require_grad(x, 1), TENON_OK);
  inputs[0] = x;
  inputs[1] = y;
  CHECK_STATUS(tenon_op_call(op_of("core::mul"), NULL, inputs, &out, 0), TENON_OK);
  CHECK_STATUS(tenon_backward(&out, &y, 1, 0), TENON_OK);
  tenon_tensor_release(host);
  host = host_of(tenon_tensor_grad(x));
  CHECK_TENSOR(host, "f64[3] 4 9 16"); /* y times the incoming gradient, y */
  tenon_tensor_release(host);
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  tenon_tensor_release(out);
  tenon_registration_release(r);
}
