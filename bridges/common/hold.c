/* Keeps libraries loaded; see hold.h. */
#include "common/hold.h"

#include <stdio.h>
#include <string.h>

static const tenon_op_t *find_operator(const char *library) {
  const tenon_op_t *const *ops = NULL;
  const tenon_op_t *found = NULL;
  const size_t size = strlen(library);
  int32_t count = 0;
  if (tenon_ops_list(&ops, &count) != TENON_OK) return NULL;
  for (int32_t i = 0; i < count && !found; i++) {
    tenon_op_info_t info = {.size = sizeof info};
    tenon_op_info(ops[i], &info);
    if (strncmp(info.name, library, size) == 0 && strncmp(info.name + size, "::", 2) == 0)
      found = ops[i];
  }
  tenon_ops_release(ops);
  return found;
}

tenon_status_t hold_library(const tenon_op_t *op) {
  tenon_op_info_t info = {.size = sizeof info};
  tenon_op_info(op, &info);
  if (!info.library_path || !*info.library_path) return TENON_OK;
  /* The handle is never released. */
  tenon_library_t *library = NULL;
  return tenon_library_load(info.library_path, 0, &library);
}

tenon_status_t hold_namespace(const char *name) {
  const tenon_op_t *op = find_operator(name);
  char error[400];
  if (op) return hold_library(op);
  snprintf(error, sizeof error,
           "no loaded library has operators in the namespace '%s': load it first", name);
  return tenon_error_set(TENON_NOT_FOUND, error);
}
