/* Finds libtenon, and files that lie beside an exported library. Exported libraries compile this
 * file in; they are not linked to libtenon, because one file must work wherever libtenon is. */
#ifndef BRIDGES_COMMON_OPEN_TENON_H
#define BRIDGES_COMMON_OPEN_TENON_H

#include <stdbool.h>
#include <stddef.h>

/* Opens libtenon: the one that is loaded already, else the file at `path`, the one beside this
 * library, or the one that the system finds (LD_LIBRARY_PATH). No symbol of it becomes global.
 *
 * Returns: NULL: `why` says why not, and what to do. */
void *open_tenon(const char *path, char *why, size_t capacity);
/* Finds a function of a library. Returns whether it exists. */
bool open_function(void *library, const char *name, void *out_function);
/* Returns `path` if this file exists, else the file of the same name beside this library, in
 * `room`; NULL if neither file exists. */
const char *open_file_beside(const char *path, char *room, size_t capacity);

#endif
