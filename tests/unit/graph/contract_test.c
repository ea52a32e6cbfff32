/* Every part of the contract in graphs: each operator of tests/libraries/contract as a node, run
 * with several shapes in turn, by two threads at once, as imported and as rewritten, and on
 * constants. */
#include "base/thread.h"
#include "check.h"
#include "tensors.h"

#include "operators.h"

#include "contract_cases.h"
#include "npu.h"

TENON_C const tenon_descriptor_t *tenon_library_contract(void);
TENON_C const tenon_descriptor_t *tenon_library_partner(void);

enum { PORTS = 16 };
#define ON_NPU 0x80000000u /* stands in place of compile flags */

/* The tensors of a variant, with the items of lists one by one. */
typedef struct flat_t {
  tenon_tensor_t *tensors[PORTS];
  int32_t count;
  /* Their operands point into `edges`. */
  tenon_operand_t operands[CASE_INPUTS];
  tenon_edge_t edges[PORTS];
} flat_t;

static void flatten(const contract_case_t *c, int variant, flat_t *out) {
  *out = (flat_t){.count = 0};
  for (int i = 0; i < CASE_INPUTS; i++) {
    tenon_tensor_t *t = tensor_of(c->variants[variant].inputs[i]);
    out->operands[i] = (tenon_operand_t){0, &out->edges[out->count]};
    if (!t) continue;
    bool list = tensor_has(t, TENON_LIST);
    int32_t count = list ? (int32_t)t->shape[0] : 1;
    for (int32_t k = 0; k < count; k++) {
      tenon_tensor_t *item = list ? tenon_item(t, k) : t;
      tenon_tensor_retain(out->tensors[out->count++] = item);
    }
    out->operands[i].count = count;
    tenon_tensor_release(t);
  }
}

static void release_all(tenon_tensor_t **tensors, int32_t count) {
  for (int32_t i = 0; i < count; i++) {
    tenon_tensor_release(tensors[i]);
    tensors[i] = NULL;
  }
}

/* Returns the number of results that a text describes. */
static int32_t list_count(const char *text) {
  int32_t count = 1;
  for (const char *at = text; *at; at++)
    count += *at == ';';
  return count;
}

/* Builds the graph of a case, with inputs of any extents, or with the variant's tensors as
 * constants. */
static tenon_executable_t *compile_case(const contract_case_t *c, const char *library, flat_t *flat,
                                        bool constant, uint32_t flags) {
  const tenon_op_t *op = case_op(c, library);
  tenon_builder_t *b = graph_begin();
  tenon_edge_t results[PORTS];
  if (!op || !b) return NULL;
  for (int32_t i = 0; i < flat->count; i++) {
    const tenon_tensor_t *t = flat->tensors[i];
    if (constant)
      CHECK_STATUS(tenon_builder_constant(b, NULL, flat->tensors[i], &flat->edges[i]), TENON_OK);
    else
      flat->edges[i] = graph_input(b, NULL, tenon_dtype_id(t->dtype), t->ndim);
  }
  const char *first = c->variants[0].outputs[0];
  const char *second = c->variants[0].outputs[1];
  int32_t count = list_count(first) + (second != NULL);
  tenon_attrs_t *attrs = attrs_of(op, c->attrs);
  CHECK_STATUS(
      tenon_builder_node(b, "the_node", op, attr_values(attrs), flat->operands, results, count),
      TENON_OK);
  tenon_attrs_release(attrs);
  for (int32_t i = 0; i < count; i++)
    CHECK_STATUS(tenon_builder_output(b, NULL, results[i]), TENON_OK);
  if (flags != ON_NPU) return graph_compile(b, flags);
  return graph_compile_on(b, npu_device);
}

/* Groups the outputs of a run into the results of the table. */
static void check_outputs(const contract_case_t *c, int variant, const char *how,
                          tenon_tensor_t **outputs, int32_t count) {
  tenon_tensor_t *results[CASE_OUTPUTS] = {NULL};
  bool list = c->variants[0].outputs[0][0] == '{';
  int32_t first = list ? list_count(c->variants[0].outputs[0]) : 1;
  if (list)
    CHECK_STATUS(tenon_tensor_list(outputs, first, &results[0]), TENON_OK);
  else
    results[0] = outputs[0];
  if (count > first) results[1] = outputs[first];
  check_results(c, variant, how, results, CASE_OUTPUTS);
  if (list) tenon_tensor_release(results[0]);
}

static void check_run(const contract_case_t *c, int variant, tenon_executable_t *e,
                      const flat_t *flat, const char *how) {
  tenon_tensor_t *outputs[PORTS] = {NULL};
  tenon_tensor_t *given[PORTS] = {NULL};
  int32_t count = tenon_graph_output_count(tenon_executable_graph(e));
  tenon_status_t status = tenon_executable_run(e, flat->tensors, outputs, NULL);
  CHECK_STATUS(status, TENON_OK);
  if (status != TENON_OK) {
    fprintf(stderr, "  in %s, variant %d, %s\n", c->op, variant, how);
    return;
  }
  check_outputs(c, variant, how, outputs, count);
  for (int32_t i = 0; i < count; i++)
    given[i] = tensor_like(outputs[i]);
  CHECK_STATUS(tenon_executable_run(e, flat->tensors, given, NULL), TENON_OK);
  check_outputs(c, variant, "into given outputs", given, count);
  release_all(outputs, count);
  release_all(given, count);
}

