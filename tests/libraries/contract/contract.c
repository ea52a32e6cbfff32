/* The library `contract`: one operator for each part of tenon/op.h. It is built twice from the same
 * files, as a library that is loaded and, with TENON_STATIC, linked into tests. This file has the
 * list of operators and what belongs to the library as a whole. */
#include "contract.h"

static int64_t census[CENSUS_COUNT];
static int opened;

void contract_count(int what) { __atomic_fetch_add(&census[what], 1, __ATOMIC_RELAXED); }

static tenon_status_t open_library(tenon_node_t *node) {
  if (node->op || node->attrs)
    return tenon_fail(node, TENON_INTERNAL, "open is not about an operator");
  contract_count(CENSUS_OPENED);
  node->state = &opened;
  opened = 1;
  return TENON_OK;
}

static void close_library(void *state) { *(int *)state = 0; }

static tenon_status_t census_run(tenon_call_t *call) {
  int64_t *out = (int64_t *)call->outputs[0]->data;
  for (int i = 0; i < CENSUS_COUNT; i++)
    out[i] = __atomic_load_n(&census[i], __ATOMIC_RELAXED);
  return opened ? TENON_OK : tenon_fail(call, TENON_PRECONDITION, "the library was not opened");
}

/* clang-format off */
TENON_LIBRARY(contract, "1.2.3",
  TENON_ABOUT("author: the tests\nlicence: as Tenon"),
  TENON_OPEN(open_library, close_library),
  TENON_OP("census() -> Tensor",
    TENON_DOC("How often functions of this library were called"),
    TENON_TYPES("out = i64"),
    TENON_SHAPES("out: [5]"),
    TENON_KERNEL("cpu", census_run)),
  TENON_GROUP(contract_shapes),
  TENON_GROUP(contract_views),
  TENON_GROUP(contract_loops),
  TENON_GROUP(contract_rows),
  TENON_GROUP(contract_composites),
  TENON_GROUP(contract_random),
  TENON_GROUP(contract_states),
  TENON_GROUP(contract_kernels),
  TENON_GROUP(contract_layouts),
  TENON_GROUP(contract_sparse),
  TENON_GROUP(contract_texts))
