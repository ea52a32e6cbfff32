/* Passes and partitioners of the libraries that are loaded: listed, shown, applied. */
#ifndef TOOLS_PASSES_H
#define TOOLS_PASSES_H

#include <tenon/tenon.h>

#include "text.h"

/* A line for each, after an empty one; nothing where there are none. */
void passes_print(void);
/* False: there is none of that name. */
bool passes_show(const char *name);
/* Applies each of "library::name,key=value,..." in order; *graph is replaced.  False: `why`
 * says. */
bool passes_apply(const texts_t *wanted, tenon_graph_t **graph, text_t *why);

#endif
