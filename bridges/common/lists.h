/* Operators whose inputs or results are lists as values (dtype list), which values of other
 * frameworks are not. They have an input of the type `?`, which admits lists. */
#ifndef BRIDGES_COMMON_LISTS_H
#define BRIDGES_COMMON_LISTS_H

#include <stdbool.h>
#include <string.h>
#include <tenon/tenon.h>

#define LISTS_REASON "its values are lists of tensors"

/* Whether an input is one value that may be a list, or the result is one that holds the inputs. */
static inline bool lists_are_values(const tenon_op_info_t *info) {
  const char *types = info->types ? info->types : "";
  const char *open = strstr(types, "= ?");
  const char *end = strchr(types, ';');
  const char *first = strchr(info->schema, '(');
  if (!open || !end || open > end || !first) return false;
  return strncmp(first, "(Tensor[]", 9) != 0 || strcmp(end, "; out = ?") == 0;
}

#endif
