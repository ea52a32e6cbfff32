/* The table of writers: one row for each core operator that StableHLO can express. */
#ifndef BRIDGES_STABLEHLO_WRITE_TABLE_H
#define BRIDGES_STABLEHLO_WRITE_TABLE_H

#include "write/write.h"

/* Writes the current node, or records why it cannot be written. */
void hlo_write_node(hlo_write_t *w);

#endif
