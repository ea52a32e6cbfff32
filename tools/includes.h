/* Which files a source is made of: itself, and what it and they include by #include "...".  Called
 * by watch. */
#ifndef TOOLS_INCLUDES_H
#define TOOLS_INCLUDES_H

#include "text.h"

/* Adds the path and those of all headers that are found, in the file's folder or in `folders`, each
 * once.  Conditions are not looked at; a file that is not there is added without headers. */
bool includes_of(const char *path, const texts_t *folders, texts_t *out_files);

#endif
