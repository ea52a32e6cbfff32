/* Whole files, read into a text or written from one. Called by the verbs that create or change
 * files. */
#ifndef TOOLS_FILE_H
#define TOOLS_FILE_H

#include "text.h"

/* Appends the file's bytes to out. */
bool file_read(const char *path, text_t *out, text_t *why);
/* Replaces the file. Its previous contents are lost even after a failure. */
bool file_write(const char *path, const text_t *bytes, text_t *why);

#endif
