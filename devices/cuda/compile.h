/* Compiles sources with NVRTC: to machine code of the GPU's architecture, or, if NVRTC is older
 * than the GPU, to PTX of the newest architecture that NVRTC knows, which the driver then
 * translates. Compiling needs no GPU. */
#ifndef TENON_CUDA_COMPILE_H
#define TENON_CUDA_COMPILE_H

#include "api.h"

/* Compiles `source` and writes a header (program.h) and the code to `out_code`. */
tenon_status_t cu_program_compile(tenon_on_t on, const tenon_source_t *source,
                                  tenon_sink_t *out_code);

#endif
