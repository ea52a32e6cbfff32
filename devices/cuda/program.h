/* Compiled code for one architecture: a header with a checksum, followed by CUBIN, or by PTX if the
 * compiler does not know the GPU. */
#ifndef TENON_CUDA_PROGRAM_H
#define TENON_CUDA_PROGRAM_H

#include "stream.h"

typedef struct cu_head_t {
  char magic[8];
  uint64_t target;
  uint64_t bytes;
  uint64_t checksum; /* of the code */
} cu_head_t;

/* Makes the header for `bytes` at `code`. */
cu_head_t cu_head_of(tenon_on_t on, const void *code, uint64_t bytes);
tenon_status_t cu_program_load(tenon_on_t on, const void *code, uint64_t bytes, void **out_program);
void cu_program_unload(tenon_on_t on, void *program);
tenon_status_t cu_kernel_find(tenon_on_t on, void *program, const char *name, void **out_kernel);
tenon_status_t cu_kernel_launch(tenon_on_t on, void *stream, const tenon_launch_t *launch);

#endif
