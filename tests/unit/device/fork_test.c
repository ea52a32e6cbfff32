/* Children of fork: a device works there if its plug-in continues after a fork; otherwise the
 * plug-in gives the reason. */
#include "check.h"
#include "sanitizer.h"
#include "tensors.h"

#include "operators.h"
#include "there.h"

static tenon_tensor_t *x;

static void adds(void) {
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_op_call(op_of("core::add"), NULL, (tenon_tensor_t *[]){x, x}, &out, 0),
               TENON_OK);
  check_there(out, "f32[2] 2 4");
  tenon_tensor_release(out);
}

static void is_lost(void) {
  tenon_tensor_t *out = NULL;
  CHECK(tenon_op_call(op_of("core::add"), NULL, (tenon_tensor_t *[]){x, x}, &out, 0) != TENON_OK);
  CHECK_TEXT(tenon_error(),
             "device opencl: opencl:0: OpenCL was opened before this process was forked");
  tenon_tensor_release(x); /* A release is still possible. */
}

TEST("sim works in a child of fork, with tensors of the parent") {
#ifdef IS_INSTRUMENTED
  SKIP("sanitizers do not follow a process with threads into a child");
#endif
  x = tensor_there(sim_open(0, "check=fail"), "f32[2] 1 2");
  adds();
  CHECK(in_child(adds));
  adds();
  tenon_tensor_release(x);
}

TEST("opencl is lost in a child of fork, and the plug-in's reason is given") {
  int32_t count;
#ifdef IS_INSTRUMENTED
  SKIP("sanitizers do not follow a process with threads into a child");
#endif
  if (tenon_device_count("opencl", &count) != TENON_OK) SKIP("there is no driver of OpenCL");
  x = tensor_there(device_of("opencl", 0), "f32[2] 1 2");
  CHECK(in_child(is_lost));
  adds();
  tenon_tensor_release(x);
}

TEST("nothing is left behind") { tenon_shutdown(); }
