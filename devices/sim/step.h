/* One operator of a compiled group. The functions are called without the lock. */
#ifndef TENON_SIM_STEP_H
#define TENON_SIM_STEP_H

#include "sim.h"

enum {
  SIM_RANK = 8,
  SIM_STEP_INPUTS = 3,
};
enum {
  SIM_ADD,
  SIM_MUL,
  SIM_RELU,
  SIM_GELU,
  SIM_MATMUL,
  SIM_LAYER_NORM,
  SIM_STEP_KINDS,
};
enum {
  SIM_NOWHERE,
  SIM_IN,
  SIM_OUT,
  SIM_WEIGHT,
  SIM_SCRATCH,
}; /* where a value is stored */

typedef struct sim_value_t { /* f32, row-major */
  uint32_t where;
  int32_t ndim;
  uint64_t at;
  /* `at`: the index of the input or output for IN and OUT, otherwise a byte offset; `count`:
   * elements */
  uint64_t count;
  int64_t shape[SIM_RANK];
} sim_value_t;

typedef struct sim_step_t {
  uint32_t kind;
  uint32_t reserved;
  int32_t inputs[SIM_STEP_INPUTS];
  int32_t output;     /* indices of values; -1: absent */
  int64_t numbers[3]; /* attributes: approximation of gelu, axis, transposes and activation */
  double reals[2];    /* epsilon, alpha and beta */
} sim_step_t;

/* Makes the step of a node. Returns NULL, or the reason why sim does not support the node. */
const char *sim_step_of(const tenon_graph_node_t *node, const tenon_graph_view_t *view,
                        sim_step_t *out_step);
/* Describes the value of an edge without its storage. Returns NULL, or the reason why sim does not
 * support it. */
const char *sim_value_of(const tenon_meta_t *edge, sim_value_t *out_value);
/* Checks a step against these values. Returns NULL if the step is sound, or the reason if it is
 * not. */
const char *sim_step_check(const sim_step_t *step, const sim_value_t *values, uint32_t value_count);
void sim_step_run(const sim_step_t *step, const sim_value_t *values, float *const *at);

#endif
