/* Lets the n-th allocation fail, for every n: while the runtime starts, while libraries are loaded
 * and added, and in calls of all operators of the contract. */
#include "check.h"
#include "tensors.h"

#include "operators.h"

#include "contract_cases.h"
#include "failing.h"
#include "faults.h"

#include "operator/names.h"

TENON_C const tenon_descriptor_t *tenon_library_contract(void);
TENON_C const tenon_descriptor_t *tenon_library_partner(void);

static bool is_there(const char *name) { return tn_registry_find(name) != NULL; }

static tenon_status_t try_start(void *context) {
  (void)context;
  tenon_status_t status = tenon_start();
  if (status != TENON_OK && is_there("core::add"))
    CHECK_NEVER("half of the operators are registered");
  if (status != TENON_OK) CHECK_TEXT(tenon_error(), "memory");
  tenon_shutdown();
  return status;
}

TEST("the runtime starts as a whole or not at all") {
  tenon_shutdown();
  fail_each("start", try_start, NULL,
            41); /* It makes thousands of allocations, all at the same few places. */
}

static tenon_status_t try_load(void *context) {
  tenon_library_t *library = NULL;
  tenon_library_t *partner = NULL;
  (void)context;
  tenon_status_t status =
      tenon_library_load(TEST_LIBRARIES "/libcontract.so", TENON_LOAD_UNLOADABLE, &library);
  if (status != TENON_OK) CHECK(library == NULL && !is_there("contract::split"));
  if (status == TENON_OK)
    status = tenon_library_load(TEST_LIBRARIES "/libpartner.so", TENON_LOAD_UNLOADABLE, &partner);
  if (status != TENON_OK) CHECK(partner == NULL && !is_there("partner::split"));
  tenon_library_release(partner);
  tenon_library_release(library);
  CHECK(!is_there("contract::split") && !is_there("partner::split"));
  return status;
}

TEST("libraries are loaded as a whole or not at all") {
  CHECK_STATUS(tenon_start(), TENON_OK);
  fail_each("load", try_load, NULL, 1);
}

static int destroyed;
static void count_destroy(void *context) {
  (void)context;
  destroyed++;
}

static tenon_status_t try_add(void *context) {
  int before = destroyed;
  tenon_status_t status = tenon_start();
  if (status == TENON_OK)
    status = tenon_library_add(tenon_library_contract(), context, count_destroy, NULL);
  if (status != TENON_OK) CHECK_TEXT(tenon_error(), "memory");
  tenon_shutdown();
  CHECK(destroyed - before ==
        /* The context is destroyed with the library, or stays the program's. */
        (status == TENON_OK));
  return status;
}

TEST("a library of the program is added as a whole or not at all") {
  fail_each("add", try_add, &destroyed, 53);
}

/* calls */

typedef struct trial_t {
  const contract_case_t *c;
  const tenon_op_t *op;
  tenon_tensor_t *inputs[CASE_INPUTS];
  tenon_tensor_t *expected[CASE_OUTPUTS];
} trial_t;

static void check_made(const trial_t *t, tenon_tensor_t *const *outputs) {
  for (int o = 0; o < CASE_OUTPUTS; o++)
    if (t->expected[o]) CHECK(tensor_equal(outputs[o], t->expected[o], 1e-6));
}

static tenon_status_t try_call(void *context) {
  const trial_t *t = context;
  tenon_tensor_t *made[CASE_OUTPUTS] = {NULL};
  tenon_tensor_t *again[CASE_OUTPUTS] = {NULL};
  tenon_attrs_t *attrs = NULL;
  tenon_bound_t *bound = NULL;
  const tenon_value_t *values = NULL;
  uint64_t wanted = t->expected[1] ? 3 : 1;
  tenon_status_t status = tenon_attrs_create(t->op, &attrs);
  for (const char *text = t->c->attrs; text && *text && status == TENON_OK;
       text += strspn(text, "; ")) {
    char name[64] = "";
    char value[256] = "";
    size_t n = strcspn(text, "=");
    size_t v = strcspn(text + n + 1, ";");
    memcpy(name, text, n);
    memcpy(value, text + n + 1, v);
    status = tenon_attrs_parse(attrs, name, value);
    text += n + 1 + v;
  }
  if (status == TENON_OK) status = tenon_attrs_values(attrs, &values);
  if (status == TENON_OK) status = tenon_op_call(t->op, values, t->inputs, made, wanted);
  if (status == TENON_OK)
    check_made(t, made);
  else
    for (int o = 0; o < CASE_OUTPUTS; o++)
      CHECK(made[o] == NULL);
  if (status == TENON_OK && !(t->c->flags & CASE_OPEN))
    status = tenon_op_call_into(t->op, values, t->inputs, made);
  if (status == TENON_OK) status = tenon_bound_create(t->op, values, &bound);
  if (status == TENON_OK) status = tenon_bound_call(bound, t->inputs, again, wanted);
  if (status == TENON_OK) check_made(t, again);
  tenon_bound_release(bound);
  tenon_attrs_release(attrs);
  for (int o = 0; o < CASE_OUTPUTS; o++) {
    tenon_tensor_release(made[o]);
    tenon_tensor_release(again[o]);
  }
  return status;
}

