/* Finds the headers that a source includes; see includes.h. */
#include "includes.h"

#include <string.h>

#include "file.h"
#include "system.h"

/* `folder` is the folder of the including file with its separator, or "". */
static bool add_named(const char *folder, const char *name, size_t size, const texts_t *folders,
                      texts_t *out_files) {
  text_t path = {NULL, 0, 0, false};
  bool fine = true;
  bool found = false;
  for (int32_t i = -1; i < folders->count && !found; i++) {
    text_clear(&path);
    if (*name != '/' && i < 0) text_add(&path, "%s", folder);
    if (*name != '/' && i >= 0) text_add(&path, "%s/", folders->items[i]);
    text_bytes(&path, name, size);
    found = system_is_file(text_get(&path));
  }
  if (found) fine = includes_of(text_get(&path), folders, out_files);
  text_free(&path);
  return fine;
}

bool includes_of(const char *path, const texts_t *folders, texts_t *out_files) {
  text_t words = {NULL, 0, 0, false};
  text_t folder = {NULL, 0, 0, false};
  text_t why = {NULL, 0, 0, false};
  if (texts_has(out_files, path)) return true;
  bool fine = texts_add(out_files, path);
  text_bytes(&folder, path, (size_t)(text_file_name(path) - path));
  if (!system_is_file(path) || !file_read(path, &words, &why)) text_clear(&words);
  for (const char *line = text_get(&words); fine && *line;
       line += strcspn(line, "\n"), line += *line == '\n') {
    const char *at = line + strspn(line, " \t");
    if (*at != '#') continue;
    at += 1 + strspn(at + 1, " \t");
    if (strncmp(at, "include", 7) != 0) continue;
    at += 7 + strspn(at + 7, " \t");
    const size_t size = *at == '"' ? strcspn(at + 1, "\"\n") : 0;
    if (size && at[1 + size] == '"')
      fine = add_named(text_get(&folder), at + 1, size, folders, out_files);
  }
  text_free(&words);
  text_free(&folder);
  text_free(&why);
  return fine;
}
