/* Source locations of functions in this process: file and line, read from the debug information of
 * the binaries. */
#ifndef TN_BASE_SOURCE_H
#define TN_BASE_SOURCE_H

#include <tenon/op.h>

#include "base/text.h"

typedef struct tn_sources_t tn_sources_t;

/* Opens the debug information of the binaries that are mapped now; free the result with
 * tn_sources_close. Returns NULL when memory runs out. Without libdw the result is valid but finds
 * nothing. */
tn_sources_t *tn_sources_open(void);
void tn_sources_close(tn_sources_t *sources);
/* Appends the location of a function, such as "/path/of/file.c:12". Returns false if it is unknown.
 * `sources` may be NULL. */
bool tn_source_add(tn_sources_t *sources, tenon_any_fn function, tn_text_t *text);

/* Appends what is known about an address in code: "function at /path/of/file.c:12 in
 * /path/of/library.so". If nothing is known, appends the address and returns false. */
bool tn_source_at(tn_sources_t *sources, uintptr_t address, tn_text_t *text);

#endif
