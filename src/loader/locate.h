/* From what a caller names to the one path of a file.  Called by loading and by inspect.c. */
#ifndef TN_LOADER_LOCATE_H
#define TN_LOADER_LOCATE_H

#include <stddef.h>
#include <tenon/op.h>

enum { TN_PATH_SIZE = 4096 };

/* Gives the real path (links resolved) of a path or of a name that is looked for; NOT_FOUND says
 * where it was looked for. Messages begin with what is wrong: the caller puts the name in front. */
tenon_status_t tn_locate(const char *given, char *out_path, size_t capacity);
/* This thread's message without `path` in front. */
const char *tn_reason(const char *path);

#endif
