/* Where the system's loader would find a library that a file needs. Used by the report, and to
 * explain why a file could not be opened. The answer is TN_MISSING only if that is certain. */
#ifndef TN_LOADER_NEEDED_H
#define TN_LOADER_NEEDED_H

#include "loader/binary.h"

typedef enum tn_found_t {
  TN_FOUND,
  TN_MISSING,
  TN_UNSURE,
} tn_found_t;

/* `path` is the file that needs the library; out_path receives the location. */
tn_found_t tn_needed_find(const tn_binary_t *binary, const char *path, const char *name,
                          char *out_path, size_t capacity);
/* Appends a line for each needed library that is certainly missing. */
void tn_needed_missing(const tn_binary_t *binary, const char *path, tn_text_t *offences);

#endif
