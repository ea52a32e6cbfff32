/* Bridges: libraries that read files of other systems (tenon/bridge.h).  Called by loading, by
 * inspect.c and by the readers of models, for files that are none of Tenon's.  Bridges are opened
 * when first such a file comes, from the folders of TENON_BRIDGE_PATH and those beside libtenon,
 * and stay until shutdown. */
#ifndef TN_LOADER_BRIDGE_H
#define TN_LOADER_BRIDGE_H

#include <tenon/bridge.h>

#include "loader/binary.h"

/* The bridge that knows a shared object by what it exports; NULL: none. */
const tenon_bridge_table_t *tn_bridge_of_library(const tn_file_t *file);
/* The bridge that knows a model by the end of its name; NULL: none. */
const tenon_bridge_table_t *tn_bridge_of_model(const char *path);
/* Why bridges do not open, a line each; "": all do. */
const char *tn_bridges_refused(void);
void tn_bridges_report(tn_text_t *text); /* their names, and what does not open */
void tn_bridges_forget(void);            /* at shutdown: they are gone */

#endif
