/* Partitioners of a library: runs the functions of a strategy. */
#ifndef BRIDGES_MXNET_PARTITION_H
#define BRIDGES_MXNET_PARTITION_H

#include "hosted.h"

/* writes the graph as JSON and creates the selector */
tenon_status_t partition_begin(tenon_cut_t *cut);
void partition_end(tenon_cut_t *cut);
tenon_status_t partition_supported(tenon_cut_t *cut, int32_t *ids);
tenon_status_t partition_select(tenon_cut_t *cut, int32_t node, int32_t *out_takes);
tenon_status_t partition_select_input(tenon_cut_t *cut, int32_t node, int32_t input,
                                      int32_t *out_takes);
tenon_status_t partition_select_output(tenon_cut_t *cut, int32_t node, int32_t output,
                                       int32_t *out_takes);
tenon_status_t partition_filter(tenon_cut_t *cut, int32_t *nodes, int32_t *count);
tenon_status_t partition_reset(tenon_cut_t *cut);
tenon_status_t partition_review(tenon_cut_t *cut, tenon_review_t *review);

#endif
