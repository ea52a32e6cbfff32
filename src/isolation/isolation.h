/* Isolated libraries: what the loader sees of them.  A library that runs in a process of its own
 * is, in this one, a descriptor whose functions forward. */
#ifndef TN_ISOLATION_ISOLATION_H
#define TN_ISOLATION_ISOLATION_H

#include <tenon/tenon.h>

#include "base/text.h"
#include "operator/library.h"

/* Opens a file that has been looked at, and is opened again only while it is that; the descriptor
 * stays until tn_isolation_close(context).  isolation NULL: defaults. */
tenon_status_t tn_isolation_open(const char *path, const tn_file_identity_t *identity,
                                 uint32_t flags, const tenon_isolation_t *isolation,
                                 const tenon_descriptor_t **out_descriptor, void **out_context);
void tn_isolation_close(void *context);
/* Is it what the library was opened with?  NULL is what any was. */
bool tn_isolation_same(const void *context, const tenon_isolation_t *isolation);
/* A dense tensor in the memory that is shared with it. */
tenon_status_t tn_isolation_tensor(void *context, tenon_dtype_t dtype, int32_t ndim,
                                   const int64_t *shape, tenon_tensor_t **out_tensor);
void tn_isolation_report(tn_text_t *text); /* a line: can libraries be isolated here? */
void tn_isolation_in_child(void);          /* of fork */

/* tenon_library_load, of the folder above; src/start.c sets it when libtenon is loaded. */
extern tenon_status_t (*tn_isolation_load)(const char *path, uint32_t flags,
                                           tenon_library_t **out_library);

#endif
