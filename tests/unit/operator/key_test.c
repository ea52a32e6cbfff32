/* Keys of calls: names of backends, more of them than there are bits; tensors on several devices;
 * meta; keys that a thread includes and excludes; fallthroughs; tensors that are not dense, on
 * every backend. */
#include "base/thread.h"
#include "check.h"
#include "operator/key.h"
#include "tensors.h"

#include "operators.h"
#include "probes.h"

static double id[128]; /* the number that each kernel writes */
__attribute__((constructor)) static void number(void) {
  for (int i = 0; i < 128; i++)
    id[i] = i;
}

/* Calls `pair` with an argument on each of two backends, and with the result on the first. */
static tenon_status_t call_pair(const char *first, const char *second, double *out) {
  double in[2] = {0, 0};
  *out = PROBE_NOTHING;
  tenon_tensor_t *x[2] = {probe_tensor(first, &in[0]), probe_tensor(second, &in[1])};
  tenon_tensor_t *y = probe_tensor(first, out);
  tenon_status_t status = tenon_op_run(op_of("probe::pair"), NULL, x, &y);
  tenon_tensor_release(x[0]);
  tenon_tensor_release(x[1]);
  tenon_tensor_release(y);
  return status;
}

/* names */

TEST("backends are listed in the order in which they were named, and a device has its backend's "
     "number and an ordinal") {
  tenon_device_t a, b, again;
  probe_start();
  CHECK(strcmp(tenon_backend_name(0), "cpu") == 0 && strcmp(tenon_backend_name(1), "meta") == 0);
  CHECK_STATUS(tenon_device_find("alpha", 0, &a), TENON_OK);
  CHECK_STATUS(tenon_device_find("beta", 3, &b), TENON_OK);
  CHECK_STATUS(tenon_device_find("alpha", 255, &again), TENON_OK);
  CHECK(a.type == b.type && b.id - a.id == 256 + 3 && again.id == a.id + 255);
  int32_t count = 0;
  while (tenon_backend_name(count))
    count++;
  CHECK(strcmp(tenon_backend_name(count - 1), "beta") == 0 &&
        strcmp(tenon_backend_name(count - 2), "alpha") == 0);
  CHECK(tenon_backend_name(-1) == NULL && tenon_backend_name(100000) == NULL);
  CHECK_STATUS(tenon_device_find("cpu", 0, &a), TENON_OK);
  CHECK(a.type == 1 && a.id == 0);
  CHECK_STATUS(tenon_device_find("alpha", 256, &a), TENON_RANGE);
  CHECK_STATUS(tenon_device_find("alpha", -1, &a), TENON_RANGE);
  CHECK_STATUS(tenon_device_find("meta", 1, &a), TENON_RANGE);
}

TEST("words that name keys or positions cannot name a backend") {
  static const char *const bad[] = {"",
                                    "strided",
                                    "layout",
                                    "autograd",
                                    "autocast",
                                    "view",
                                    "functional",
                                    "mode",
                                    "trace",
                                    "other",
                                    "all",
                                    "composite",
                                    "composite_explicit",
                                    "a b",
                                    "1a",
                                    "a-b",
                                    "above autograd"};
  tenon_device_t device;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    CHECK_STATUS(tenon_device_find(bad[i], 0, &device), TENON_INVALID);
}

TEST("a tensor must be on a device of a known backend") {
  static const tenon_device_t bad[] = {{12, 99 << 8}, {12, -1}, {12, 0},
                                       {12, 256},     {2, 0},   {-1, 0}};
  double value = 0;
  int64_t one = 1;
  tenon_tensor_t *t = NULL;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    CHECK_STATUS(tenon_tensor_borrow_on(bad[i], &value, tenon_dtype(TENON_F64), 1, &one, NULL, NULL,
                                        NULL, &t),
                 TENON_INVALID);
    CHECK(t == NULL);
  }
}

