/* @NAME@.h: what the files of the library share.  Nothing of it is seen outside. */
#ifndef @NAME@_H
#define @NAME@_H

#include <tenon/check.h>

enum { @NAME@_LEVELS = 256 };
extern float *@NAME@_levels; /* set when the library is opened, read by kernels */

extern const tenon_item_t @NAME@_decode[], @NAME@_gain[];

#endif
