/* The plan of a stage as text, for people. */
#ifndef TN_GRAPH_PLAN_TEXT_H
#define TN_GRAPH_PLAN_TEXT_H

#include "base/text.h"
#include "graph/executable.h"

/* Appends the size of the stage's arena, its regions, and where each of its values is. */
void tn_plan_print(const tn_run_t *run, size_t stage, tn_text_t *out_text);

#endif