static void check_calls(const char *library) {
  for (int i = 0; i < CONTRACT_CASES; i++) {
    trial_t t = {&contract_cases[i], case_op(&contract_cases[i], library), {NULL}, {NULL}};
    char what[128];
    snprintf(what, sizeof what, "%s::%s", library, t.c->op);
    for (int k = 0; k < CASE_INPUTS; k++)
      t.inputs[k] = tensor_of(t.c->variants[0].inputs[k]);
    for (int k = 0; k < CASE_OUTPUTS; k++)
      t.expected[k] = tensor_of(t.c->variants[0].outputs[k]);
    if (t.op) fail_each(what, try_call, &t, 1);
    for (int k = 0; k < CASE_OUTPUTS; k++)
      tenon_tensor_release(t.expected[k]);
    for (int k = 0; k < CASE_INPUTS; k++)
      tenon_tensor_release(t.inputs[k]);
  }
}

TEST("calls of every operator of the contract fail cleanly, and work the next time") {
  CHECK_STATUS(tenon_library_add(tenon_library_contract(), NULL, NULL, NULL), TENON_OK);
  CHECK_STATUS(tenon_library_add(tenon_library_partner(), NULL, NULL, NULL), TENON_OK);
  check_calls("contract");
  check_calls("partner");
}

typedef struct single_t {
  const char *name;
  tenon_tensor_t *inputs[2];
  const tenon_op_t *op;
} single_t;

static tenon_status_t try_single(void *context) {
  single_t *s = context;
  tenon_tensor_t *out[2] = {NULL};
  tenon_status_t status = tenon_op_call(s->op, NULL, s->inputs, out, 0);
  for (int o = 0; o < 2; o++) {
    CHECK(status == TENON_OK || out[o] == NULL);
    tenon_tensor_release(out[o]);
  }
  return status;
}

TEST("random operators, states, strided inputs, shared memory and messages fail cleanly, too") {
  tenon_tensor_t *x = tensor_of("f32[3] 1 2 3");
  tenon_tensor_t *strided = tensor_strided("f32[2,2] 1 2 3 4");
  tenon_tensor_t *text = tensor_of("string[2] a b");
  tenon_tensor_t *items[2] = {strided, strided};
  tenon_tensor_t *list = NULL;
  CHECK_STATUS(tenon_tensor_list(items, 2, &list), TENON_OK);
  single_t singles[] = {{"contract::dropout", {x}, NULL},
                        {"contract::dropped_twice", {x}, NULL},
                        {"contract::noise", {x}, NULL},
                        {"contract::counter", {x}, NULL},
                        {"contract::padded", {x}, NULL},
                        {"contract::axpy_", {x, x}, NULL},
                        {"contract::dense_copy", {strided}, NULL},
                        {"contract::flat", {strided}, NULL},
                        {"contract::stack", {list}, NULL},
                        {"contract::mark_", {text}, NULL}};
  for (size_t i = 0; i < sizeof singles / sizeof *singles; i++) {
    singles[i].op = op_of(singles[i].name);
    fail_each(singles[i].name, try_single, &singles[i], 1);
  }
  const tenon_op_t *flat = op_of("contract::flat");
  for (int64_t n = 1; n < 60; n++) { /* calls that are refused in any case */
    tenon_tensor_t *out[1] = {NULL};
    fault_memory(n, false);
    tenon_status_t status = tenon_op_call(flat, NULL, &list, out, 0);
    fault_end();
    CHECK(status == TENON_INVALID || status == TENON_MEMORY);
    const tenon_op_t *op = NULL;
    fault_memory(n, false);
    status = tenon_op_find("contract::nothing", &op);
    fault_end();
    CHECK(status == TENON_NOT_FOUND || status == TENON_MEMORY);
  }
  tenon_tensor_release(x);
  tenon_tensor_release(strided);
  tenon_tensor_release(text);
  tenon_tensor_release(list);
}

TEST("nothing is left behind") { tenon_shutdown(); }
