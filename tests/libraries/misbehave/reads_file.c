/* Reads a file. */
#include <stdio.h>

#include "misbehave.h"

static tenon_status_t act(tenon_call_t *call) {
  FILE *file = fopen("/etc/passwd", "r");
  ((float *)call->outputs[0]->data)[0] = file ? (float)fgetc(file) : -1;
  return file     ? fclose(file),
         TENON_OK : tenon_fail(call, TENON_DENIED, "the file could not be read");
}

MISBEHAVE(reads_file, act)
