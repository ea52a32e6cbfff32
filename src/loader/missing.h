/* Reasons why a library cannot be opened although its file is intact: undefined symbols, missing
 * symbol versions, and a sanitizer's run-time library that is not loaded. No code runs to find
 * out. */
#ifndef TN_LOADER_MISSING_H
#define TN_LOADER_MISSING_H

#include "loader/binary.h"

/* Appends a line for each missing symbol version, and lines for the symbols that neither the
 * process nor the needed libraries define. */
void tn_missing(const tn_binary_t *binary, const tn_file_t *file, const char *path,
                tn_text_t *offences);

/* Checks a file that was built with -fsanitize=address, thread, memory or hwaddress. If the
 * sanitizer's run-time library is not in the process, opening the file would end the process.
 *
 * Arguments: `out_runtime` (capacity at least TN_PATH_SIZE) receives the path of the run-time
 * library, or "" if it was not found.
 * Returns: the sanitizer's name if its run-time library is missing, otherwise NULL. */
const char *tn_sanitizer_missing(const tn_binary_t *binary, const tn_file_t *file, const char *path,
                                 char *out_runtime, size_t capacity);
/* Appends the remedy. */
void tn_sanitizer_offence(const char *word, const char *runtime, tn_text_t *offences);

#endif
