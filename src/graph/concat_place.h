/* Places the operands of a concat in its result: a node writes its value where the concat would
 * copy it to. */
#ifndef TN_GRAPH_CONCAT_PLACE_H
#define TN_GRAPH_CONCAT_PLACE_H

#include "graph/executable.h"

/* Makes values of the stage parts of the results of concats. Their calls are known, and regions
 * have not been made. */
tenon_status_t tn_stage_place_parts(tn_run_t *run, tn_stage_t *stage);
/* Extends the lives of the results to those of their parts, and lists results before their parts.
 * Called when regions have been made. */
tenon_status_t tn_stage_settle_parts(tn_run_t *run, tn_stage_t *stage);

#endif
