/* Isolated libraries as the loader sees them. In this process, a library that runs in a worker
 * process is a descriptor whose functions forward their calls. */
#ifndef TN_ISOLATION_ISOLATION_H
#define TN_ISOLATION_ISOLATION_H

#include <tenon/tenon.h>

#include "base/text.h"
#include "operator/library.h"

/* Opens a file that the loader has inspected. A restart opens the file again only while its
 * identity is unchanged. The descriptor lives until tn_isolation_close(context). `isolation` NULL
 * means the defaults. */
tenon_status_t tn_isolation_open(const char *path, const tn_file_identity_t *identity,
                                 uint32_t flags, const tenon_isolation_t *isolation,
                                 const tenon_descriptor_t **out_descriptor, void **out_context);
void tn_isolation_close(void *context);
/* Was the library opened with these settings? NULL agrees with any settings. */
bool tn_isolation_same(const void *context, const tenon_isolation_t *isolation);
/* Creates a dense tensor in the memory that is shared with the library. */
tenon_status_t tn_isolation_tensor(void *context, tenon_dtype_t dtype, int32_t ndim,
                                   const int64_t *shape, tenon_tensor_t **out_tensor);
/* Adds a line that says whether libraries can be isolated on this system. */
void tn_isolation_report(tn_text_t *text);
/* For the child after fork(). */
void tn_isolation_in_child(void);

/* tenon_library_load, of the folder above; src/start.c sets it when libtenon is loaded. */
extern tenon_status_t (*tn_isolation_load)(const char *path, uint32_t flags,
                                           tenon_library_t **out_library);

#endif
