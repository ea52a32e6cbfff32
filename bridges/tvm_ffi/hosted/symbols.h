/* The dynamic symbols of an open library. */
#ifndef BRIDGES_TVM_FFI_HOSTED_SYMBOLS_H
#define BRIDGES_TVM_FFI_HOSTED_SYMBOLS_H

#include <stdbool.h>

/* Calls `each` for every symbol that the library exports or needs, with its name.
 *
 * Returns: false if the system does not show the library's symbols. */
bool symbols_each(void *handle, void (*each)(void *context, const char *name, bool is_defined),
                  void *context);

#endif
