/* Kernels of source texts for the CPU, for constants that their library was not compiled with. */
#ifndef TN_DEVICE_INSTANCE_H
#define TN_DEVICE_INSTANCE_H

#include <tenon/source.h>

/* The kernel's function for these constants ("T=double"; NULL: none): of the library, else compiled
 * now by the system's C compiler, or taken from the cache.  It stays until tn_instances_release.
 * Errors: UNIMPLEMENTED where nothing compiles it. */
tenon_status_t tn_instance(tenon_code_t *code, uint32_t kernel, const char *constants,
                           tenon_source_fn *out_run);
void tn_instances_release(void); /* no call may be under way */
void tn_instances_in_child(void);

#endif
