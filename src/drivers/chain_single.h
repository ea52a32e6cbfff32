/* Links of one element, for those behind the last vector. */
#ifndef TN_DRIVERS_CHAIN_SINGLE_H
#define TN_DRIVERS_CHAIN_SINGLE_H

#include "drivers/chain.h"

/* Runs the links on elements [at, length), one after the other. */
void tn_chain_run_single(const tn_link_t *links, int32_t count, int64_t at, int64_t length);

#endif
