/* Loading of bridges, for bridge.c. */
#ifndef TN_LOADER_LIBRARY_H
#define TN_LOADER_LIBRARY_H

#include <tenon/op.h>

/* Loads a bridge. A bridge may link to libtenon, and its code stays in the process. */
tenon_status_t tn_library_load_bridge(const char *path);

#endif
