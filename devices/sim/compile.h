/* Compiles sources in C with the C compiler of the system. */
#ifndef TENON_SIM_COMPILE_H
#define TENON_SIM_COMPILE_H

#include "sim.h"

/* Functions of the device table */

tenon_status_t sim_compile(tenon_on_t on, const tenon_source_t *source, tenon_sink_t *out_code);

#endif