/* two threads */

typedef struct racer_t {
  const contract_case_t *c;
  tenon_executable_t *e;
  flat_t flats[CASE_VARIANTS];
  tenon_tensor_t *expected[CASE_VARIANTS][PORTS];
  int variants;
  int begin;
  int mistakes;
} racer_t;

static void race(void *pointer) {
  racer_t *r = pointer;
  int32_t count = tenon_graph_output_count(tenon_executable_graph(r->e));
  for (int round = 0; round < 20; round++) {
    int v = (r->begin + round) % r->variants;
    tenon_tensor_t *outputs[PORTS] = {NULL};
    if (tenon_executable_run(r->e, r->flats[v].tensors, outputs, NULL) != TENON_OK) r->mistakes++;
    for (int32_t o = 0; o < count; o++)
      r->mistakes += !tensor_equal(outputs[o], r->expected[v][o], 0);
    release_all(outputs, count);
  }
}

static void check_race(const contract_case_t *c, tenon_executable_t *e, int variants) {
  racer_t racers[2];
  tn_spawned_t threads[2];
  int32_t count = tenon_graph_output_count(tenon_executable_graph(e));
  for (int i = 0; i < 2; i++) {
    racers[i] = (racer_t){.c = c, .e = e, .variants = variants, .begin = i};
    for (int v = 0; v < variants; v++) {
      flatten(c, v, &racers[i].flats[v]);
      CHECK_STATUS(tenon_executable_run(e, racers[i].flats[v].tensors, racers[i].expected[v], NULL),
                   TENON_OK);
    }
  }
  for (int i = 0; i < 2; i++)
    CHECK(tn_spawn(&threads[i], race, &racers[i]));
  for (int i = 0; i < 2; i++)
    tn_join(&threads[i]);
  for (int i = 0; i < 2; i++) {
    if (!CHECK(racers[i].mistakes == 0))
      fprintf(stderr, "  in %s: %d mistakes\n", c->op, racers[i].mistakes);
    for (int v = 0; v < variants; v++) {
      release_all(racers[i].flats[v].tensors, racers[i].flats[v].count);
      release_all(racers[i].expected[v], count);
    }
  }
}

/* all */

static void check_case(const contract_case_t *c, const char *library, uint32_t flags) {
  flat_t flats[CASE_VARIANTS];
  int variants = 0;
  while (variants < CASE_VARIANTS && case_has(c, variants)) {
    flatten(c, variants, &flats[variants]);
    variants++;
  }
  tenon_executable_t *e = compile_case(c, library, &flats[0], false, flags);
  for (int round = 0; round < 2 && e; round++)
    for (int v = 0; v < variants; v++)
      check_run(c, v, e, &flats[v], "run");
  if (e) check_race(c, e, variants);
  tenon_executable_release(e);
  for (int v = 0; v < variants; v++) {
    tenon_executable_t *folded = compile_case(c, library, &flats[v], true, flags);
    if (folded) check_run(c, v, folded, &(flat_t){.count = 0}, "on constants");
    tenon_executable_release(folded);
  }
  for (int v = 0; v < variants; v++)
    release_all(flats[v].tensors, flats[v].count);
}

static void check_library(const char *library) {
  for (int i = 0; i < CONTRACT_CASES; i++) {
    check_case(&contract_cases[i], library, 0);
    check_case(&contract_cases[i], library, TENON_COMPILE_PLAIN);
  }
}

TEST("operators of a loaded library give the same results as nodes and in calls") {
  CHECK_STATUS(tenon_library_load(TEST_LIBRARIES "/libcontract.so", 0, NULL), TENON_OK);
  check_library("contract");
}

TEST("operators called from kernels of another loaded library give the same results as nodes") {
  CHECK_STATUS(tenon_library_load(TEST_LIBRARIES "/libpartner.so", 0, NULL), TENON_OK);
  check_library("partner");
  tenon_shutdown();
}

TEST("on a device where everything falls back, operators give the same results as nodes and in "
     "calls") {
  CHECK_STATUS(tenon_library_load(TEST_LIBRARIES "/libcontract.so", 0, NULL), TENON_OK);
  CHECK_STATUS(tenon_library_load(TEST_LIBRARIES "/libpartner.so", 0, NULL), TENON_OK);
  npu_start();
  for (int i = 0; i < CONTRACT_CASES; i++)
    check_case(&contract_cases[i], "contract", ON_NPU);
  for (int i = 0; i < CONTRACT_CASES; i++)
    check_case(&contract_cases[i], "partner", ON_NPU);
  tenon_shutdown();
  CHECK(blocks == 0);
}

TEST("operators of a library that runs in worker processes give the same results as nodes and in "
     "calls") {
  const tenon_isolation_t isolation = {.size = sizeof isolation, .allow = TENON_ALLOW_EXTEND};
  CHECK_STATUS(tenon_library_load_isolated(TEST_LIBRARIES "/libcontract.so", 0, &isolation, NULL),
               TENON_OK);
  check_library("contract");
  tenon_shutdown();
}

TEST("operators of the same sources, linked into the program, give the same results") {
  CHECK_STATUS(tenon_library_add(tenon_library_contract(), NULL, NULL, NULL), TENON_OK);
  CHECK_STATUS(tenon_library_add(tenon_library_partner(), NULL, NULL, NULL), TENON_OK);
  check_library("contract");
  check_library("partner");
  tenon_shutdown();
}