TEST("keys of tensors and of the thread can be read") {
  double value[4] = {0};
  int64_t shape[2] = {2, 2};
  int64_t strides[2] = {1, 2};
  tenon_device_t alpha;
  tenon_tensor_t *t = NULL;
  char *text = NULL;
  CHECK_STATUS(tenon_device_find("alpha", 1, &alpha), TENON_OK);
  CHECK_STATUS(tenon_tensor_borrow_on(alpha, value, tenon_dtype(TENON_F64), 2, shape, strides, NULL,
                                      NULL, &t),
               TENON_OK);
  CHECK_STATUS(tenon_keys_of(t, &text), TENON_OK);
  CHECK(strcmp(text, "{alpha, strided}") == 0);
  tenon_text_release(text);
  tenon_tensor_release(t);
  CHECK_STATUS(tenon_keys_of(NULL, &text), TENON_OK);
  CHECK(strcmp(text, "{}") == 0);
  tenon_text_release(text);
  tenon_key_include("autograd", 1);
  tenon_key_include("functional", 1);
  tenon_key_exclude("functional", 1);
  CHECK_STATUS(tenon_keys_of(NULL, &text), TENON_OK);
  CHECK(strcmp(text, "{autograd}") == 0);
  tenon_text_release(text);
  tenon_key_include("autograd", 0);
  tenon_key_include("functional", 0);
  tenon_key_exclude("functional", 0);
}

/* devices of arguments */

TEST("arguments on two devices are refused with both named, but a meta tensor may be among them") {
  double out;
  probe_start();
  tenon_registration_t *a = probe_add("probe::pair", "npu", &id[1], 0);
  tenon_registration_t *b = probe_add("probe::pair", "gpu", &id[2], 0);
  tenon_registration_t *c = probe_add("probe::pair", "cpu", &id[3], 0);
  tenon_registration_t *m = probe_add("probe::pair", "meta", &id[4], 0);
  CHECK_STATUS(call_pair("npu", "npu", &out), TENON_OK);
  CHECK(out == 1);
  CHECK_STATUS(call_pair("npu", "gpu", &out), TENON_INVALID);
  CHECK_TEXT(tenon_error(),
             "probe::pair: arguments on several devices: x on npu:0, y on gpu:0; move them to one");
  CHECK_STATUS(call_pair("gpu", "npu", &out), TENON_INVALID);
  CHECK(out == PROBE_NOTHING);
  CHECK_STATUS(call_pair("npu", "meta", &out), TENON_OK);
  CHECK(out == 4);
  CHECK_STATUS(call_pair("cpu", "cpu", &out), TENON_OK);
  CHECK(out == 3);
  tenon_key_include("autograd", 1); /* Layers that do nothing do not matter. */
  CHECK_STATUS(call_pair("npu", "gpu", &out), TENON_INVALID);
  tenon_key_include("autograd", 0);
  tenon_registration_release(a);
  tenon_registration_release(b);
  tenon_registration_release(c);
  tenon_registration_release(m);
}

TEST("meta is a backend of its own, and kernels, composites and a fallback serve it") {
  probe_start();
  /* infer alone answers a call on meta. */
  CHECK_ANSWER("probe::plain", "meta", PROBE_NOTHING);
  tenon_registration_t *fallback = probe_fallback("meta", &id[1], 0);
  CHECK_ANSWER("probe::plain", "meta", 1);
  tenon_registration_t *composite = probe_add("probe::plain", "composite", &id[2], 0);
  CHECK_ANSWER("probe::plain", "meta", 2);
  tenon_registration_t *kernel = probe_add("probe::plain", "meta", &id[3], 0);
  CHECK_ANSWER("probe::plain", "meta", 3);
  CHECK_ANSWER("probe::plain", "npu", 2);
  tenon_registration_release(composite);
  tenon_registration_release(kernel);
  tenon_registration_release(fallback);
}

/* keys that a thread includes and excludes */

