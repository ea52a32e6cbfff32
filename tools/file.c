/* Reads and writes whole files; see file.h. */
#include "file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool file_read(const char *path, text_t *out, text_t *why) {
  char piece[65536];
  FILE *file = fopen(path, "rb");
  if (!file) {
    text_add(why, "cannot open %s: %s", path, strerror(errno));
    return false;
  }
  for (size_t size; (size = fread(piece, 1, sizeof piece, file)) > 0;)
    text_bytes(out, piece, size);
  bool fine = !ferror(file) && !out->failed;
  fine = fclose(file) == 0 && fine;
  if (!fine) text_add(why, "cannot read %s", path);
  return fine;
}

bool file_write(const char *path, const text_t *bytes, text_t *why) {
  FILE *file = fopen(path, "wb");
  if (!file) {
    text_add(why, "cannot write %s: %s", path, strerror(errno));
    return false;
  }
  bool fine = !bytes->failed && fwrite(text_get(bytes), 1, bytes->size, file) == bytes->size;
  fine = fclose(file) == 0 && fine;
  if (!fine)
    text_add(why, "cannot write %s: %s", path, bytes->failed ? "out of memory" : strerror(errno));
  return fine;
}
