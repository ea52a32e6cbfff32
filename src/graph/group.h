/* Groups of nodes that a device claimed and compiled, as parts of an executable: run as one piece
 * of work. */
#ifndef TN_GRAPH_GROUP_H
#define TN_GRAPH_GROUP_H

#include "device/group.h"
#include "graph/executable.h"
#include "graph/view.h"

typedef struct tn_claim_t { /* a group of an executable; its nodes stand one after the other */
  tn_group_t *group;
  tn_view_t view;
  tn_arena_t arena; /* of the view */
} tn_claim_t;

void tn_claims_release(tenon_executable_t *executable);
/* Inputs as the view lists them, on the group's device, of any layout; outputs are made there.
 * `first` is the first of its nodes. */
tenon_status_t tn_claim_run(const tenon_executable_t *executable, const tn_claim_t *claim,
                            int32_t first, tenon_tensor_t *const *inputs, tenon_tensor_t **outputs);

#endif
