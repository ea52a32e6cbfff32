/* Finds the real path of the file that a caller names. Used by loading and inspect.c. */
#ifndef TN_LOADER_LOCATE_H
#define TN_LOADER_LOCATE_H

#include <stddef.h>
#include <tenon/op.h>

enum { TN_PATH_SIZE = 4096 };

/* Finds the real path (links resolved) of a path or a name. The error NOT_FOUND says which folders
 * were searched. Messages start with the reason; the caller adds the name. */
tenon_status_t tn_locate(const char *given, char *out_path, size_t capacity);
/* Returns: this thread's error message without `path` at its start. */
const char *tn_reason(const char *path);

#endif
