/* The manifest that `tenon export` writes into this copy of the library: lines of the form
 * "key=value". The space for it is part of the file, so nothing is appended that another tool could
 * cut off. */
#ifndef BRIDGES_COMMON_MANIFEST_H
#define BRIDGES_COMMON_MANIFEST_H

#include <stdint.h>

typedef struct manifest_t {
  const char *tenon;
  const char *library;    /* `tenon` and `library` are files; NULL: not stated */
  const char *prefix;     /* the prefix of names in the framework; NULL: the default */
  const char *const *ops; /* names such as "demo::gelu"; none: all operators of the library */
  uint32_t op_count;
} manifest_t;

/* Returns the manifest, which stays until the process ends; NULL: out of memory. */
const manifest_t *manifest_read(void);

#endif
