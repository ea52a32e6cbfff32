/* The files that a source consists of: itself and the headers that it includes by #include "...",
 * directly or not. Called by watch. */
#ifndef TOOLS_INCLUDES_H
#define TOOLS_INCLUDES_H

#include "text.h"

/* Adds the path and all headers that are found in the file's own folder or in `folders`, each once.
 * Preprocessor conditions are ignored. A file that does not exist is added without headers. */
bool includes_of(const char *path, const texts_t *folders, texts_t *out_files);

#endif