TEST("a thread includes and excludes keys, exclusion beats inclusion, and other threads are not "
     "affected") {
  probe_start();
  tenon_registration_t *cpu = probe_add("probe::plain", "cpu", &id[1], 0);
  tenon_registration_t *npu = probe_add("probe::plain", "npu", &id[2], 0);
  tenon_registration_t *gradient = probe_add("probe::plain", "autograd", &id[3], 0);
  CHECK_ANSWER("probe::plain", "cpu", 1);
  CHECK_STATUS(tenon_key_include("autograd", 1), TENON_OK);
  CHECK_ANSWER("probe::plain", "cpu", 3);
  CHECK_STATUS(tenon_key_exclude("autograd", 1), TENON_OK);
  CHECK_ANSWER("probe::plain", "cpu", 1);
  CHECK_STATUS(tenon_key_exclude("autograd", 0), TENON_OK);
  CHECK_ANSWER("probe::plain", "cpu", 3);
  CHECK_STATUS(tenon_key_include("autograd", 0), TENON_OK);
  CHECK_STATUS(tenon_key_include("npu", 1), TENON_OK);
  CHECK_ANSWER("probe::plain", "cpu", 2);
  CHECK_STATUS(tenon_key_include("npu", 0), TENON_OK);
  CHECK_STATUS(tenon_key_exclude("npu", 1), TENON_OK);
  CHECK_ANSWER("probe::plain", "npu", 1);
  CHECK_STATUS(tenon_key_exclude("cpu", 1), TENON_OK);
  CHECK_REFUSED("probe::plain", "npu", TENON_UNIMPLEMENTED, "probe::plain: no kernel for no key");
  CHECK_STATUS(tenon_key_exclude("cpu", 0), TENON_OK);
  CHECK_STATUS(tenon_key_exclude("npu", 0), TENON_OK);
  CHECK_ANSWER("probe::plain", "npu", 2);
  tenon_registration_release(cpu);
  tenon_registration_release(npu);
  tenon_registration_release(gradient);
}

TEST("keys that follow from tensors, the process or layers cannot be switched by hand") {
  static const char *const fixed[] = {"strided", "layout",         "mode",
                                      "trace",   "above autograd", "below view"};
  for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
    CHECK_STATUS(tenon_key_include(fixed[i], 1), TENON_INVALID);
    CHECK_STATUS(tenon_key_exclude(fixed[i], 1), TENON_INVALID);
  }
  CHECK_STATUS(tenon_key_exclude("no_such_key", 1), TENON_NOT_FOUND);
  CHECK_TEXT(tenon_error(), "no key is called 'no_such_key'");
}

/* fallthroughs */

static tenon_status_t pass_on(tenon_call_t *call) {
  ++*(double *)call->context;
  return tenon_call_next(call);
}

TEST("a call passes several fallthroughs in a row to the first key with a kernel") {
  double passed = 0;
  probe_start();
  tenon_registration_t *cpu = probe_add("probe::plain", "cpu", &id[1], 0);
  tenon_registration_t *npu = probe_add("probe::plain", "npu fallthrough", NULL, 0);
  tenon_registration_t *own = probe_add("probe::plain", "autograd npu fallthrough", NULL, 0);
  tenon_registration_t *all = probe_add("probe::plain", "autograd", &id[2], 0);
  tenon_registration_t *layer = NULL;
  CHECK_STATUS(tenon_fallback_add("functional", pass_on, &passed, NULL, 0, &layer), TENON_OK);
  static const char *const on[] = {"view", "autograd", "autocast", "functional"};
  for (int i = 0; i < 4; i++)
    CHECK_STATUS(tenon_key_include(on[i], 1), TENON_OK);
  CHECK_ANSWER("probe::plain", "npu",
               /* functional passes the call on; autocast, autograd, view and npu are
                * fallthroughs. */
               1);
  CHECK_ANSWER("probe::plain", "cpu", 2);
  CHECK(passed == 2);
  tenon_registration_release(own);
  CHECK_ANSWER("probe::plain", "npu", 2);
  tenon_registration_release(all);
  CHECK_ANSWER("probe::plain", "npu", 1);
  tenon_registration_release(cpu);
  CHECK_REFUSED("probe::plain", "npu", TENON_UNIMPLEMENTED, "no kernel for cpu");
  for (int i = 0; i < 4; i++)
    CHECK_STATUS(tenon_key_include(on[i], 0), TENON_OK);
  tenon_registration_release(npu);
  tenon_registration_release(layer);
}

/* tensors that are not dense */

static int quantised_seen, strided_seen, device_changed;

/* A kernel for dense and plain tensors. */
static tenon_status_t look(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *y = call->outputs[0];
  quantised_seen += x->detail != NULL || y->detail != NULL;
  strided_seen +=
      !tn_is_dense(x->ndim, x->shape, x->strides) || !tn_is_dense(y->ndim, y->shape, y->strides);
  device_changed += x->device.type != y->device.type || x->device.id != y->device.id ||
                    x->device.type != *(const int32_t *)call->context;
  for (int64_t i = 0; i < tenon_count(x) && x->data; i++)
    ((double *)y->data)[i] = ((double *)x->data)[i];
  return TENON_OK;
}

/* Calls with a transposed input and result; what a dense kernel copies must arrive at the right
 * positions. */
