/* Loads the libraries that --ops names; see library.h. */
#include "library.h"

#include <string.h>

#include "system.h"

void library_path(const char *file, text_t *out_path) {
  text_add(out_path, "%s%s", strchr(file, '/') || !system_is_file(file) ? "" : "./", file);
}

bool library_load_all(const texts_t *paths, bool is_isolated, text_t *why) {
  bool fine = true;
  for (int32_t i = 0; fine && i < paths->count; i++) {
    text_t path = {NULL, 0, 0, false};
    library_path(paths->items[i], &path);
    fine = tenon_library_load(text_get(&path), is_isolated ? TENON_LOAD_ISOLATED : 0, NULL) ==
           TENON_OK;
    if (!fine) text_add(why, "%s", tenon_error());
    text_free(&path);
  }
  return fine;
}
