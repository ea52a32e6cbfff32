/* Source kernels that need doubles, halves or 64-bit atomics: a device with the capability runs
 * them, and a device without it declines with that reason, so the call falls back to the CPU. */
#include "check.h"
#include "tensors.h"

#include "device/program.h"
#include "operators.h"
#include "there.h"

typedef struct need_t {
  const char *op;
  const char *input;
  const char *expected;
  const char *without;
  const char *word;
  /* The dtype that selects among the kernels; 0: no dtype does. */
  uint32_t dtype;
} need_t;

static const need_t needs[] = {
    {"source::cube", "f64[4] 1 -2 0.5 100000001", "f64[4] 1 -8 0.125 1.0000000300000003e24", "f64",
     "doubles", 0},
    {"source::twice", "f16[3] 0.5 -3 1000", "f16[3] 1 -6 2000", "f16", "halves", 0},
    {"source::totals", "i64[7] 1 2 3 10 20 30 4000000000", "i64[3] 4000000011 22 33", "atomics64",
     "wide_atomics", TENON_I64},
    {"source::totals", "f64[7] 1 2 3 10 20 30 0.5", "f64[3] 11.5 22 33", "atomics64",
     "wide_atomics", TENON_F64},
    {"source::totals", "f64[7] 1 2 3 10 20 30 0.5", "f64[3] 11.5 22 33", "f64", "doubles",
     TENON_F64},
};
enum { NEEDS = sizeof needs / sizeof *needs };

static uint64_t compiled(void) { return tn_program_counts.compiled + tn_program_counts.read; }

static long fallbacks(const char *op) {
  char *report = NULL;
  CHECK_STATUS(tenon_fallback_report(&report), TENON_OK);
  const char *line = report ? strstr(report, op) : NULL;
  long count = line ? strtol(line + strlen(op), NULL, 10) : 0;
  tenon_text_release(report);
  return count;
}

static tenon_status_t call(const need_t *need, tenon_device_t device, tenon_tensor_t **out) {
  tenon_tensor_t *x = tensor_there(device, need->input);
  *out = NULL;
  tenon_status_t status = tenon_op_call(op_of(need->op), NULL, &x, out, 0);
  tenon_tensor_release(x);
  return status;
}

/* Calls the kernel on the device itself; if the device declines, checks the reason and the fallback
 * to the CPU. */
static void check_need(const need_t *need, const char *backend, bool has) {
  tenon_device_t device = device_of(backend, 0);
  tenon_tensor_t *out = NULL;
  uint64_t before = compiled();
  char *text = NULL;
  char reason[100];
  snprintf(reason, sizeof reason, "%s, which %s:0 has not", need->word, backend);
  tenon_dtype_t dtype = need->dtype ? tenon_dtype(need->dtype) : (tenon_dtype_t){0, 0, 0};
  if (!has) {
    CHECK_STATUS(call(need, device, &out), TENON_UNIMPLEMENTED); /* There is no fallback yet. */
    CHECK_TEXT(tenon_error(), reason);
    CHECK(!out);
  }
  tenon_registration_t *registration = NULL;
  CHECK_STATUS(tenon_fallback_add(backend, tenon_fallback_cpu, NULL, NULL, 0, &registration),
               TENON_OK);
  long fell = fallbacks(need->op);
  CHECK_STATUS(call(need, device, &out), TENON_OK);
  if (out) check_there(out, need->expected);
  tenon_tensor_release(out);
  CHECK(fallbacks(need->op) == fell + !has && (compiled() > before) == has);
  CHECK_STATUS(tenon_op_explain(op_of(need->op), backend, dtype, &text), TENON_OK);
  if (has)
    CHECK_TEXT(text, "takes source");
  else
    CHECK_TEXT(text, reason);
  if (!has && need->dtype)
    CHECK_TEXT(text, "takes fallback: the device has not what its source kernel needs");
  tenon_text_release(text);
  tenon_registration_release(registration);
}

static void start(const char *settings) {
  tenon_shutdown();
  setenv("TENON_SIM", settings, 1);
  CHECK_STATUS(tenon_library_load(TEST_LIBRARIES "/libsource.so", 0, NULL), TENON_OK);
}

TEST("a device runs source kernels whose requirements it meets") {
  for (int i = 0; i < NEEDS; i++) {
    start("");
    check_need(&needs[i], "sim", true);
  }
}

TEST("a device declines a kernel whose requirement it does not meet, with that reason, and the CPU "
     "runs it") {
  for (int i = 0; i < NEEDS; i++) {
    char settings[60];
    snprintf(settings, sizeof settings, "without=%s", needs[i].without);
    start(settings);
    check_need(&needs[i], "sim", false);
  }
  for (int i = 0; i < NEEDS; i++) {
    start("without=f64+f16+atomics64");
    const char *word = strcmp(needs[i].word, "wide_atomics") || needs[i].dtype != TENON_F64
                           ? needs[i].word
                           : "doubles";
    need_t need = needs[i]; /* The message names the first missing requirement. */
    need.word = word;
    check_need(&need, "sim", false);
  }
}

TEST("kernels without requirements run on a device without optional capabilities") {
  start("without=f64+f16+atomics64");
  tenon_tensor_t *x = tensor_there(device_of("sim", 0), "bf16[3] 1 -2 4");
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_op_call(op_of("source::half_more"), NULL, &x, &out, 0), TENON_OK);
  check_there(out, "bf16[3] 1.5 -3 6");
  tenon_tensor_release(x);
  tenon_tensor_release(out);
  unsetenv("TENON_SIM");
}

TEST("on opencl the capabilities that the driver reports decide which kernels run") {
  int32_t count;
  start("");
  if (tenon_device_count("opencl", &count) != TENON_OK) SKIP("there is no driver of OpenCL");
  const tenon_device_properties_t *p = &ordinal_of(device_of("opencl", 0))->properties;
  bool has_f64 = false;
  bool has_f16 = false;
  bool has_atomics = p->features & TENON_DEVICE_WIDE_ATOMICS;
  for (const uint32_t *d = p->computes; *d; d++) {
    has_f64 |= *d == TENON_F64;
    has_f16 |= *d == TENON_F16;
  }
  const bool has[NEEDS] = {has_f64, has_f16, has_atomics, has_f64 && has_atomics,
                           has_f64 && has_atomics};
  printf("opencl: doubles %d, halves %d, wide_atomics %d\n", has_f64, has_f16, has_atomics);
  for (int i = 0; i < NEEDS; i++) {
    need_t need = needs[i];
    if (need.dtype == TENON_F64) need.word = has_f64 ? "wide_atomics" : "doubles";
    start("");
    check_need(&need, "opencl", has[i]);
  }
}

TEST("requirements of source kernels are refused for other kernels, and an unknown setting is "
     "named") {
  tenon_registration_t *registration = NULL;
  CHECK_STATUS(tenon_kernel_add("core::add", "cpu doubles", tenon_fallback_cpu, NULL, NULL, 0,
                                &registration),
               TENON_INVALID);
  CHECK_TEXT(tenon_error(), "words of SOURCE");
  tenon_device_t device = sim_open(0, "");
  CHECK_STATUS(sim->set(&ordinal_of(device)->context, "without=f32"), TENON_INVALID);
  CHECK_STATUS(sim->set(&ordinal_of(device)->context, "without=f64+"), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "without=f64+f16+atomics64");
}

TEST("nothing is left behind") { tenon_shutdown(); }
