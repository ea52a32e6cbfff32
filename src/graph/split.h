/* The two halves of a graph that is differentiated: forward, which computes the outputs and the
 * values that backward needs, and backward, which computes gradients of the inputs. */
#ifndef TN_GRAPH_SPLIT_H
#define TN_GRAPH_SPLIT_H

#include "graph/executable.h"

/* Backward for some of the outputs. */
typedef struct tn_backward_t {
  struct tn_backward_t *next;
  bool *has_grad;   /* for each differentiable output: its gradient has arrived */
  bool from_inputs; /* computes everything from the inputs, so that it can be differentiated */
  bool *is_taken;   /* for each saved value: it is given */
  tenon_executable_t *executable;
} tn_backward_t;

/* Where a value comes from that backward is given. */
typedef struct tn_split_value_t {
  tenon_edge_t edge; /* of the graph with gradients */
  int32_t input;     /* index of the input that it is; -1: none */
  int32_t output;    /* index of the output that it is; -1: none */
} tn_split_value_t;

/* Forward and backward for some of the inputs. */
typedef struct tn_split_t {
  struct tn_split_t *next;
  bool *is_wanted;       /* for each input: it requires a gradient */
  bool *is_dependent;    /* for each output: it depends on a wanted input */
  tenon_graph_t *source; /* what is differentiated, instead of the executable's graph */
  tenon_graph_t *whole;  /* the graph with gradients of all dependent outputs */
  tn_split_value_t *saved;
  size_t saved_count;
  tenon_executable_t *forward;
  tn_backward_t *backwards;
} tn_split_t;

/* Splits the graph of the executable for gradients of the inputs in `is_wanted`. */
tenon_status_t tn_split_make(const tenon_executable_t *executable, const bool *is_wanted,
                             tn_split_t **out_split);
void tn_split_release(tn_split_t *split);
/* Makes backward for the outputs in `has_grad`. The caller adds it to the list of the split. */
tenon_status_t tn_split_make_backward(const tenon_executable_t *executable, const tn_split_t *split,
                                      const bool *has_grad, bool from_inputs,
                                      tn_backward_t **out_backward);

#endif
