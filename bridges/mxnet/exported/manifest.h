/* The manifest that `tenon export` writes into this copy of the library: lines of the form
 * "key=value". The space for it is part of the file, so nothing is appended that another tool could
 * cut off. */
#ifndef BRIDGES_MXNET_EXPORTED_MANIFEST_H
#define BRIDGES_MXNET_EXPORTED_MANIFEST_H

#include <stdint.h>

typedef struct manifest_t {
  const char *tenon;
  const char *library;    /* files; NULL: none is stated */
  const char *prefix;     /* of names in MXNet; NULL: the namespace and _ */
  const char *const *ops; /* "demo::gelu"; none: all of the library */
  uint32_t op_count;
} manifest_t;

/* Stays as long as the process; NULL: no memory. */
const manifest_t *manifest_read(void);

#endif
