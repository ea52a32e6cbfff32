/* Loading, as bridge.c calls it. */
#ifndef TN_LOADER_LIBRARY_H
#define TN_LOADER_LIBRARY_H

#include <tenon/op.h>

/* Loads a bridge, which may link libtenon; its code stays in the process. */
tenon_status_t tn_library_load_bridge(const char *path);

#endif
