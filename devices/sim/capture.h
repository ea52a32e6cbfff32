/* Recordings and their replays. */
#ifndef TENON_SIM_CAPTURE_H
#define TENON_SIM_CAPTURE_H

#include "sim.h"

/* Functions of the device table */

tenon_status_t sim_record_begin(tenon_on_t on, void *stream);
tenon_status_t sim_record_end(tenon_on_t on, void *stream, void **out_recording);
tenon_status_t sim_replay(tenon_on_t on, void *stream, void *recording, uint64_t ticket);
void sim_recording_end(tenon_on_t on, void *recording);

#endif
