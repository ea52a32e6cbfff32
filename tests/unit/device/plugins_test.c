/* Plug-ins: several in one process, one that does not work beside others, device tables that are
 * refused, and libraries that are loaded and unloaded. */
#include <malloc.h>

#include "check.h"
#include "sanitizer.h"
#include "tensors.h"

#include "operators.h"
#include "there.h"

static tenon_status_t add(tenon_tensor_t *x, tenon_tensor_t **out) {
  *out = NULL;
  return tenon_op_call(op_of("core::add"), NULL, (tenon_tensor_t *[]){x, x}, out, 0);
}

TEST("two plug-ins with two ordinals each work side by side, and one that finds no device gives "
     "its reason") {
  char *text = NULL;
  int32_t count = 0;
  /* An OpenCL loader, if one is installed, finds no driver. */
  setenv("OCL_ICD_VENDORS", "/nonexistent", 1);
  sim_open(0, "check=fail");
  CHECK_STATUS(tenon_device_count("sim", &count), TENON_OK);
  CHECK(count == 2);
  CHECK_STATUS(tenon_device_count("null", &count), TENON_OK);
  CHECK(count == 2);
  CHECK_STATUS(tenon_device_count("opencl", &count), TENON_UNAVAILABLE);
  CHECK_TEXT(tenon_error(), "device opencl: ");
  CHECK_STATUS(tenon_device_count("opencl", &count),
               /* The second call fails as well, without another search. */
               TENON_UNAVAILABLE);
  CHECK_TEXT(tenon_error(), "install");
  for (int i = 0; i < 2; i++) {
    tenon_tensor_t *x = tensor_there(device_of("sim", i), "f32[2] 1 2");
    tenon_tensor_t *y = NULL;
    tenon_tensor_t *out;
    int64_t n = 2;
    CHECK_STATUS(tenon_tensor_create_on(device_of("null", i), tenon_dtype(TENON_F32), 1, &n, &y),
                 TENON_OK);
    CHECK_STATUS(add(x, &out), TENON_OK);
    check_there(out, "f32[2] 2 4");
    tenon_tensor_release(x);
    tenon_tensor_release(y);
    tenon_tensor_release(out);
  }
  CHECK_STATUS(tenon_devices(&text), TENON_OK);
  CHECK_TEXT(text, "sim: 2 devices\n");
  CHECK_TEXT(text, "null: 2 devices\n");
  CHECK_TEXT(text, "opencl: does not work: ");
  tenon_text_release(text);
  tenon_device_t device;
  CHECK_STATUS(tenon_device_find("sim", 2, &device), TENON_NOT_FOUND);
  CHECK_TEXT(tenon_error(), "device sim:2 does not exist: there are 2 of it");
  unsetenv("OCL_ICD_VENDORS");
}

/* device tables */

static tenon_status_t no_status(tenon_device_context_t *context) {
  (void)context;
  return TENON_OK;
}
static tenon_status_t no_stream(tenon_on_t on, void **out) {
  (void)on;
  *out = NULL;
  return TENON_OK;
}

TEST("a program is told what is known about a device, and how much of its memory is free") {
  tenon_device_info_t info = {.size = sizeof info};
  tenon_device_info_t small = {.size = 8};
  tenon_device_t sim = device_of("sim", 1);
  CHECK_STATUS(tenon_device_info(sim, &info), TENON_OK);
  CHECK_TEXT(info.backend, "sim");
  CHECK_TEXT(info.name, "simulated accelerator");
  CHECK(info.ordinal == 1 && info.memory > 0 && info.has_streams && info.has_events);
  CHECK_STATUS(tenon_memory_trim(sim), TENON_OK);
  CHECK_STATUS(tenon_device_info(sim, &info), TENON_OK);
  const uint64_t before = info.memory_free;
  const int64_t n = 1 << 20;
  tenon_tensor_t *t = NULL;
  CHECK_STATUS(tenon_tensor_create_on(sim, tenon_dtype(TENON_F32), 1, &n, &t), TENON_OK);
  CHECK_STATUS(tenon_device_info(sim, &info), TENON_OK);
  CHECK(info.memory_free + 4 * (uint64_t)n <= before);
  tenon_tensor_release(t);
  CHECK_STATUS(tenon_device_info(sim, &small), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "tenon_device_info_t of 8 bytes: expected at least");
  CHECK_STATUS(tenon_device_info((tenon_device_t){1, 0}, &info), TENON_NOT_FOUND);
}

