/* Where the system's loader would find a library that another one needs.  Called by the report, and
 * to explain why a file could not be opened.  Says "missing" only where that is sure. */
#ifndef TN_LOADER_NEEDED_H
#define TN_LOADER_NEEDED_H

#include "loader/binary.h"

typedef enum tn_found_t {
  TN_FOUND,
  TN_MISSING,
  TN_UNSURE,
} tn_found_t;

/* `path` is the file that needs it; out_path gets where it is. */
tn_found_t tn_needed_find(const tn_binary_t *binary, const char *path, const char *name,
                          char *out_path, size_t capacity);
/* Appends a line for each needed library that is surely nowhere. */
void tn_needed_missing(const tn_binary_t *binary, const char *path, tn_text_t *offences);

#endif
