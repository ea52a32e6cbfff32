/* States of operators that are called without a binding, and references to what attribute values
 * contain. */
#ifndef TN_OPERATOR_STATE_H
#define TN_OPERATOR_STATE_H

#include "operator/op.h"

/* Returns the state for these attribute values, which is created on first use and kept with the
 * operator. */
tenon_status_t tn_state_get(const tenon_op_t *op, const tenon_value_t *attrs, void **out_state);
/* Calls the operator's create function; the values must live as long as the state. */
tenon_status_t tn_state_create(const tenon_op_t *op, const tenon_value_t *attrs, void **out_state);
void tn_states_release(tenon_op_t *op);
tn_mutex_t *tn_states_mutex(void); /* start.c holds it over a fork */
/* Retains or releases the tensors and graphs that values refer to. */
void tn_values_retain(const tenon_value_t *values, uint32_t count);
void tn_values_release(const tenon_value_t *values, uint32_t count);
/* Graphs belong to a folder above: src/graph sets these functions when the process starts. */
typedef struct tn_graph_references_t {
  void (*retain)(const tenon_graph_t *graph);
  void (*release)(const tenon_graph_t *graph);
} tn_graph_references_t;
extern tn_graph_references_t tn_graph_references;

#endif