TEST("a device table without a required function, or with half of a group, is refused with all "
     "that is missing") {
  static const tenon_device_table_t table = {.size = sizeof table,
                                             .abi = TENON_DEVICE_ABI,
                                             .name = "lame",
                                             .type = 12,
                                             .start = no_status,
                                             .stream_create = no_stream};
  static const tenon_item_t items[] = {TENON_DEVICE(&table), {TENON_TAG_END, 0, 0, NULL, NULL}};
  static const tenon_descriptor_t library = {sizeof library, TENON_ABI, TENON_LAYOUT, 0,
                                             "lame",         "1.0.0",   items};
  CHECK(tenon_library_add(&library, NULL, NULL, NULL) != TENON_OK);
  CHECK_TEXT(tenon_error(), "the table of a device has no function enumerate");
  CHECK_TEXT(tenon_error(), "no function synchronize");
  CHECK_TEXT(tenon_error(),
             "a function stream_create but no stream_query: they are required together");
  static const tenon_device_table_t newer = {
      .size = sizeof newer, .abi = 2u << 16, .name = "newer", .type = 12};
  static const tenon_item_t newer_items[] = {TENON_DEVICE(&newer),
                                             {TENON_TAG_END, 0, 0, NULL, NULL}};
  static const tenon_descriptor_t later = {sizeof later, TENON_ABI, TENON_LAYOUT, 0,
                                           "later",      "1.0.0",   newer_items};
  CHECK(tenon_library_add(&later, NULL, NULL, NULL) != TENON_OK);
  CHECK_TEXT(tenon_error(), "has contract version 2, but this host has 1");
}

/* libraries */

TEST("a library with a device is not unloaded while there are tensors on the device") {
  tenon_library_t *library;
  tenon_shutdown();
  CHECK_STATUS(
      tenon_library_load(TEST_LIBRARIES "/../../devices/sim.so", TENON_LOAD_UNLOADABLE, &library),
      TENON_OK);
  tenon_tensor_t *x = tensor_there(device_of("sim", 0), "f32[2] 1 2");
  CHECK_STATUS(tenon_library_unload(library), TENON_UNAVAILABLE);
  CHECK_TEXT(tenon_error(), "cannot unload library sim: it is held by 1 tensors on device sim");
  check_there(x, "f32[2] 1 2");
  tenon_tensor_release(x);
  CHECK_STATUS(tenon_library_unload(library), TENON_OK);
}

/* Makes glibc's threads keep no free blocks, which would count as allocated: starts the program
 * again with that setting. */
#ifndef IS_INSTRUMENTED
static __attribute__((constructor)) void begin_anew(int argc, char **argv) {
  (void)argc;
  if (getenv("GLIBC_TUNABLES")) return;
  setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1);
  execv("/proc/self/exe", argv);
}
#endif

static uint64_t heap(void) { /* The number of allocated bytes. */
  struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

/* Uses memory, copies in both directions, an operator that is launched or falls back, and a
 * stream. */
static void use(const char *name, bool computes) {
  tenon_device_t device = device_of(name, 0);
  tenon_stream_t *stream = NULL;
  tenon_tensor_t *x = tensor_there(device, "f32[2] 1 2");
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_stream_create(device, &stream), TENON_OK);
  CHECK_STATUS(tenon_stream_use(device, stream, NULL), TENON_OK);
  CHECK_STATUS(add(x, &out), TENON_OK);
  CHECK_STATUS(tenon_stream_use(device, NULL, NULL), TENON_OK);
  if (computes && out) check_there(out, "f32[2] 2 4");
  tenon_tensor_release(x);
  tenon_tensor_release(out);
  tenon_stream_release(stream);
}

/* Operators without a kernel of vx run on the CPU. */
static tenon_registration_t *fall_back(const char *name) {
  tenon_registration_t *registration = NULL;
  CHECK_STATUS(tenon_fallback_add(name, tenon_fallback_cpu, NULL, NULL, 0, &registration),
               TENON_OK);
  return registration;
}

static void come_and_go(const char *name, const char *file, bool computes) {
  enum {
    MOST = 1000,
    FIRST = 10,
  };
  int times = MOST;
  uint64_t first = 0;
  char text[200];
#ifdef IS_INSTRUMENTED
  times = 50; /* The sanitizer has its own heap, and looks for leaks at the end. */
#endif
  setenv("TENON_CACHE", "off", 1);
  for (int i = 0; i < times; i++) {
    tenon_library_t *library = NULL;
    if (!CHECK_STATUS(tenon_library_load(file, TENON_LOAD_UNLOADABLE, &library), TENON_OK)) return;
    use(name, computes);
    if (!CHECK_STATUS(tenon_library_unload(library), TENON_OK)) return;
    if (i == FIRST) first = heap();
  }
  unsetenv("TENON_CACHE");
  int64_t grown = (int64_t)(heap() - first);
  snprintf(text, sizeof text, "%s: %lld bytes after %d times", name, (long long)grown,
           times - FIRST - 1);
  if (getenv("TENON_SHOW")) printf("%s\n", text);
#ifndef IS_INSTRUMENTED
  check_report(grown < times - FIRST - 1, __FILE__, __LINE__, "no growth",
               /* Less than one byte for each time. */
               text);
#endif
}

TEST("null is loaded, used and unloaded 1,000 times without growth after the first ten") {
  come_and_go("null", TEST_LIBRARIES "/../../devices/null.so", false);
}
TEST("sim, whose kernels serve operators of other libraries, comes and goes 1,000 times without "
     "growth") {
  come_and_go("sim", TEST_LIBRARIES "/../../devices/sim.so", true);
}
TEST("the example device, which has no kernels, comes and goes 1,000 times without growth") {
  tenon_registration_t *registration = fall_back("vx");
  come_and_go("vx", TEST_LIBRARIES "/../vx.so", true);
  tenon_registration_release(registration);
}

TEST("nothing is left behind") { tenon_shutdown(); }
