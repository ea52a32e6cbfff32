/* Passes and partitioners of the loaded libraries: lists, describes and applies them. Called by the
 * verbs ops, show and run. */
#ifndef TOOLS_PASSES_H
#define TOOLS_PASSES_H

#include <tenon/tenon.h>

#include "text.h"

/* Prints an empty line and one line for each; nothing if there are none. */
void passes_print(void);
/* Prints the rules by which the compiler rewrites graphs, one line each. */
void rewrites_print(void);
/* Returns false if none has this name. */
bool passes_show(const char *name);
/* Applies each "library::name,key=value,..." in order and replaces *graph. Returns false on
 * failure, with the reason in `why`. */
bool passes_apply(const texts_t *wanted, tenon_graph_t **graph, text_t *why);

#endif