static void check_strided(const char *name, const char *backend, int32_t type) {
  static const int64_t shape[2] = {2, 3};
  static const int64_t strides[2] = {1, 2};
  double in[6] = {1, 4, 2, 5, 3, 6};
  double out[6] = {0};
  tenon_device_t device;
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *y = NULL;
  bool is_meta = strcmp(backend, "meta") == 0;
  strided_seen = 0;
  device_changed = 0;
  CHECK_STATUS(tenon_device_find(backend, 0, &device), TENON_OK);
  CHECK(device.type == type);
  CHECK_STATUS(tenon_tensor_borrow_on(device, is_meta ? NULL : in, tenon_dtype(TENON_F64), 2, shape,
                                      strides, NULL, NULL, &x),
               TENON_OK);
  CHECK_STATUS(tenon_tensor_borrow_on(device, is_meta ? NULL : out, tenon_dtype(TENON_F64), 2,
                                      shape, strides, NULL, NULL, &y),
               TENON_OK);
  CHECK_STATUS(tenon_op_run(op_of(name), NULL, &x, &y), TENON_OK);
  CHECK(strided_seen == 0 && device_changed == 0);
  CHECK(is_meta || memcmp(in, out, sizeof in) == 0);
  tenon_tensor_release(x);
  tenon_tensor_release(y);
}

/* Calls with a tensor that is not plain: quantised, or sparse. */
static uint32_t layout_kind;
static tenon_status_t call_not_dense(const char *name, const char *backend) {
  double in = 1;
  double out = 0;
  double unit = 1;
  tenon_tensor_t *x = probe_tensor(backend, &in);
  tenon_tensor_t *y = probe_tensor(backend, &out);
  tenon_tensor_t *scale = probe_tensor("cpu", &unit);
  tenon_detail_t detail = {.size = sizeof detail, .kind = layout_kind, .axis = -1, .scale = scale};
  x->detail = &detail;
  tn_tensor_mark(x);
  tenon_status_t status = tenon_op_run(op_of(name), NULL, &x, &y);
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  tenon_tensor_release(scale);
  return status;
}

/* After this, all bits are in use. */
static void name_many(void) {
  tenon_device_t device;
  char name[32];
  for (int i = 0; i < 64; i++) {
    snprintf(name, sizeof name, "many_%d", i);
    CHECK_STATUS(tenon_device_find(name, i, &device), TENON_OK);
  }
}

static tenon_registration_t *add_look(const char *op, const char *where, int32_t *type) {
  tenon_registration_t *r = NULL;
  CHECK_STATUS(tenon_kernel_add(op, where, look, type, NULL, 0, &r), TENON_OK);
  return r;
}

static const char *const places[] = {"cpu", "npu", "many_60", "meta"};
static int32_t types[] = {1, 12, 12, 0};

static void add_memory(tenon_registration_t *r[4]) {
  for (int i = 0; i < 2; i++)
    probe_memory(places[i + 1], &r[2 * i]);
}

static void undo_all(tenon_registration_t **r, int count) {
  for (int i = 0; i < count; i++)
    tenon_registration_release(r[i]);
}

TEST("a dense kernel gets dense tensors of its own device, on every backend") {
  static const char *const names[] = {"probe::plain", "probe::view"};
  probe_start();
  name_many();
  tenon_registration_t *memory[4], *r;
  add_memory(memory);
  for (int n = 0; n < 2; n++)
    for (int i = 0; i < 4; i++) {
      r = add_look(names[n], places[i], &types[i]);
      check_strided(names[n], places[i], types[i]);
      tenon_registration_release(r);
    }
  undo_all(memory, 4);
}

