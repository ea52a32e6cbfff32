/* Describes direct calls and releases their tensors; see call.h. */
#include "call.h"

#include <stdio.h>
#include <string.h>

void call_doing(const example_t *example, const char *crash_id, const char *how) {
  char text[1400];
  example_describe(example, NULL, text, sizeof text - 200);
  size_t used = strlen(text);
  snprintf(text + used, sizeof text - used, " %s", how);
  doing(example, crash_id, text);
}

void call_drop(tenon_tensor_t **tensors) {
  for (uint32_t i = 0; i < EXAMPLE_ARGUMENTS; i++) {
    tenon_tensor_release(tensors[i]);
    tensors[i] = NULL;
  }
}
