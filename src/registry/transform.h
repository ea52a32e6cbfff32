/* Passes and partitioners of libraries. They are checked when a library is defined, and found by
 * "library::name". */
#ifndef TN_REGISTRY_TRANSFORM_H
#define TN_REGISTRY_TRANSFORM_H

#include <tenon/tenon.h>

#include "operator/library.h"

/* Either a pass or a partitioner; the other one is NULL. */
typedef struct tn_transform_t {
  const tenon_pass_t *pass;
  const tenon_partitioner_t *partitioner;
  const char *full;              /* "library::name" */
  const char *const *strategies; /* "name: operator" */
  int32_t strategy_count;
} tn_transform_t;

/* Adds a pass or a partitioner (the other one is NULL) to a library that is being defined. Returns
 * false if it is not valid; `why` gets the reason. */
bool tn_transform_add(tn_library_t *library, const tenon_pass_t *pass,
                      const tenon_partitioner_t *partitioner, char *why, size_t capacity);
/* Finds a pass or a partitioner. Its library counts as used (tn_registry_use) until the caller ends
 * the use. */
tenon_status_t tn_transform_find(const char *name, const tn_transform_t **out,
                                 const tn_library_t **out_library);

#endif