TEST("a dense kernel also gets dense tensors if a layer, a mode, a fallback or a fallthrough "
     "passed the call on") {
  probe_start();
  name_many();
  tenon_registration_t *memory[4], *r[8];
  double passed = 0;
  add_memory(memory);
  /* A kernel of the CPU serves backends whose memory is the CPU's. */
  for (int i = 1; i < 3; i++) {
    char where[64];
    int32_t own = 12;
    snprintf(where, sizeof where, "%s fallthrough", places[i]);
    r[0] = add_look("probe::plain", "cpu", &own);
    r[1] = probe_add("probe::plain", where, NULL, 0);
    check_strided("probe::plain", places[i], types[i]);
    tenon_registration_release(r[1]);
    CHECK_STATUS(tenon_fallback_add(places[i], pass_on, &passed, NULL, 0, &r[1]), TENON_OK);
    check_strided("probe::plain", places[i], types[i]);
    CHECK(passed == i);
    tenon_registration_release(r[0]);
    tenon_registration_release(r[1]);
  }
  for (int i = 0; i < 3; i++) {
    r[0] = add_look("probe::plain", places[i], &types[i]);
    CHECK_STATUS(tenon_fallback_add("autograd", pass_on, &passed, NULL, 0, &r[1]), TENON_OK);
    tenon_key_include("autograd", 1);
    CHECK_STATUS(tenon_mode_push(pass_on, &passed), TENON_OK);
    check_strided("probe::plain", places[i], types[i]);
    tenon_mode_pop();
    tenon_key_include("autograd", 0);
    tenon_registration_release(r[0]);
    tenon_registration_release(r[1]);
  }
  undo_all(memory, 4);
}

TEST("a view is on the device of its tensor") {
  double in[4] = {1, 2, 3, 4};
  static const int64_t four = 4;
  probe_start();
  for (int i = 0; i < 4; i++) {
    tenon_device_t device;
    tenon_tensor_t *x = NULL;
    tenon_tensor_t *y = NULL;
    char *of_x = NULL;
    char *of_y = NULL;
    bool is_meta = types[i] == 0;
    CHECK_STATUS(tenon_device_find(places[i], 0, &device), TENON_OK);
    CHECK_STATUS(tenon_tensor_borrow_on(device, is_meta ? NULL : in, tenon_dtype(TENON_F64), 1,
                                        &four, NULL, NULL, NULL, &x),
                 TENON_OK);
    CHECK_STATUS(tenon_op_call(op_of("probe::view"), NULL, &x, &y, 0), TENON_OK);
    CHECK(y && y->device.type == types[i] && y->device.id == x->device.id && y->data == x->data);
    CHECK_STATUS(tenon_keys_of(x, &of_x), TENON_OK);
    CHECK_STATUS(tenon_keys_of(y, &of_y), TENON_OK);
    CHECK(strcmp(of_x, of_y) == 0);
    tenon_text_release(of_x);
    tenon_text_release(of_y);
    tenon_tensor_release(x);
    tenon_tensor_release(y);
  }
}

static tenon_status_t
/* A layer that replaces the input by a transposed tensor. */
swap_input(tenon_call_t *call) {
  tenon_tensor_t *const *before = call->inputs;
  tenon_tensor_t *instead = call->context;
  call->inputs = &instead;
  tenon_status_t status = tenon_call_next(call);
  call->inputs = before;
  return status;
}

TEST("a dense kernel also gets a dense tensor where a layer replaced the argument") {
  double in[6] = {0};
  double out[6] = {0};
  double other[6] = {1, 4, 2, 5, 3, 6};
  static const int64_t shape[2] = {2, 3};
  static const int64_t strides[2] = {1, 2};
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *y = NULL;
  tenon_tensor_t *t = NULL;
  static int32_t cpu = 1;
  probe_start();
  tenon_registration_t *r = add_look("probe::plain", "cpu", &cpu);
  CHECK_STATUS(tenon_tensor_borrow(in, tenon_dtype(TENON_F64), 2, shape, NULL, NULL, NULL, &x),
               TENON_OK);
  CHECK_STATUS(tenon_tensor_borrow(out, tenon_dtype(TENON_F64), 2, shape, NULL, NULL, NULL, &y),
               TENON_OK);
  CHECK_STATUS(
      tenon_tensor_borrow(other, tenon_dtype(TENON_F64), 2, shape, strides, NULL, NULL, &t),
      TENON_OK);
  CHECK_STATUS(tenon_mode_push(swap_input, t), TENON_OK);
  strided_seen = 0;
  CHECK_STATUS(tenon_op_run(op_of("probe::plain"), NULL, &x, &y), TENON_OK);
  CHECK(strided_seen == 0 && out[0] == 1 && out[1] == 2 && out[2] == 3 && out[3] == 4 &&
        out[5] == 6);
  tenon_mode_pop();
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  tenon_tensor_release(t);
  tenon_registration_release(r);
}

