/* Programs, their kernels, and launches of these kernels. */
#ifndef TENON_SIM_PROGRAM_H
#define TENON_SIM_PROGRAM_H

#include "handle.h"

enum {
  SIM_GROUP_MOST = 1024,    /* items of a group */
  SIM_LOCAL_MOST = 1 << 16, /* bytes of local memory of a group */
};

void sim_program_free(sim_object_t *program); /* frees a program whose handle is invalid */

/* Functions of the device table */

tenon_status_t sim_program_load(tenon_on_t on, const void *code, uint64_t bytes,
                                void **out_program);
void sim_program_unload(tenon_on_t on, void *program);
tenon_status_t sim_kernel_find(tenon_on_t on, void *program, const char *name, void **out_kernel);
tenon_status_t sim_launch(tenon_on_t on, void *stream, const tenon_launch_t *launch);

#endif
