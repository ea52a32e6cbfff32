/* The operators that can be in a group: rows of the table whose formulas have pointwise operators
 * of Tenon only, and no attributes. */
#include <pthread.h>
#include <stdlib.h>

#include "graph.h"

enum { ROWS_MOST = 256 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static plan_t *plans[ROWS_MOST]; /* never freed */
static int32_t plan_count;

/* The functions of formulas are not there, so a row that has one is no plan here. */
function_t function_find(const char *name) {
  (void)name;
  return NULL;
}

static bool is_pointwise_call(const node_t *node) {
  tenon_op_info_t info = {.size = sizeof info};
  tenon_op_info(node->op, &info);
  if (!(info.traits & TENON_POINTWISE) || node->index != 0 || info.output_count != 1) return false;
  bool is_plain = true;
  for (int32_t i = 0; i < node->operand_count; i++)
    if (node->operands[i] >= 0 && node->parameters[i].role != TENON_ARGUMENT_INPUT)
      is_plain = false;
  return is_plain;
}

static bool is_pointwise_plan(const plan_t *plan) {
  if (plan->result_count != 1) return false;
  for (int32_t i = 0; i < plan->input_count; i++)
    if (plan->inputs[i].is_host || plan->inputs[i].is_list || plan->inputs[i].is_variable)
      return false;
  for (int32_t i = 0; i < plan->node_count; i++) {
    const node_t *node = &plan->nodes[i];
    const bool is_value =
        node->kind == NODE_INPUT || node->kind == NODE_NUMBER || node->kind == NODE_REAL;
    if (!is_value && !(node->kind == NODE_CALL && is_pointwise_call(node))) return false;
  }
  return plan->input_count <= NODE_INPUTS_MOST;
}

static void parse_pointwise_rows(void) {
  int32_t count = 0;
  const row_t *rows = plan_rows(&count);
  for (int32_t i = 0; i < count && i < ROWS_MOST; i++) {
    plan_t *plan = NULL;
    if (plan_parse(&rows[i], &plan) == TENON_OK && is_pointwise_plan(plan))
      plans[plan_count++] = plan;
    else
      free(plan);
  }
}

const plan_t *rows_find(bytes_t op) {
  (void)pthread_once(&once, parse_pointwise_rows);
  for (int32_t i = 0; i < plan_count; i++)
    if (bytes_equal(op, plans[i]->row->op)) return plans[i];
  return NULL;
}