static void check_not_dense(uint32_t kind, const char *word, const char *message) {
  layout_kind = kind;
  static const char *const names[] = {"probe::plain", "probe::view"};
  double passed = 0;
  probe_start();
  name_many();
  quantised_seen = 0;
  for (int n = 0; n < 2; n++)
    for (int i = 0; i < 4; i++) {
      tenon_registration_t *r = add_look(names[n], places[i], &types[i]);
      tenon_registration_t *cpu = NULL;
      tenon_registration_t *pass = NULL;
      char where[64];
      CHECK_STATUS(call_not_dense(names[n], places[i]), TENON_UNIMPLEMENTED);
      CHECK_TEXT(tenon_error(), message);
      tenon_registration_release(r);
      snprintf(where, sizeof where, "%s %s", places[i], word);
      r = probe_add(names[n], where, &id[1], 0);
      CHECK_STATUS(call_not_dense(names[n], places[i]), TENON_OK);
      tenon_registration_release(r);
      if (i == 0) continue;
      cpu = add_look(names[n], "cpu", &types[0]);
      CHECK_STATUS(tenon_fallback_add(places[i], pass_on, &passed, NULL, 0, &pass), TENON_OK);
      CHECK_STATUS(call_not_dense(names[n], places[i]), TENON_UNIMPLEMENTED);
      CHECK_TEXT(tenon_error(), message);
      tenon_registration_release(pass);
      snprintf(where, sizeof where, "%s fallthrough", places[i]);
      pass = probe_add(names[n], where, NULL, 0);
      CHECK_STATUS(call_not_dense(names[n], places[i]), TENON_UNIMPLEMENTED);
      CHECK_TEXT(tenon_error(), message);
      tenon_registration_release(pass);
      tenon_registration_release(cpu);
    }
  CHECK(quantised_seen == 0);
}

TEST("a quantised or sparse tensor reaches no kernel that does not declare it, on any backend, by "
     "any path") {
  check_not_dense(TENON_DETAIL_QUANTISED, "quantised",
                  "input x is quantised, and no kernel says \"quantised\"");
  check_not_dense(TENON_DETAIL_CSR, "sparse",
                  "input x is sparse (csr), and no kernel says \"sparse\": make it dense");
}

/* more names than bits */

static void check_many(int count, bool with_gradients) {
  char name[64];
  for (int i = 0; i < count; i++) {
    snprintf(name, sizeof name, "many_%d", i);
    if (with_gradients) tenon_key_include("autograd", 1);
    CHECK_ANSWER("probe::plain", name, i);
    if (with_gradients) tenon_key_include("autograd", 0);
    snprintf(name, sizeof name, with_gradients ? "autograd many_%d" : "many_%d", i);
    CHECK_RULE("probe::plain", name, "kernel");
  }
}

/* The number of slow lookups, which are counted with the fallbacks. */
static int64_t lookups(void) {
  static const char name[] = "(backends that share a key)";
  char *text = NULL;
  CHECK_STATUS(tenon_fallback_report(&text), TENON_OK);
  const char *line = text ? strstr(text, name) : NULL;
  int64_t count = line ? strtoll(line + sizeof name - 1, NULL, 10) : 0;
  tenon_text_release(text);
  return count;
}

static int64_t many_with_bits(void) {
  char name[64];
  int64_t count = 0;
  for (int i = 0; i < 64; i++) {
    snprintf(name, sizeof name, "many_%d", i);
    count += tn_backend_find(name)->bit < TN_BIT_OTHERS;
  }
  return count;
}

TEST("sixty-four and more backends in one process all have kernels, gradients and fallbacks of "
     "their own") {
  tenon_registration_t *r[64];
  char name[64];
  probe_start();
  name_many();
  CHECK(tn_backend_find("many_0")->bit < TN_BIT_OTHERS &&
        tn_backend_find("many_63")->bit == TN_BIT_OTHERS &&
        tn_backend_find("many_62")->bit == TN_BIT_OTHERS);
  for (int i = 0; i < 64; i++) {
    snprintf(name, sizeof name, "many_%d", i);
    CHECK_REFUSED("probe::plain", name, TENON_UNIMPLEMENTED, name);
    r[i] = probe_add("probe::plain", name, &id[i], 0);
  }
  int64_t before = lookups();
  check_many(64, false);
  CHECK(lookups() - before == 64 - many_with_bits());
  undo_all(r, 64);
  for (int i = 0; i < 64; i++) {
    snprintf(name, sizeof name, "autograd many_%d", i);
    r[i] = probe_add("probe::plain", name, &id[i], 0);
  }
  check_many(64, true);
  undo_all(r, 64);
  for (int i = 0; i < 64; i++) {
    snprintf(name, sizeof name, "many_%d", i);
    r[i] = probe_fallback(name, &id[i], i & 1 ? TENON_PREFERRED : 0);
  }
  tenon_registration_t *composite = probe_add("probe::plain", "composite", &id[100], 0);
  for (int i = 0; i < 64; i++) {
    snprintf(name, sizeof name, "many_%d", i);
    CHECK_ANSWER("probe::plain", name, i & 1 ? i : 100);
  }
  undo_all(r, 64);
  tenon_registration_release(composite);
  CHECK_REFUSED("probe::plain", "many_63", TENON_UNIMPLEMENTED,
                "probe::plain: no kernel for many_63 and dtype f64");
}

