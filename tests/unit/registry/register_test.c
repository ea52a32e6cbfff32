/* Registering, overriding and undoing kernels and fallbacks: undoing restores the earlier
 * registration, in any order; kernels that wait for their operator; dtypes; and all of that while
 * other threads call. */
#include "base/thread.h"
#include "check.h"
#include "operator/key.h"
#include "tensors.h"

#include "failing.h"
#include "operators.h"
#include "probes.h"

static double id[64]; /* the number that each kernel writes */
__attribute__((constructor)) static void number(void) {
  for (int i = 0; i < 64; i++)
    id[i] = i;
}

/* override and undo */

TEST("the newest kernel wins, and undoing restores the one before, in any order of undoing") {
  static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                   {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  static const char *const wheres[] = {"npu", "cpu", "composite", "composite_explicit"};
  probe_start();
  for (int w = 0; w < 4; w++)
    for (int o = 0; o < 6; o++) {
      tenon_registration_t *r[3];
      bool alive[3] = {true, true, true};
      for (int i = 0; i < 3; i++) {
        r[i] = probe_add("probe::plain", wheres[w], &id[i + 1], i ? TENON_OVERRIDE : 0);
        CHECK_ANSWER("probe::plain", w == 1 ? "cpu" : "npu", i + 1);
      }
      for (int i = 0; i < 3; i++) {
        tenon_registration_release(r[orders[o][i]]);
        alive[orders[o][i]] = false;
        int newest = alive[2] ? 3 : alive[1] ? 2 : alive[0] ? 1 : 0;
        if (newest)
          CHECK_ANSWER("probe::plain", w == 1 ? "cpu" : "npu", newest);
        else
          CHECK_REFUSED("probe::plain", w == 1 ? "cpu" : "npu", TENON_UNIMPLEMENTED,
                        "no kernel for ");
      }
    }
}

TEST("numbers of registrations only grow, and an entry has the number of the registration in "
     "force") {
  probe_start();
  tenon_registration_t *a = probe_add("probe::plain", "npu", &id[1], 0);
  tenon_slot_info_t first = probe_slot("probe::plain", "npu");
  tenon_registration_t *b = probe_add("probe::plain", "npu", &id[2], TENON_OVERRIDE);
  tenon_slot_info_t second = probe_slot("probe::plain", "npu");
  CHECK(first.number > 0 && second.number > first.number);
  CHECK(strcmp(second.library, "program") == 0 && strcmp(second.kernel, "npu") == 0);
  tenon_registration_release(b);
  CHECK(probe_slot("probe::plain", "npu").number == first.number);
  tenon_registration_release(a);
  CHECK(probe_slot("probe::plain", "npu").number == 0 &&
        probe_slot("probe::plain", "npu").is_missing);
}

TEST("undoing a registration a second time changes nothing") {
  probe_start();
  tenon_registration_t *a = probe_add("probe::plain", "npu", &id[1], 0);
  tenon_registration_release(a);
  tenon_registration_release(a);
  tenon_registration_release(NULL);
  tenon_registration_t *b = probe_add("probe::plain", "npu", &id[2], 0);
  tenon_registration_release(a);
  CHECK_ANSWER("probe::plain", "npu", 2);
  tenon_registration_release(b);
  tenon_registration_t *f = probe_fallback("npu", &id[3], 0);
  tenon_registration_t *g;
  tenon_registration_release(f);
  g = probe_fallback("npu", &id[4], 0);
  tenon_registration_release(f);
  CHECK_ANSWER("probe::plain", "npu", 4);
  tenon_registration_release(g);
  CHECK_REFUSED("probe::plain", "npu", TENON_UNIMPLEMENTED,
                "probe::plain: no kernel for npu and dtype f64; it has: ");
}

TEST("replacing a kernel needs TENON_OVERRIDE, which needs a kernel to replace; the message names "
     "the library") {
  probe_start();
  static const char *const wheres[] = {"npu",          "npu fallthrough",     "npu f32",
                                       "composite",    "composite_explicit",  "autograd",
                                       "autograd npu", "autograd fallthrough"};
  for (size_t i = 0; i < sizeof wheres / sizeof *wheres; i++) {
    probe_refused("probe::plain", wheres[i], TENON_OVERRIDE, TENON_NOT_FOUND, "overrides nothing");
    tenon_registration_t *r = probe_add("probe::plain", wheres[i], &id[1], 0);
    probe_refused("probe::plain", wheres[i], 0, TENON_EXISTS,
                  "is there already, from library program");
    CHECK_TEXT(tenon_error(), "TENON_OVERRIDE");
    tenon_registration_t *s = probe_add("probe::plain", wheres[i], &id[2], TENON_OVERRIDE);
    tenon_registration_release(r);
    tenon_registration_release(s);
    probe_refused("probe::plain", wheres[i], TENON_OVERRIDE, TENON_NOT_FOUND, "overrides nothing");
  }
  probe_refused("probe::plain", "elsewhere", 0, TENON_EXISTS,
                "is there already, from library probe");
  probe_refused("core::neg", "cpu", 64, TENON_INVALID, "unknown flags");
}

TEST("a fallthrough replaces a kernel, and a kernel replaces a fallthrough") {
  probe_start();
  tenon_registration_t *cpu = probe_add("probe::plain", "cpu", &id[9], 0);
  tenon_registration_t *a = probe_add("probe::plain", "npu", &id[1], 0);
  tenon_registration_t *b = probe_add("probe::plain", "npu fallthrough", NULL, TENON_OVERRIDE);
  CHECK_RULE("probe::plain", "npu", "fallthrough");
  CHECK_ANSWER("probe::plain", "npu", 9);
  tenon_registration_t *c = probe_add("probe::plain", "npu", &id[2], TENON_OVERRIDE);
  CHECK_ANSWER("probe::plain", "npu", 2);
  tenon_registration_release(c);
  tenon_registration_release(b);
  CHECK_ANSWER("probe::plain", "npu", 1);
  tenon_registration_release(a);
  tenon_registration_release(cpu);
}

TEST("a registration that makes no sense is refused and leaves the table as it was") {
  probe_start();
  static const struct {
    const char *where;
    const char *part;
  } bad[] = {{"", "kernel"},
             {"npu f99", "f99"},
             {"npu npu", "npu"},
             {"composite_explicit fallthrough", "fallthrough"},
             {"composite fallthrough", "fallthrough"},
             {"composite f32", "f32"},
             {"autograd f32", "f32"},
             {"autograd npu f32", "f32"},
             {"npu f32 fallthrough", "fallthrough"},
             {"autograd avx2", "avx2"},
             {"composite serial", "serial"},
             {"strided", "strided"},
             {"other", "other"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    probe_refused("probe::plain", bad[i].where, 0, TENON_INVALID, bad[i].part);
  tenon_registration_t *r = NULL;
  CHECK_STATUS(tenon_kernel_add("probe::plain", "npu", NULL, NULL, NULL, 0, &r), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "has no function");
  CHECK_STATUS(tenon_kernel_add("probe::plain", "npu fallthrough", probe_kernel, id, NULL, 0, &r),
               TENON_INVALID);
  CHECK_TEXT(tenon_error(), "passes calls by");
  CHECK_STATUS(tenon_kernel_add(NULL, "npu", probe_kernel, id, NULL, 0, &r), TENON_INVALID);
  CHECK_STATUS(tenon_kernel_add("probe::plain", NULL, probe_kernel, id, NULL, 0, &r),
               TENON_INVALID);
  CHECK_STATUS(tenon_kernel_add("probe::plain", "npu", probe_kernel, id, NULL, 0, NULL),
               TENON_INVALID);
  CHECK_STATUS(tenon_fallback_add("cpu", probe_kernel, id, NULL, 0, &r), TENON_INVALID);
  CHECK_STATUS(tenon_fallback_add("strided", probe_kernel, id, NULL, 0, &r), TENON_INVALID);
  CHECK_STATUS(tenon_fallback_add("mode", probe_kernel, id, NULL, 0, &r), TENON_INVALID);
  CHECK_STATUS(tenon_fallback_add("above autograd", probe_kernel, id, NULL, 0, &r), TENON_INVALID);
  CHECK_STATUS(tenon_fallback_add("autocast npu", probe_kernel, id, NULL, 0, &r), TENON_INVALID);
  CHECK_STATUS(tenon_fallback_add("npu", NULL, id, NULL, 0, &r), TENON_INVALID);
  CHECK_STATUS(tenon_fallback_add("npu", probe_kernel, id, NULL, TENON_OVERRIDE, &r),
               TENON_INVALID);
  CHECK(r == NULL);
  CHECK_REFUSED("probe::plain", "npu", TENON_UNIMPLEMENTED, "no kernel for npu");
}

TEST("a backend or a layer has one fallback at a time") {
  static const char *const keys[] = {"npu", "meta", "autograd", "autocast", "functional", "view"};
  probe_start();
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    tenon_registration_t *r = probe_fallback(keys[i], &id[5], 0);
    tenon_registration_t *none = NULL;
    CHECK_STATUS(tenon_fallback_add(keys[i], probe_kernel, id, NULL, 0, &none), TENON_EXISTS);
    CHECK_TEXT(tenon_error(), "has a fallback already");
    CHECK_RULE("probe::plain", keys[i], "fallback");
    tenon_registration_release(r);
    CHECK_RULE("probe::plain", keys[i],
               i == 0             ? "missing"
               : i == 1           ? "infer"
               : i == 3 || i == 5 ? "layer"
                                  : "fallthrough");
  }
}

TEST("the gradients of one backend can have a fallback of their own, which precedes that of all "
     "backends") {
  probe_start();
  tenon_registration_t *all = probe_fallback("autograd", &id[4], 0);
  tenon_registration_t *none = NULL;
  tenon_registration_t *npu = probe_fallback("autograd npu", &id[5], 0);
  tenon_registration_t *cpu = probe_fallback("autograd cpu", &id[6], 0);
  CHECK_STATUS(tenon_fallback_add("autograd npu", probe_kernel, id, NULL, 0, &none), TENON_EXISTS);
  CHECK_TEXT(tenon_error(), "autograd npu has a fallback already");
  CHECK_RULE("probe::plain", "autograd npu", "fallback");
  CHECK_RULE("probe::plain", "autograd", "fallback");
  tenon_registration_release(all);
  CHECK_RULE("probe::plain", "autograd npu", "fallback");
  CHECK_RULE("probe::plain", "autograd meta", "fallthrough");
  tenon_registration_release(npu);
  tenon_registration_release(cpu);
  CHECK_RULE("probe::plain", "autograd npu", "fallthrough");
}

TEST("an operator's kernels for a layer precede the layer's fallback, the newest first") {
  static const char *const keys[] = {"view", "autocast", "functional"};
  probe_start();
  tenon_registration_t *cpu = probe_add("probe::plain", "cpu", &id[9], 0);
  for (int i = 0; i < 3; i++) {
    char where[64];
    snprintf(where, sizeof where, "%s fallthrough", keys[i]);
    CHECK_STATUS(tenon_key_include(keys[i], 1), TENON_OK);
    CHECK_ANSWER("probe::plain", "cpu", 9);
    tenon_registration_t *fallback = probe_fallback(keys[i], &id[1], 0);
    CHECK_ANSWER("probe::plain", "cpu", 1);
    tenon_registration_t *own = probe_add("probe::plain", keys[i], &id[2], 0);
    CHECK_RULE("probe::plain", keys[i], "kernel");
    CHECK_ANSWER("probe::plain", "cpu", 2);
    CHECK_ANSWER("probe::plain", "npu", 2);
    CHECK_RULE("probe::view", keys[i], "fallback");
    tenon_registration_t *newer = probe_add("probe::plain", keys[i], &id[3], TENON_OVERRIDE);
    CHECK_ANSWER("probe::plain", "cpu", 3);
    tenon_registration_t *pass = probe_add("probe::plain", where, NULL, TENON_OVERRIDE);
    CHECK_RULE("probe::plain", keys[i], "fallthrough");
    CHECK_ANSWER("probe::plain", "cpu", 9);
    tenon_registration_release(newer);
    tenon_registration_release(pass);
    CHECK_ANSWER("probe::plain", "cpu", 2);
    tenon_registration_release(own);
    CHECK_ANSWER("probe::plain", "cpu", 1);
    tenon_registration_release(fallback);
    CHECK_RULE("probe::plain", keys[i], i <= 1 ? "layer" : "fallthrough");
    CHECK_ANSWER("probe::plain", "cpu", 9);
    CHECK_STATUS(tenon_key_include(keys[i], 0), TENON_OK);
  }
  probe_refused("probe::plain", "autocast npu", 0, TENON_UNIMPLEMENTED, "autocast npu");
  tenon_registration_release(cpu);
}

TEST("tools can ask whether a key has a kernel of its own, and can print the whole table") {
  char *text = NULL;
  probe_start();
  const tenon_op_t *op = op_of("probe::plain");
  CHECK(tenon_op_has_kernel(op, "elsewhere") && !tenon_op_has_kernel(op, "npu"));
  tenon_registration_t *npu = probe_add("probe::plain", "npu", &id[1], 0);
  tenon_registration_t *cpu = probe_add("probe::plain", "cpu fallthrough", NULL, 0);
  tenon_registration_t *composite = probe_add("probe::plain", "composite", &id[2], 0);
  tenon_registration_t *own = probe_add("probe::plain", "autograd npu", &id[3], 0);
  static const char *const without[] = {"cpu",  "gpu",   "autograd",       "autograd gpu",
                                        "view", "other", "no_such_backend"};
  CHECK(tenon_op_has_kernel(op, "npu") && tenon_op_has_kernel(op, "autograd npu"));
  for (size_t i = 0; i < sizeof without / sizeof *without; i++)
    CHECK(!tenon_op_has_kernel(op, without[i]));
  char line[200];
  CHECK_STATUS(tenon_op_table(op, &text), TENON_OK);
  snprintf(line, sizeof line, "%-20s kernel: npu [program, number %llu], ", "npu",
           (unsigned long long)probe_slot("probe::plain", "npu").number);
  CHECK_TEXT(text, line);
  snprintf(line, sizeof line, "%-20s fallthrough\n", "cpu");
  CHECK_TEXT(text, line);
  snprintf(line, sizeof line, "%-20s composite: composite [program, number ", "meta");
  CHECK_TEXT(text, line);
  snprintf(line, sizeof line, "%-20s kernel: autograd npu [program, number ", "autograd npu");
  CHECK_TEXT(text, line);
  CHECK(!strstr(text, "autocast")); /* Fallthroughs have no line. */
  tenon_text_release(text);
  tenon_slot_info_t info = {.size = sizeof info};
  CHECK_STATUS(tenon_op_slot(op, "no_such_backend", &info), TENON_NOT_FOUND);
  CHECK_TEXT(tenon_error(), "no key is called 'no_such_backend'");
  CHECK_STATUS(tenon_op_slot(op, "autograd no_such_backend", &info), TENON_NOT_FOUND);
  /* The structure of an older caller is shorter. */
  info = (tenon_slot_info_t){.size = 8, .rule = "untouched"};
  CHECK_STATUS(tenon_op_slot(op, "npu", &info), TENON_OK);
  CHECK(info.size == 8 && strcmp(info.rule, "untouched") == 0);
  tenon_registration_release(npu);
  tenon_registration_release(cpu);
  tenon_registration_release(composite);
  tenon_registration_release(own);
}

/* loops and dtypes */

static double call_f(const char *name,
                     uint32_t dtype) { /* Calls a kernel that writes its number for any dtype. */
  double in[2] = {2, 2};
  double out[2] = {PROBE_NOTHING, PROBE_NOTHING};
  int64_t one = 1;
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *y = NULL;
  CHECK_STATUS(tenon_tensor_borrow(in, tenon_dtype(dtype), 1, &one, NULL, NULL, NULL, &x),
               TENON_OK);
  CHECK_STATUS(tenon_tensor_borrow(out, tenon_dtype(dtype), 1, &one, NULL, NULL, NULL, &y),
               TENON_OK);
  tenon_status_t status = tenon_op_run(op_of(name), NULL, &x, &y);
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  return status == TENON_OK ? out[0] : -(double)status * 1000;
}

TEST("a kernel for one dtype precedes a kernel for all dtypes, and neither replaces the other") {
  probe_start();
  tenon_registration_t *all = probe_add("probe::plain", "cpu", &id[1], 0);
  tenon_registration_t *f64 = probe_add("probe::plain", "cpu f64", &id[2], 0);
  CHECK(call_f("probe::plain", TENON_F64) == 2 && call_f("probe::plain", TENON_I64) == 1);
  tenon_registration_t *again = probe_add("probe::plain", "cpu", &id[3], TENON_OVERRIDE);
  CHECK(call_f("probe::plain", TENON_F64) == 2 && call_f("probe::plain", TENON_I64) == 3);
  tenon_registration_t *two = probe_add("probe::plain", "cpu f64|i32", &id[4], 0);
  CHECK(call_f("probe::plain", TENON_F64) == 4 && call_f("probe::plain", TENON_I32) == 4);
  tenon_registration_release(all);
  tenon_registration_release(again);
  CHECK(call_f("probe::plain", TENON_I64) == -1000 * TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(),
             "no kernel for cpu and dtype i64; it has: cpu f64|i32, cpu f64, elsewhere");
  tenon_registration_release(two);
  CHECK(call_f("probe::plain", TENON_F64) == 2);
  tenon_registration_release(f64);
  probe_refused("probe::plain", "cpu f64", TENON_OVERRIDE, TENON_NOT_FOUND, "overrides nothing");
}

TEST("a composite serves the dtypes that a backend's own kernels do not serve") {
  probe_start();
  tenon_registration_t *f32 = probe_add("probe::plain", "cpu f32", &id[1], 0);
  tenon_registration_t *composite = probe_add("probe::plain", "composite", &id[2], 0);
  CHECK(call_f("probe::plain", TENON_F64) == 2);
  tenon_registration_t *explicit = probe_add("probe::plain", "composite_explicit", &id[3], 0);
  CHECK(call_f("probe::plain", TENON_F64) == 3);
  CHECK_RULE("probe::plain", "cpu", "kernel");
  tenon_registration_release(f32);
  CHECK_RULE("probe::plain", "cpu", "composite explicit");
  tenon_registration_release(explicit);
  tenon_registration_release(composite);
}

TEST("a kernel of one backend that is restricted to a dtype does not affect other backends") {
  probe_start();
  tenon_registration_t *npu = probe_add("probe::plain", "npu f32", &id[1], 0);
  tenon_registration_t *gpu = probe_add("probe::plain", "gpu f64", &id[2], 0);
  tenon_registration_t *cpu = probe_add("probe::plain", "cpu", &id[3], 0);
  CHECK_ANSWER("probe::plain", "gpu", 2);
  CHECK_ANSWER("probe::plain", "cpu", 3);
  CHECK_REFUSED("probe::plain", "npu", TENON_UNIMPLEMENTED,
                "no kernel for npu and dtype f64; it has: ");
  tenon_registration_release(gpu);
  tenon_registration_release(npu);
  tenon_registration_release(cpu);
}

TEST("dtypes that a backend's own kernels do not serve go to the backend's fallback") {
  static const char *const backends[] = {"npu", "late_1"};
  tenon_device_t device;
  char name[32];
  probe_start();
  for (int i = 0; i < 45; i++) { /* After that, the second backend shares its bit with others. */
    snprintf(name, sizeof name, "filler_%d", i);
    CHECK_STATUS(tenon_device_find(name, 0, &device), TENON_OK);
  }
  for (int i = 0; i < 2; i++) {
    const char *backend = backends[i];
    snprintf(name, sizeof name, "%s f32", backend);
    tenon_registration_t *f32 = probe_add("probe::plain", name, &id[1], 0);
    CHECK_REFUSED("probe::plain", backend, TENON_UNIMPLEMENTED, "no kernel for ");
    tenon_registration_t *fallback = probe_fallback(backend, &id[2], 0);
    CHECK_ANSWER("probe::plain", backend, 2);
    tenon_registration_t *composite = probe_add("probe::plain", "composite", &id[3], 0);
    CHECK_ANSWER("probe::plain", backend, 3);
    tenon_registration_release(fallback);
    CHECK_ANSWER("probe::plain", backend, 3);
    fallback = probe_fallback(backend, &id[2], TENON_PREFERRED);
    CHECK_ANSWER("probe::plain", backend, 2);
    snprintf(name, sizeof name, "%s f64", backend);
    tenon_registration_t *f64 = probe_add("probe::plain", name, &id[4], 0);
    CHECK_ANSWER("probe::plain", backend, 4);
    tenon_registration_release(f32);
    tenon_registration_release(f64);
    tenon_registration_release(composite);
    tenon_registration_release(fallback);
  }
}

TEST("a kernel for an instruction set that the machine lacks is ignored") {
#if defined(__x86_64__)
  tenon_shutdown();
  setenv("TENON_CPU_CAPABILITY", "default", 1);
  probe_start();
  tenon_registration_t *fast = probe_add("probe::plain", "npu avx512", &id[1], 0);
  tenon_registration_t *fallback = probe_fallback("npu", &id[2], TENON_PREFERRED);
  tenon_registration_t *composite = probe_add("probe::plain", "composite", &id[3], 0);
  tenon_registration_t *cpu = probe_add("probe::plain", "cpu avx2", &id[4], 0);
  CHECK_RULE("probe::plain", "npu", "fallback");
  CHECK_ANSWER("probe::plain", "npu", 2);
  CHECK_ANSWER("probe::plain", "cpu", 3);
  tenon_registration_t *plain = probe_add("probe::plain", "npu", &id[5], 0);
  CHECK_ANSWER("probe::plain", "npu", 5);
  tenon_registration_release(fast);
  tenon_registration_release(fallback);
  tenon_registration_release(composite);
  tenon_registration_release(cpu);
  tenon_registration_release(plain);
  tenon_shutdown();
  unsetenv("TENON_CPU_CAPABILITY");
#else
  SKIP("these instruction sets are of x86");
#endif
}

static tenon_status_t loop_five(const tenon_loop_t *loop) {
  for (int64_t i = 0; i < loop->count; i++)
    ((double *)loop->data[1])[i] = 5;
  return TENON_OK;
}

/* clang-format off */
static const tenon_item_t looped_items[] = {
  TENON_OP("five(Tensor x) -> Tensor",
    TENON_TYPES("x: f32|f64; out = x"), TENON_TRAITS(TENON_POINTWISE),
    TENON_LOOP("f64 -> f64", loop_five)),
  {TENON_TAG_END, 0, 0, 0, 0}};
/* clang-format on */
static const tenon_descriptor_t looped = {
    sizeof(tenon_descriptor_t), TENON_ABI, TENON_LAYOUT, 0, "looped", "1.0.0", looped_items};

TEST("a program's kernel replaces a loop for the dtypes of that loop") {
  probe_start();
  CHECK_STATUS(tenon_library_add(&looped, NULL, NULL, NULL), TENON_OK);
  CHECK(call_f("looped::five", TENON_F64) == 5);
  probe_refused("looped::five", "cpu f64", 0, TENON_EXISTS,
                "is there already, from library looped");
  tenon_registration_t *r = probe_add("looped::five", "cpu f64", &id[6], TENON_OVERRIDE);
  CHECK(call_f("looped::five", TENON_F64) == 6);
  tenon_registration_release(r);
  CHECK(call_f("looped::five", TENON_F64) == 5);
  tenon_shutdown();
}

/* kernels before their operator */

/* clang-format off */
static const tenon_item_t late_items[] = {
  TENON_OP("late(Tensor x) -> Tensor",
    TENON_TYPES("x: any; out = x"), TENON_TRAITS(TENON_POINTWISE),
    TENON_KERNEL("elsewhere", probe_elsewhere), TENON_KERNEL("gpu", probe_elsewhere)),
  {TENON_TAG_END, 0, 0, 0, 0}};
/* clang-format on */
static const tenon_descriptor_t late = {
    sizeof(tenon_descriptor_t), TENON_ABI, TENON_LAYOUT, 0, "late", "1.0.0", late_items};

/* With part NULL, no kernel may wait. */
static void check_dangling(const char *part) {
  char *text = NULL;
  CHECK_STATUS(tenon_dangling(&text), TENON_OK);
  if (part)
    CHECK_TEXT(text, part);
  else
    CHECK(text && !*text);
  tenon_text_release(text);
}

TEST("kernels added before their operator are listed, and work once the operator is defined") {
  const tenon_op_t *op = NULL;
  probe_start();
  check_dangling(NULL);
  tenon_registration_t *npu = probe_add("late::late", "npu", &id[1], 0);
  tenon_registration_t *auto_ = probe_add("late::late", "autograd", &id[2], 0);
  tenon_registration_t *gone = probe_add("late::late", "cpu", &id[3], 0);
  check_dangling("late::late: kernels of library program wait: no library defines it\n");
  CHECK_STATUS(tenon_op_find("late::late", &op), TENON_NOT_FOUND);
  tenon_registration_release(gone); /* before its operator was defined */
  CHECK_STATUS(tenon_library_add(&late, NULL, NULL, NULL), TENON_OK);
  check_dangling(NULL);
  CHECK_ANSWER("late::late", "npu", 1);
  CHECK_REFUSED("late::late", "cpu", TENON_UNIMPLEMENTED, "no kernel for cpu");
  tenon_slot_info_t slot = probe_slot("late::late", "autograd");
  CHECK(strcmp(slot.rule, "autograd") == 0 && strcmp(slot.library, "program") == 0);
  tenon_registration_release(npu);
  CHECK_REFUSED("late::late", "npu", TENON_UNIMPLEMENTED, "no kernel for npu");
  tenon_registration_release(auto_);
  CHECK_RULE("late::late", "autograd", "fallthrough");
  tenon_shutdown();
}

TEST("waiting kernels that do not fit stay listed with the reason, and the operator is defined all "
     "the same") {
  probe_start();
  tenon_registration_t *exists = probe_add("late::late", "gpu", &id[1], 0);
  check_dangling("late::late: kernels of library program wait");
  tenon_registration_t *nothing = probe_add("late::late", "npu", &id[2], TENON_OVERRIDE);
  tenon_registration_t *fits = probe_add("late::late", "tpu", &id[3], 0);
  CHECK_STATUS(tenon_library_add(&late, NULL, NULL, NULL), TENON_OK);
  check_dangling("late::late: kernels of library program do not fit: ");
  check_dangling("'gpu' is there already, from library late");
  check_dangling("'npu' overrides nothing");
  CHECK_ANSWER("late::late", "gpu", -3);
  CHECK_ANSWER("late::late", "tpu", 3);
  CHECK_REFUSED("late::late", "npu", TENON_UNIMPLEMENTED, "no kernel for npu");
  tenon_registration_release(exists);
  tenon_registration_release(nothing);
  check_dangling(NULL);
  tenon_registration_release(fits);
  tenon_shutdown();
}

TEST("of two kernels that wait for the same key, the first is used and the second stays listed") {
  probe_start();
  tenon_registration_t *a = probe_add("late::late", "npu", &id[1], 0);
  tenon_registration_t *b = probe_add("late::late", "npu", &id[2], 0);
  tenon_registration_t *c = probe_add("late::late", "npu", &id[3], TENON_OVERRIDE);
  CHECK_STATUS(tenon_library_add(&late, NULL, NULL, NULL), TENON_OK);
  check_dangling("'npu' is there already, from library program");
  CHECK_ANSWER("late::late", "npu", 3);
  tenon_registration_release(c);
  CHECK_ANSWER("late::late", "npu", 1);
  tenon_registration_release(a);
  tenon_registration_release(b);
  check_dangling(NULL);
  tenon_shutdown();
}

TEST("when the library that defines an operator is unloaded and loaded again, kernels that did not "
     "fit are tried anew") {
  const tenon_op_t *op = NULL;
  tenon_library_t *library = NULL;
  probe_start();
  tenon_registration_t *r = NULL;
  CHECK_STATUS(tenon_kernel_add("contract::halve", "cpu f64", probe_kernel, &id[7], NULL,
                                TENON_OVERRIDE, &r),
               TENON_OK);
  check_dangling("contract::halve: kernels of library program wait");
  CHECK_STATUS(
      tenon_library_load(TEST_LIBRARIES "/libcontract.so", TENON_LOAD_UNLOADABLE, &library),
      TENON_OK);
  check_dangling("contract::halve: kernels of library program do not fit: ");
  tenon_library_release(library);
  CHECK_STATUS(tenon_op_find("contract::halve", &op), TENON_NOT_FOUND);
  check_dangling("contract::halve: kernels of library program wait: no library defines it");
  CHECK_STATUS(
      tenon_library_load(TEST_LIBRARIES "/libcontract.so", TENON_LOAD_UNLOADABLE, &library),
      TENON_OK);
  check_dangling("contract::halve: kernels of library program do not fit: ");
  tenon_registration_release(r);
  check_dangling(NULL);
  tenon_library_release(library);
  tenon_shutdown();
}

TEST("a library whose operator has another program's kernel is unloaded when that kernel is "
     "undone") {
  const tenon_op_t *op = NULL;
  tenon_library_t *library = NULL;
  probe_start();
  CHECK_STATUS(
      tenon_library_load(TEST_LIBRARIES "/libcontract.so", TENON_LOAD_UNLOADABLE, &library),
      TENON_OK);
  tenon_registration_t *r = probe_add("contract::halve", "npu", &id[7], 0);
  tenon_library_release(library);
  CHECK_ANSWER("contract::halve", "npu", 7);
  tenon_registration_release(r);
  CHECK_STATUS(tenon_op_find("contract::halve", &op), TENON_NOT_FOUND);
  tenon_shutdown();
}

static tenon_status_t pass_on(tenon_call_t *call) { return tenon_call_next(call); }

TEST("calls into an unloadable library are counted however they reach it, and it is unloaded when "
     "none is left") {
  static const int64_t shape[2] = {2, 2};
  static const int64_t strides[2] = {1, 2};
  double in[4] = {2, 4, 6, 8};
  probe_start();
  CHECK_STATUS(tenon_library_load(TEST_LIBRARIES "/libcontract.so", 0, NULL), TENON_OK);
  /* The ways go past the layer of layouts, past a mode, and past both. */
  for (int way = 0; way < 3; way++) {
    tenon_library_t *partner = NULL;
    tenon_tensor_t *x = NULL;
    tenon_tensor_t *y = NULL;
    double out[4] = {0};
    CHECK_STATUS(
        tenon_library_load(TEST_LIBRARIES "/libpartner.so", TENON_LOAD_UNLOADABLE, &partner),
        TENON_OK);
    CHECK_STATUS(tenon_tensor_borrow(in, tenon_dtype(TENON_F64), 2, shape,
                                     way == 1 ? NULL : strides, NULL, NULL, &x),
                 TENON_OK);
    CHECK_STATUS(tenon_tensor_borrow(out, tenon_dtype(TENON_F64), 2, shape,
                                     way == 1 ? NULL : strides, NULL, NULL, &y),
                 TENON_OK);
    if (way) CHECK_STATUS(tenon_mode_push(pass_on, NULL), TENON_OK);
    for (int i = 0; i < 10; i++)
      CHECK_STATUS(tenon_op_run(op_of("contract::halve"), NULL, &x, &y), TENON_OK);
    CHECK(out[0] == 1 && out[1] == 2 && out[2] == 3 && out[3] == 4);
    if (way) tenon_mode_pop();
    CHECK_STATUS(tenon_library_unload(partner), TENON_OK);
    CHECK_STATUS(tenon_op_run(op_of("contract::halve"), NULL, &x, &y), TENON_UNIMPLEMENTED);
    tenon_tensor_release(x);
    tenon_tensor_release(y);
  }
  tenon_shutdown();
}

/* shutdown */

static int destroyed;
static void destroy(void *context) { destroyed += context == id; }

TEST("contexts are destroyed once, at shutdown, whether their registration was undone or not") {
  tenon_registration_t *r[6] = {NULL};
  probe_start();
  destroyed = 0;
  CHECK_STATUS(tenon_kernel_add("probe::plain", "npu", probe_kernel, id, destroy, 0, &r[0]),
               TENON_OK);
  CHECK_STATUS(tenon_kernel_add("probe::plain", "gpu", probe_kernel, id, destroy, 0, &r[1]),
               TENON_OK);
  CHECK_STATUS(tenon_kernel_add("late::late", "gpu", probe_kernel, id, destroy, 0, &r[2]),
               TENON_OK);
  CHECK_STATUS(tenon_kernel_add("late::late", "npu", probe_kernel, id, destroy, 0, &r[3]),
               TENON_OK);
  CHECK_STATUS(tenon_fallback_add("npu", probe_kernel, id, destroy, 0, &r[4]), TENON_OK);
  CHECK_STATUS(tenon_fallback_add("gpu", probe_kernel, id, destroy, 0, &r[5]), TENON_OK);
  for (int i = 0; i < 6; i += 2)
    tenon_registration_release(r[i]);
  CHECK(destroyed == 0);
  tenon_shutdown();
  CHECK(destroyed == 6);
  probe_start(); /* No registration remains. */
  check_dangling(NULL);
  CHECK_REFUSED("probe::plain", "gpu", TENON_UNIMPLEMENTED, "no kernel for gpu");
  tenon_shutdown();
  CHECK(destroyed == 6);
}

TEST("the context of a refused kernel is not destroyed") {
  tenon_registration_t *r = NULL;
  tenon_registration_t *first;
  probe_start();
  destroyed = 0;
  first = probe_add("probe::plain", "npu", &id[1], 0);
  CHECK_STATUS(tenon_kernel_add("probe::plain", "npu", probe_kernel, id, destroy, 0, &r),
               TENON_EXISTS);
  tenon_shutdown();
  CHECK(destroyed == 0);
  (void)first;
}

/* failing allocations */

/* After a failure, the registrations from before must be in force, and registrations reported as
 * made must be in force, too. */
static tenon_status_t add_and_undo(void *context) {
  const char *where = context;
  tenon_registration_t *r = NULL;
  double in = PROBE_VIEWED;
  double out = PROBE_NOTHING;
  tenon_device_t device;
  int64_t one = 1;
  tenon_tensor_t x, y;
  tenon_tensor_t *inputs[1] = {&x};
  tenon_tensor_t *outputs[1] = {&y};
  int64_t strides[2];
  tenon_status_t status =
      tenon_kernel_add("probe::plain", where, probe_kernel, &id[7], NULL, TENON_OVERRIDE, &r);
  if (tenon_device_find("npu", 0, &device) != TENON_OK ||
      tenon_tensor_view(&x, &in, tenon_dtype(TENON_F64), 1, &one, NULL, &strides[0]) != TENON_OK ||
      tenon_tensor_view(&y, &out, tenon_dtype(TENON_F64), 1, &one, NULL, &strides[1]) != TENON_OK) {
    CHECK_NEVER("nothing of this allocates");
    return TENON_INTERNAL;
  }
  x.keys = y.keys = TN_KEY(tn_backend_find("npu")->bit);
  x.device = y.device = device;
  CHECK(tenon_op_run(op_of("probe::plain"), NULL, inputs, outputs) == TENON_OK);
  CHECK(out == (status == TENON_OK ? 7 : 1));

  if (status == TENON_OK) {
    tenon_registration_release(r);
    CHECK(tenon_op_run(op_of("probe::plain"), NULL, inputs, outputs) == TENON_OK);
    CHECK(out == 1 || out == 7); /* If memory runs out, an undone kernel may stay. */
  }
  return status;
}

TEST("when memory runs out, a kernel is not added, and the kernels before it stay") {
  static const char *const wheres[] = {"npu", "npu f64", "composite"};
  for (int i = 0; i < 3; i++) {
    probe_start();
    tenon_registration_t *first = probe_add("probe::plain", wheres[i], &id[1], 0);
    fail_each("adding a kernel", add_and_undo, (void *)(uintptr_t)wheres[i], 1);
    tenon_registration_release(first);
    tenon_shutdown();
  }
}

/* while others call */

enum {
  ROUNDS = 3000,
  FIRST = 1000,
};
static double serials[ROUNDS * 4 + FIRST];
/* 1: the kernel was registered at some time; set before it can be called. */
static int registered[ROUNDS * 4 + FIRST];

typedef struct crowd_t {
  const tenon_op_t *op;
  const char *backend;
  int stop;
  int64_t calls;
  int64_t mistakes;
  int64_t missed;
} crowd_t;

static void call_on(void *pointer) {
  crowd_t *c = pointer;
  double in = PROBE_VIEWED;
  double out;
  tenon_tensor_t *x = probe_tensor(c->backend, &in);
  tenon_tensor_t *y = probe_tensor(c->backend, &out);
  while (!__atomic_load_n(&c->stop, __ATOMIC_ACQUIRE)) {
    out = PROBE_NOTHING;
    tenon_status_t status = tenon_op_run(c->op, NULL, &x, &y);
    c->calls++;
    if (status == TENON_UNIMPLEMENTED && out == PROBE_NOTHING)
      c->missed++;
    else if (status != TENON_OK || out < 0 || out >= ROUNDS * 4 + FIRST ||
             out != (double)(int)out || !__atomic_load_n(&registered[(int)out], __ATOMIC_ACQUIRE))
      c->mistakes++;
  }
  tenon_tensor_release(x);
  tenon_tensor_release(y);
}

static double *serial(int *next) {
  serials[*next] = *next;
  __atomic_store_n(&registered[*next], 1, __ATOMIC_RELEASE);
  return &serials[(*next)++];
}

TEST("kernels are added, overridden and undone while other threads call, and each result comes "
     "from a registered kernel") {
  static const char *const backends[] = {"npu", "cpu", "npu", "cpu"};
  tn_spawned_t threads[4];
  crowd_t crowds[4];
  int next = 1;
  probe_start();
  const tenon_op_t *op = op_of("probe::plain");
  tenon_registration_t *base =
      /* The composite always answers. */
      probe_add("probe::plain", "composite", serial(&next), 0);
  for (int i = 0; i < 4; i++) {
    crowds[i] = (crowd_t){op, backends[i], 0, 0, 0, 0};
    CHECK(tn_spawn(&threads[i], call_on, &crowds[i]));
  }
  for (int round = 0; round < ROUNDS; round++) {
    const char *backend = round & 1 ? "npu" : "cpu";
    tenon_registration_t *a = probe_add("probe::plain", backend, serial(&next), 0);
    tenon_registration_t *b = probe_add("probe::plain", backend, serial(&next), TENON_OVERRIDE);
    tenon_registration_t *f = probe_fallback("npu", serial(&next), round & 2 ? TENON_PREFERRED : 0);
    tenon_registration_release(round & 4 ? a : b);
    tenon_registration_release(round & 4 ? b : a);
    tenon_registration_release(f);
  }
  for (int i = 0; i < 4; i++)
    __atomic_store_n(&crowds[i].stop, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < 4; i++) {
    tn_join(&threads[i]);
    CHECK(crowds[i].mistakes == 0 && crowds[i].missed == 0 && crowds[i].calls > 0);
  }
  tenon_registration_release(base);
  tenon_shutdown();
}

TEST("calls that find no kernel in between fail, and the message says so") {
  tn_spawned_t threads[3];
  crowd_t crowds[3];
  int next = 1;
  probe_start();
  for (int i = 0; i < 3; i++) {
    crowds[i] = (crowd_t){op_of("probe::plain"), i == 1 ? "cpu" : "npu", 0, 0, 0, 0};
    CHECK(tn_spawn(&threads[i], call_on, &crowds[i]));
  }
  for (int round = 0; round < ROUNDS / 3; round++) {
    tenon_registration_t *a = probe_add("probe::plain", "npu f64", serial(&next), 0);
    tenon_registration_t *b = probe_add("probe::plain", "cpu", serial(&next), 0);
    tenon_registration_t *c =
        probe_add("probe::plain", round & 1 ? "composite" : "npu", serial(&next), 0);
    tenon_registration_release(a);
    tenon_registration_release(b);
    tenon_registration_release(c);
    char *text = NULL; /* Tools look at the tables meanwhile, too. */
    CHECK_STATUS(tenon_op_table(op_of("probe::plain"), &text), TENON_OK);
    tenon_text_release(text);
    tenon_text_release(tenon_op_kernel(op_of("probe::plain"), 0));
  }
  for (int i = 0; i < 3; i++)
    __atomic_store_n(&crowds[i].stop, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < 3; i++) {
    tn_join(&threads[i]);
    CHECK(crowds[i].mistakes == 0 && crowds[i].calls > 0);
  }
  tenon_shutdown();
}

typedef struct maker_t {
  int number;
  int mistakes;
} maker_t;

static void
/* Two threads register for different backends of one operator. */
make_and_undo(void *pointer) {
  maker_t *m = pointer;
  char name[16];
  snprintf(name, sizeof name, "maker_%d", m->number);
  for (int round = 0; round < ROUNDS / 10; round++) {
    tenon_registration_t *r = probe_add("probe::plain", name, &id[m->number], 0);
    tenon_status_t status;
    if (probe_call(op_of("probe::plain"), name, &status) != m->number) m->mistakes++;
    tenon_registration_release(r);
  }
}

TEST("several threads can register kernels at once") {
  tn_spawned_t threads[3];
  maker_t makers[3] = {{1, 0}, {2, 0}, {3, 0}};
  probe_start();
  for (int i = 0; i < 3; i++)
    CHECK(tn_spawn(&threads[i], make_and_undo, &makers[i]));
  for (int i = 0; i < 3; i++)
    tn_join(&threads[i]);
  for (int i = 0; i < 3; i++)
    CHECK(makers[i].mistakes == 0);
  CHECK(op_info(op_of("probe::plain")).kernel_count == 1);
  tenon_shutdown();
}
