/* table: x looked up in a table that create makes. Defect: destroy does not free the table.
 * Found as: state.balance */
#include <stdlib.h>

#include "defect.h"

typedef struct table_t {
  float *values;
} table_t;

static void table_destroy(void *state) {
  table_t *table = (table_t *)state;
  if (table && PLANTED(0, 1)) free(table->values);
  free(table);
}

static tenon_status_t table_create(tenon_node_t *node) {
  table_t *table = (table_t *)calloc(1, sizeof *table);
  if (table) table->values = (float *)malloc(256 * sizeof *table->values);
  if (!table || !table->values) {
    free(table);
    return tenon_fail(node, TENON_MEMORY, "no memory for the table");
  }
  for (int i = 0; i < 256; i++)
    table->values[i] = (float)(i * node->attrs[0].as.f);
  node->state = table;
  return TENON_OK;
}

static tenon_status_t table_run(tenon_call_t *call) {
  const table_t *table = (const table_t *)call->state;
  for (int64_t i = 0, n = count_in(call, 0); i < n; i++)
    f32_out(call, 0)[i] = table->values[((const uint8_t *)call->inputs[0]->data)[i]];
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("table(Tensor x, *, float step=0.5) -> Tensor",
    TENON_TYPES("x: u8; out = f32"), TENON_SHAPES("out = x"), PURE,
    TENON_STATE(table_create, table_destroy), TENON_KERNEL("cpu", table_run)))
