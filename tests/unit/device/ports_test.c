/* Inputs and outputs of executables may be on any device, whatever the device of the executable. */
#include "check.h"
#include "tensors.h"

#include "operators.h"
#include "there.h"

static tenon_executable_t *sum_on(tenon_device_t device) {
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
  tenon_edge_t y = graph_input(b, "y", TENON_F32, 1);
  tenon_edge_t z;
  graph_node(b, NULL, "core::add", NULL, (tenon_edge_t[]){x, y}, &z, 1);
  graph_output(b, "z", z);
  graph_output(b, "r", graph_step(b, "core::relu", NULL, z));
  return graph_compile_on(b, device);
}

static tenon_tensor_t *on(tenon_device_t device, const char *text) {
  return device.type == 1 ? tensor_of(text) : tensor_there(device, text);
}

TEST("an executable of the CPU or a device takes inputs from both ordinals and the host, and "
     "writes to either") {
  for (int handles = 0; handles < 2; handles++) {
    tenon_shutdown();
    setenv("TENON_SIM", handles ? "handles=1" : "", 1);
    const tenon_device_t places[3] = {{1, 0}, sim_open(0, "check=fail"), sim_open(1, "check=fail")};
    for (int own = 0; own < 3; own++) {
      tenon_executable_t *e = sum_on(places[own]);
      for (int k = 0; k < 27 && e; k++) {
        tenon_device_t a = places[k % 3];
        tenon_device_t b = places[k / 3 % 3];
        tenon_device_t to = places[k / 9];
        tenon_tensor_t *in[2] = {on(a, "f32[3] 1 -2 3"), on(b, "f32[3] 10 -20 30")};
        tenon_tensor_t *out[2] = {on(to, "f32[3] 0 0 0"), NULL};
        const tenon_tensor_t *given = out[0];
        CHECK_STATUS(tenon_executable_run(e, in, out, NULL), TENON_OK);
        CHECK(out[0] == given && out[0]->device.type == to.type && out[1] &&
              out[1]->device.type == 1);
        check_there(out[0], "f32[3] 11 -22 33");
        check_there(out[1], "f32[3] 11 0 33");
        for (int i = 0; i < 2; i++) {
          tenon_tensor_release(in[i]);
          tenon_tensor_release(out[i]);
        }
      }
      tenon_executable_release(e);
    }
    CHECK(stats_of(places[1]).live == 0 && stats_of(places[2]).live == 0);
  }
  unsetenv("TENON_SIM");
}

TEST("a run that fails leaves given outputs unchanged, and creates none") {
  tenon_device_t device = sim_open(0, "check=fail");
  tenon_executable_t *e = sum_on((tenon_device_t){1, 0});
  tenon_tensor_t *in[2] = {tensor_there(device, "f32[3] 1 2 3"), tensor_of("f32[2] 1 2")};
  tenon_tensor_t *out[2] = {tensor_there(device, "f32[3] 7 8 9"), NULL};
  CHECK_STATUS(tenon_executable_run(e, in, out, NULL), TENON_INVALID);
  CHECK(out[1] == NULL);
  check_there(out[0], "f32[3] 7 8 9");
  tenon_tensor_release(in[1]);
  in[1] = tensor_of("f32[3] 1 2 3");
  /* an output of another shape */
  tenon_tensor_release(out[0]);
  out[0] = tensor_there(device, "f32[2] 7 8");
  CHECK(tenon_executable_run(e, in, out, NULL) != TENON_OK);
  CHECK_TEXT(tenon_error(), "z");
  for (int i = 0; i < 2; i++) {
    tenon_tensor_release(in[i]);
    tenon_tensor_release(out[i]);
  }
  tenon_executable_release(e);
}

TEST("nothing is left behind") { tenon_shutdown(); }
