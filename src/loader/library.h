/* Loading of bridges, for bridge.c, and of libraries inside of artifacts. */
#ifndef TN_LOADER_LIBRARY_H
#define TN_LOADER_LIBRARY_H

#include <tenon/op.h>

/* Loads a bridge. A bridge may link to libtenon, and its code stays in the process. */
tenon_status_t tn_library_load_bridge(const char *path);
/* Loads a library that is a part of the file at `path`, which has no links, for the rest of the
 * process. `name` is that of its own file. The rules for folders and owners hold for the file at
 * `path`, those for hashes and initialisers for the bytes, which are copied into memory that nobody
 * can write to before they are checked. */
tenon_status_t tn_library_load_inside(const char *path, const char *name, const void *data,
                                      size_t size);

#endif
