/* Where Tenon's own files are: the command, the headers, CMake's package.  Called by new, and by
 * `tenon --include`. */
#ifndef TOOLS_INSTALLATION_H
#define TOOLS_INSTALLATION_H

#include "text.h"

/* The folder that has tenon/op.h; false: it was not found. */
bool installation_include(text_t *out_folder, text_t *why);
/* The folder for CMake's find_package(tenon): -Dtenon_DIR=... */
bool installation_cmake(text_t *out_folder, text_t *why);

#endif
