/* The space for the manifest, and its parser; see manifest.h. The command finds the space by its
 * first line. */
#include "common/manifest.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM = 65536 };

/* volatile, because the file is changed after it was compiled */
static const volatile char room[ROOM] = "tenon export: what this library exports\n";

static void set_manifest_line(manifest_t *m, const char **ops, char *line) {
  static const char *const keys[] = {"tenon=", "library=", "prefix="};
  const char **const values[] = {&m->tenon, &m->library, &m->prefix};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (strncmp(line, keys[i], strlen(keys[i])) == 0) *values[i] = line + strlen(keys[i]);
  if (strncmp(line, "op=", 3) == 0) ops[m->op_count++] = line + 3;
}

const manifest_t *manifest_read(void) {
  char *text = malloc(ROOM);
  size_t lines = 0;
  for (size_t i = 0; text && i < ROOM; i++) {
    text[i] = i + 1 < ROOM ? room[i] : 0;
    lines += text[i] == '\n';
  }
  manifest_t *m = calloc(1, sizeof *m);
  const char **ops = calloc(lines + 1, sizeof *ops);
  if (!text || !m || !ops) return NULL;
  m->ops = ops;
  for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
    *end = 0;
    set_manifest_line(m, ops, line);
  }
  return m;
}
