/* Files that a test writes into a folder of its own, made by mkdtemp. */
#ifndef TENON_TESTS_LOADER_WRITTEN_H
#define TENON_TESTS_LOADER_WRITTEN_H

#include "check.h"

static char folder[] = "/tmp/tenon-test-XXXXXX";

/* Returns the path of a file in the folder. The text stays valid until the fourth call after this
 * one. */
static inline const char *in_folder(const char *name) {
  static char paths[4][200];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, 200, "%s/%s", folder, name);
  return path;
}

static inline void put(const char *name, const char *text) {
  FILE *file = fopen(in_folder(name), "w");
  if (CHECK(file != NULL)) {
    fputs(text, file);
    fclose(file);
  }
}

#endif
