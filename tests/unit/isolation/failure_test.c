/* Lets each allocation fail in turn that the program makes while it loads and calls an isolated
 * library. */
#include "check.h"
#include "tensors.h"

#include "operators.h"

#include "failing.h"
#include "isolation.h"

static tenon_status_t load_and_call(void *context) {
  static const char *const attrs[] = {NULL, "above=1.5", "start=3"};
  static const char *const ops[] = {"contract::median", "contract::collect", "contract::counter"};
  const tenon_isolation_t isolation = {.size = sizeof isolation, .shared = 256 << 20};
  tenon_library_t *library = NULL;
  tenon_tensor_t **inputs = context;
  tenon_status_t status = tenon_library_load_isolated(TEST_LIBRARIES "/libcontract.so",
                                                      TENON_LOAD_UNLOADABLE, &isolation, &library);
  for (int i = 0; i < 3 && status == TENON_OK; i++) {
    const tenon_op_t *op = NULL;
    tenon_attrs_t *made = NULL;
    const tenon_value_t *values = NULL;
    tenon_tensor_t *out = NULL;
    status = tenon_op_find(ops[i], &op);
    if (status == TENON_OK && attrs[i]) status = tenon_attrs_create(op, &made);
    if (made && status == TENON_OK)
      status = tenon_attrs_parse(made, i == 1 ? "above" : "start", i == 1 ? "1.5" : "3");
    if (made && status == TENON_OK) status = tenon_attrs_values(made, &values);
    if (status == TENON_OK) status = tenon_op_call(op, values, inputs, &out, 0);
    tenon_tensor_release(out);
    tenon_attrs_release(made);
  }
  tenon_status_t unloaded = library ? tenon_library_unload(library) : TENON_OK;
  if (unloaded != TENON_OK) {
    /* If memory runs out here, shutdown unloads it. */
    tenon_library_release(library);
    tenon_shutdown();
  }
  return status;
}

TEST("a failed allocation is reported as one, and leaves no process and no memory behind") {
  tenon_tensor_t *input = tensor_of("f32[3] 1 2 3");
  CHECK_STATUS(tenon_start(), TENON_OK);
  const int before = open_descriptors();
  fail_each("an isolated library", load_and_call, &input, 7);
  CHECK(processes_below(1, NULL) == 0 && shared_mappings() == 0 && open_descriptors() == before);
  tenon_tensor_release(input);
  tenon_shutdown();
}
