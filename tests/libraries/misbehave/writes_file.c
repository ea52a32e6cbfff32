/* Creates a file in the folder that the build names; other builds on this machine use other
 * folders. */
#include <stdio.h>

#include "misbehave.h"

static tenon_status_t act(tenon_call_t *call) {
  char path[1000];
  snprintf(path, sizeof path, MISBEHAVE_FOLDER "/written-%d",
           (int)*(const float *)call->inputs[0]->data);
  FILE *file = fopen(path, "w");
  if (file) {
    fputs("here\n", file);
    fclose(file);
  }
  return file ? TENON_OK : tenon_fail(call, TENON_DENIED, "the file could not be made");
}

MISBEHAVE(writes_file, act)
