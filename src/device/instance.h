/* Kernels of source texts for the CPU, with constants that their library was not compiled for. */
#ifndef TN_DEVICE_INSTANCE_H
#define TN_DEVICE_INSTANCE_H

#include <tenon/source.h>

/* Returns the kernel's function for these constants ("T=double"; NULL: none): from the library,
 * otherwise from the cache, otherwise compiled now by the system's C compiler. It is valid until
 * tn_instances_release. Errors: UNIMPLEMENTED if it cannot be compiled. */
tenon_status_t tn_instance(tenon_code_t *code, uint32_t kernel, const char *constants,
                           tenon_source_fn *out_run);
void tn_instances_release(void); /* no call may be in progress */
void tn_instances_in_child(void);

#endif
