/* Locations of Tenon's own files: the headers and the CMake package. Called by new, and by `tenon
 * --include` and `tenon --cmake`. */
#ifndef TOOLS_INSTALLATION_H
#define TOOLS_INSTALLATION_H

#include "text.h"

/* Finds the folder that contains tenon/op.h; false if there is none. */
bool installation_include(text_t *out_folder, text_t *why);
/* The folder for CMake's find_package(tenon), to be passed as -Dtenon_DIR=... */
bool installation_cmake(text_t *out_folder, text_t *why);

#endif
