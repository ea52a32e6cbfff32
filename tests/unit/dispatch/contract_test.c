/* Every part of the contract in calls: the operators of tests/libraries/contract, loaded, linked
 * in, and called from the kernels of another library, with each function of tenon.h that calls. */
#include "check.h"
#include "tensors.h"

#include "operators.h"

#include "contract_cases.h"

TENON_C const tenon_descriptor_t *tenon_library_contract(void);
TENON_C const tenon_descriptor_t *tenon_library_partner(void);

static uint64_t wanted_of(const contract_case_t *c, int variant) {
  return c->variants[variant].outputs[1] ? 3 : 1;
}

static void release_all(tenon_tensor_t **tensors, int32_t count) {
  for (int32_t i = 0; i < count; i++) {
    tenon_tensor_release(tensors[i]);
    tensors[i] = NULL;
  }
}

static void check_call(const contract_case_t *c, int variant, const tenon_op_t *op,
                       const tenon_value_t *attrs) {
  tenon_tensor_t *inputs[CASE_INPUTS];
  tenon_tensor_t *made[CASE_OUTPUTS] = {NULL};
  tenon_tensor_t *given[CASE_OUTPUTS] = {NULL};
  tenon_bound_t *bound = NULL;
  int32_t count = op_info(op).output_count;
  int32_t most = op_info(op).input_count;
  for (int32_t i = 0; i < most; i++)
    inputs[i] = tensor_of(c->variants[variant].inputs[i]);
  CHECK_STATUS(tenon_op_call(op, attrs, inputs, made, wanted_of(c, variant)), TENON_OK);
  check_results(c, variant, "call", made, count);
  if (!(c->flags & CASE_OPEN)) {
    for (int32_t o = 0; o < count; o++)
      given[o] = tensor_like(made[o]);
    CHECK_STATUS(tenon_op_call_into(op, attrs, inputs, given), TENON_OK);
    check_results(c, variant, "call into", given, count);
    release_all(given, count);
    for (int32_t o = 0; o < count; o++)
      given[o] = tensor_like(made[o]);
    CHECK_STATUS(tenon_op_run(op, attrs, inputs, given), TENON_OK);
    check_results(c, variant, "run", given, count);
    release_all(given, count);
    for (int32_t o = 0; o < count; o++)
      given[o] = tensor_like(made[o]);
  }
  release_all(made, count);
  CHECK_STATUS(tenon_bound_create(op, attrs, &bound), TENON_OK);
  if (!bound) return;
  CHECK_STATUS(tenon_bound_call(bound, inputs, made, wanted_of(c, variant)), TENON_OK);
  check_results(c, variant, "bound call", made, count);
  if (!(c->flags & CASE_OPEN)) {
    CHECK_STATUS(tenon_bound_run(bound, inputs, given), TENON_OK);
    check_results(c, variant, "bound run", given, count);
  }
  tenon_bound_release(bound);
  release_all(made, count);
  release_all(given, count);
  release_all(inputs, most);
}

static void check_library(const char *library) {
  for (int i = 0; i < CONTRACT_CASES; i++) {
    const contract_case_t *c = &contract_cases[i];
    const tenon_op_t *op = case_op(c, library);
    if (!op) continue;
    tenon_attrs_t *attrs = attrs_of(op, c->attrs);
    for (int v = 0; v < CASE_VARIANTS && case_has(c, v); v++)
      check_call(c, v, op, attr_values(attrs));
    tenon_attrs_release(attrs);
  }
}

TEST("operators of a loaded library give the documented results in every way of calling") {
  CHECK_STATUS(tenon_library_load(TEST_LIBRARIES "/libcontract.so", 0, NULL), TENON_OK);
  check_library("contract");
}

TEST("operators called from the kernels of another loaded library give the same results") {
  CHECK_STATUS(tenon_library_load(TEST_LIBRARIES "/libpartner.so", 0, NULL), TENON_OK);
  check_library("partner");
  tenon_shutdown();
}

TEST("a library that runs in worker processes gives the same results") {
  const tenon_isolation_t isolation = {
      .size = sizeof isolation, .allow = TENON_ALLOW_EXTEND, .child_count = 2};
  CHECK_STATUS(tenon_library_load_isolated(TEST_LIBRARIES "/libcontract.so", 0, &isolation, NULL),
               TENON_OK);
  check_library("contract");
  tenon_shutdown();
}

TEST("the same sources, linked into the program, give the same results") {
  CHECK_STATUS(tenon_library_add(tenon_library_contract(), NULL, NULL, NULL), TENON_OK);
  CHECK_STATUS(tenon_library_add(tenon_library_partner(), NULL, NULL, NULL), TENON_OK);
  check_library("contract");
  check_library("partner");
  tenon_shutdown();
}
