/* Code compiled on this machine: the driver's binary behind a header of our own. The header detects
 * damage, and code for another device, because drivers trust the bytes (PoCL 3.1 ends the process
 * on some). */
#ifndef TENON_OPENCL_PROGRAM_H
#define TENON_OPENCL_PROGRAM_H

#include "stream.h"

tenon_status_t ocl_program_compile(tenon_on_t on, const tenon_source_t *source,
                                   tenon_sink_t *out_code);
tenon_status_t ocl_program_load(tenon_on_t on, const void *code, uint64_t bytes,
                                void **out_program);
void ocl_program_unload(tenon_on_t on, void *program);
tenon_status_t ocl_kernel_find(tenon_on_t on, void *program, const char *name, void **out_kernel);
tenon_status_t ocl_kernel_launch(tenon_on_t on, void *stream, const tenon_launch_t *launch);

#endif
