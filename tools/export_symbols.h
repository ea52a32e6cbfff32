/* The symbols of a library that `tenon export` makes for tvm-ffi. */
#ifndef TOOLS_EXPORT_SYMBOLS_H
#define TOOLS_EXPORT_SYMBOLS_H

#include <stdbool.h>

#include "text.h"

enum {
  EXPORT_SYMBOLS_MOST = 256, /* operators of a library */
  EXPORT_NAME_MOST = 80,     /* bytes of the name of a function */
};

/* Gives the symbols of the n-th slot the n-th name, and removes the symbols of the other slots.
 *
 * Arguments: `bytes`: a copy of exports/tvm_ffi.so; `names`: at most EXPORT_SYMBOLS_MOST.
 * Returns: false if the file is not such a copy, or a name is too long. */
bool export_symbols_set(text_t *bytes, const texts_t *names);

#endif
