/* The list of all loaded libraries. A library stays in the list until the process ends, so readers
 * take no lock. */
#ifndef BRIDGES_MXNET_LOADED_H
#define BRIDGES_MXNET_LOADED_H

#include "hosted.h"

/* Adds a library that is read completely. Only one thread may call this function at a time. */
void loaded_add(hosted_t *library);
/* Returns the MXNet library that was loaded from this path; NULL: there is none. */
hosted_t *loaded_find(const char *path);
/* Finds an operator by name in this library or, if the library has no such operator, in another
 * one. Returns NULL if no library has it. */
const hosted_op_t *loaded_find_op(const hosted_t *library, const char *name);

#endif