TEST("backends that share a bit are told apart also within one call") {
  double out;
  probe_start();
  name_many();
  tenon_registration_t *a = probe_add("probe::pair", "many_60", &id[1], 0);
  tenon_registration_t *b = probe_add("probe::pair", "many_61", &id[2], 0);
  tenon_registration_t *c = probe_add("probe::pair", "cpu", &id[3], 0);
  CHECK_STATUS(call_pair("many_60", "many_60", &out), TENON_OK);
  CHECK(out == 1);
  CHECK_STATUS(call_pair("many_61", "many_61", &out), TENON_OK);
  CHECK(out == 2);
  CHECK_STATUS(call_pair("many_61", "cpu", &out), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "probe::pair: arguments in host memory: y, beside x on many_61:0;");
  CHECK_STATUS(call_pair("cpu", "many_61", &out), TENON_INVALID);
  CHECK_TEXT(tenon_error(),
             "probe::pair: arguments in host memory: x, out, beside y on many_61:0;");
  CHECK_STATUS(call_pair("many_60", "many_61", &out), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "probe::pair: arguments on several devices: x on many_60:0, y on "
                            "many_61:0; move them to one");
  CHECK(out == PROBE_NOTHING);
  CHECK_STATUS(call_pair("many_60", "many_1", &out), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "many_1");
  CHECK_STATUS(tenon_key_include("many_60", 1), TENON_UNIMPLEMENTED);
  CHECK_STATUS(tenon_key_exclude("many_60", 1), TENON_UNIMPLEMENTED);
  undo_all((tenon_registration_t *[]){a, b, c}, 3);
}

TEST("a list of tensors on a backend that shares a bit goes to that backend") {
  double in[2] = {0, 0};
  probe_start();
  name_many();
  tenon_registration_t *r = NULL;
  tenon_tensor_t *items[2] = {probe_tensor("many_62", &in[0]), probe_tensor("many_62", &in[1])};
  tenon_tensor_t *list = NULL;
  tenon_tensor_t *out = NULL;
  char *text = NULL;
  double answer = PROBE_NOTHING;
  CHECK_STATUS(tenon_tensor_list(items, 2, &list), TENON_OK);
  CHECK_STATUS(tenon_keys_of(list, &text), TENON_OK);
  CHECK_TEXT(text, "other");
  tenon_text_release(text);
  r = probe_add("probe::plain", "many_62", &id[9], 0);
  out = probe_tensor("many_62", &answer);
  CHECK_STATUS(tenon_op_run(op_of("probe::plain"), NULL, &list, &out), TENON_OK);
  CHECK(answer == 9);
  for (int i = 0; i < 2; i++)
    tenon_tensor_release(items[i]);
  tenon_tensor_release(list);
  tenon_tensor_release(out);
  tenon_registration_release(r);
}

TEST("the number of backend names is limited, and exceeding it gives a message") {
  tenon_device_t device;
  char name[32];
  tenon_status_t status = TENON_OK;
  int i = 0;
  for (; i < 2000 && status == TENON_OK; i++) {
    snprintf(name, sizeof name, "more_%d", i);
    status = tenon_device_find(name, 0, &device);
  }
  CHECK(status == TENON_RANGE && i > 900);
  CHECK_TEXT(tenon_error(), "backends are named already");
  CHECK_STATUS(tenon_device_find("more_900", 7, &device), TENON_OK);
  probe_start();
  tenon_registration_t *r = probe_add("probe::plain", "more_900", &id[5], 0);
  CHECK_ANSWER("probe::plain", "more_900", 5);
  tenon_registration_release(r);
  tenon_shutdown();
}
