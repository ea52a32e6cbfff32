/* What keeps a library from being opened though its file is whole: symbols and versions that
 * nothing here has, and the run-time library of a sanitizer.  Nothing is run to find out. */
#ifndef TN_LOADER_MISSING_H
#define TN_LOADER_MISSING_H

#include "loader/binary.h"

/* Appends a line for each: versions that are too new, symbols that neither the process nor what the
 * file needs defines. */
void tn_missing(const tn_binary_t *binary, const tn_file_t *file, const char *path,
                tn_text_t *offences);

/* Of a file that was built with -fsanitize=address, thread, memory or hwaddress: that word, while
 * the run-time library is not in the process, in which case opening the file would end it; else
 * NULL.  out_runtime (its capacity at least TN_PATH_SIZE): the library's file; "": it is
 * nowhere. */
const char *tn_sanitizer_missing(const tn_binary_t *binary, const tn_file_t *file, const char *path,
                                 char *out_runtime, size_t capacity);
/* Appends what to do about it. */
void tn_sanitizer_offence(const char *word, const char *runtime, tn_text_t *offences);

#endif
