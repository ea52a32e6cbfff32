/* Fault: its entry is a variable. */
#include "planted.h"

TENON_EXPORT extern const int tenon_library;
const int tenon_library = 1;
