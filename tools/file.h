/* Whole files: read to a text, written from one.  Called by verbs that make or change files. */
#ifndef TOOLS_FILE_H
#define TOOLS_FILE_H

#include "text.h"

/* Appends the file's bytes to out. */
bool file_read(const char *path, text_t *out, text_t *why);
/* What was at `path` is gone, also after a failure. */
bool file_write(const char *path, const text_t *bytes, text_t *why);

#endif
