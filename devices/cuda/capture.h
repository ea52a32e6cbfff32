/* Captured graphs: a stream is captured into a CUDA graph, which each replay launches. */
#ifndef TENON_CUDA_CAPTURE_H
#define TENON_CUDA_CAPTURE_H

#include "stream.h"

tenon_status_t cu_record_begin(tenon_on_t on, void *stream);
tenon_status_t cu_record_end(tenon_on_t on, void *stream, void **out_recording);
tenon_status_t cu_replay(tenon_on_t on, void *stream, void *recording, uint64_t ticket);
void cu_recording_free(tenon_on_t on, void *recording);

#endif
