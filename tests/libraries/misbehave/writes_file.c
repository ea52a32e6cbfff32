/* Makes a file. */
#include <stdio.h>

#include "misbehave.h"

static tenon_status_t act(tenon_call_t *call) {
  FILE *file = fopen("/tmp/tenon-misbehaves", "w");
  if (file) {
    fputs("here\n", file);
    fclose(file);
  }
  return file ? TENON_OK : tenon_fail(call, TENON_DENIED, "the file could not be made");
}

MISBEHAVE(writes_file, act)
