/* Passes and partitioners of libraries, checked when a library is defined and found by
 * "library::name". */
#ifndef TN_REGISTRY_TRANSFORM_H
#define TN_REGISTRY_TRANSFORM_H

#include <tenon/tenon.h>

#include "operator/library.h"

typedef struct tn_transform_t { /* one of the two */
  const tenon_pass_t *pass;
  const tenon_partitioner_t *partitioner;
  const char *full;              /* "library::name" */
  const char *const *strategies; /* "name: operator" */
  int32_t strategy_count;
} tn_transform_t;

/* Adds one to a library that is being defined.  False: `why` says what is wrong with it. */
bool tn_transform_add(tn_library_t *library, const tenon_pass_t *pass,
                      const tenon_partitioner_t *partitioner, char *why, size_t capacity);
/* Finds it; its library is in use (tn_registry_use) until the caller ends that. */
tenon_status_t tn_transform_find(const char *name, const tn_transform_t **out,
                                 const tn_library_t **out_library);

#endif
