/* Plug-ins: several in one process, one that does not work beside others, tables that are refused, libraries that come and
 * go. */
#include <unistd.h>

#include "check.h"
#include "sanitizer.h"
#include "tensors.h"

#include "operators.h"
#include "there.h"

static tenon_status_t add(tenon_tensor_t *x, tenon_tensor_t **out) {
  *out = NULL;
  return tenon_op_call(op_of("core::add"), NULL, (tenon_tensor_t *[]){x, x}, out, 0);
}

TEST("two plug-ins with four ordinals work side by side, and one that finds nothing is told with its reason") {
  char *text = NULL;
  int32_t count = 0;
  setenv("OCL_ICD_VENDORS", "/nonexistent", 1); /* a loader, if there is one, finds no driver */
  sim_open(0, "check=fail");
  CHECK_STATUS(tenon_device_count("sim", &count), TENON_OK);
  CHECK(count == 2);
  CHECK_STATUS(tenon_device_count("null", &count), TENON_OK);
  CHECK(count == 2);
  CHECK_STATUS(tenon_device_count("opencl", &count), TENON_UNAVAILABLE);
  CHECK_TEXT(tenon_error(), "device opencl: ");
  CHECK_STATUS(tenon_device_count("opencl", &count), TENON_UNAVAILABLE); /* again, and not looked for again */
  CHECK_TEXT(tenon_error(), "install");
  for (int i = 0; i < 2; i++) {
    tenon_tensor_t *x = tensor_there(device_of("sim", i), "f32[2] 1 2"), *y = NULL, *out;
    int64_t n = 2;
    CHECK_STATUS(tenon_tensor_create_on(device_of("null", i), tenon_dtype(TENON_F32), 1, &n, &y), TENON_OK);
    CHECK_STATUS(add(x, &out), TENON_OK);
    check_there(out, "f32[2] 2 4");
    tenon_tensor_release(x), tenon_tensor_release(y), tenon_tensor_release(out);
  }
  CHECK_STATUS(tenon_devices(&text), TENON_OK);
  CHECK_TEXT(text, "sim: 2 devices\n");
  CHECK_TEXT(text, "null: 2 devices\n");
  CHECK_TEXT(text, "opencl: does not work: ");
  tenon_text_release(text);
  tenon_device_t device;
  CHECK_STATUS(tenon_device_find("sim", 2, &device), TENON_NOT_FOUND);
  CHECK_TEXT(tenon_error(), "device sim:2: there are 2 of it");
  unsetenv("OCL_ICD_VENDORS");
}

/* ---- tables ------------------------------------------------------------------------------------------------------- */

static tenon_status_t no_status(tenon_device_context_t *context) { return (void)context, TENON_OK; }
static tenon_status_t no_stream(tenon_on_t on, void **out) { return (void)on, *out = NULL, TENON_OK; }

TEST("a table that lacks what every plug-in has, or half a group, is refused with all that is missing") {
  static const tenon_device_table_t table = {.size = sizeof table,
                                             .abi = TENON_DEVICE_ABI,
                                             .name = "lame",
                                             .type = 12,
                                             .start = no_status,
                                             .stream_create = no_stream};
  static const tenon_item_t items[] = {TENON_DEVICE(&table), {TENON_TAG_END, 0, 0, NULL, NULL}};
  static const tenon_descriptor_t library = {sizeof library, TENON_ABI, TENON_LAYOUT, 0, "lame", "1.0.0", items};
  CHECK(tenon_library_add(&library, NULL, NULL, NULL) != TENON_OK);
  CHECK_TEXT(tenon_error(), "the table of a device has no function enumerate");
  CHECK_TEXT(tenon_error(), "no function synchronize");
  CHECK_TEXT(tenon_error(), "a function stream_create, but no stream_query: such go together");
  static const tenon_device_table_t newer = {.size = sizeof newer, .abi = 2u << 16, .name = "newer", .type = 12};
  static const tenon_item_t newer_items[] = {TENON_DEVICE(&newer), {TENON_TAG_END, 0, 0, NULL, NULL}};
  static const tenon_descriptor_t later = {sizeof later, TENON_ABI, TENON_LAYOUT, 0, "later", "1.0.0", newer_items};
  CHECK(tenon_library_add(&later, NULL, NULL, NULL) != TENON_OK);
  CHECK_TEXT(tenon_error(), "of contract 2, this host has 1");
}

/* ---- libraries ----------------------------------------------------------------------------------------------------- */

static long resident(void) { /* KiB */
  long pages = 0, own = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file && fscanf(file, "%ld %ld", &pages, &own) != 2) own = 0;
  if (file) fclose(file);
  return own * (sysconf(_SC_PAGESIZE) / 1024);
}

TEST("a library with a device is not unloaded while there are tensors on it") {
  tenon_library_t *library;
  tenon_shutdown();
  CHECK_STATUS(tenon_library_load(TEST_LIBRARIES "/../../devices/sim.so", TENON_LOAD_UNLOADABLE, &library), TENON_OK);
  tenon_tensor_t *x = tensor_there(device_of("sim", 0), "f32[2] 1 2");
  CHECK_STATUS(tenon_library_unload(library), TENON_UNAVAILABLE);
  CHECK_TEXT(tenon_error(), "cannot unload library sim: it is held by 1 tensors on device sim");
  check_there(x, "f32[2] 1 2");
  tenon_tensor_release(x);
  CHECK_STATUS(tenon_library_unload(library), TENON_OK);
}

TEST("a plug-in is loaded, used and unloaded 1,000 times without growth after the first ten") {
  long before = 0;
  for (int i = 0; i < 1000; i++) {
    tenon_library_t *library = NULL;
    int64_t n = 64;
    tenon_tensor_t *t = NULL;
    if (!CHECK_STATUS(tenon_library_load(TEST_LIBRARIES "/../../devices/null.so", TENON_LOAD_UNLOADABLE, &library),
                      TENON_OK))
      break;
    CHECK_STATUS(tenon_tensor_create_on(device_of("null", 0), tenon_dtype(TENON_F32), 1, &n, &t), TENON_OK);
    tenon_tensor_release(t);
    CHECK_STATUS(tenon_library_unload(library), TENON_OK);
    if (i == 10) before = resident();
  }
#ifndef IS_INSTRUMENTED
  char text[100];
  snprintf(text, sizeof text, "%ld KiB after 990 times", resident() - before);
  check_report(before > 0 && resident() - before < 256, __FILE__, __LINE__, "no growth", text);
#else
  CHECK(before > 0);
#endif
}

TEST("nothing is left behind") { tenon_shutdown(); }
