/* Where functions of this process were written: file and line, from the debug information of the
 * binary that they are in. */
#ifndef TN_BASE_SOURCE_H
#define TN_BASE_SOURCE_H

#include <tenon/op.h>

#include "base/text.h"

typedef struct tn_sources_t tn_sources_t;

/* Looks at the binaries that are mapped now.  NULL: no memory; without libdw it knows nothing.
 * Freed by tn_sources_close. */
tn_sources_t *tn_sources_open(void);
void tn_sources_close(tn_sources_t *sources);
/* Adds "/path/of/file.c:12"; false: nothing tells (`sources` may be NULL). */
bool tn_source_add(tn_sources_t *sources, tenon_any_fn function, tn_text_t *text);

/* Adds "function at /path/of/file.c:12 in /path/of/library.so", of any place in code, as far as it
 * is known; false: nothing is, and the address is added. */
bool tn_source_at(tn_sources_t *sources, uintptr_t address, tn_text_t *text);

#endif
