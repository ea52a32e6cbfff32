/* Bridges: libraries that read files of other systems (tenon/bridge.h). Loading, inspect.c and the
 * readers of models ask for a bridge when a file is not in a format of Tenon. The first such file
 * opens all bridges in the folders of TENON_BRIDGE_PATH and beside libtenon. They stay open until
 * shutdown. */
#ifndef TN_LOADER_BRIDGE_H
#define TN_LOADER_BRIDGE_H

#include <tenon/bridge.h>

#include "loader/binary.h"

/* Returns: the bridge that recognises a shared object by its exported symbols, or NULL. */
const tenon_bridge_table_t *tn_bridge_of_library(const tn_file_t *file);
/* Returns: the bridge that recognises a model by the suffix of its name, or NULL. */
const tenon_bridge_table_t *tn_bridge_of_model(const char *path);
/* Returns: the bridge that writes models whose names end like `path`, or NULL. */
const tenon_bridge_table_t *tn_bridge_that_writes(const char *path);
/* Adds ", .suffix" for each ending of the models that bridges write. */
void tn_bridges_written(tn_text_t *text);
/* Returns: why bridges could not be opened, one line each; "" if all could. */
const char *tn_bridges_refused(void);
/* Adds the names of the bridges and the reasons why others could not be opened. */
void tn_bridges_report(tn_text_t *text);
/* At shutdown: the bridges are gone, and the next file searches for them again. */
void tn_bridges_forget(void);

#endif
