/* Loads the libraries that --ops names; see library.h. */
#include "library.h"

#include <string.h>

#include "print_error.h"
#include "supervise.h"
#include "system.h"
#include "verbs/verb.h"

static void report_end(const char *message, bool is_done) {
  (void)is_done;
  (void)print_failure("%s", message);
}

void library_supervise(void) {
  static supervise_t settings = {.failed = EXIT_FAILED, .report = report_end};
  settings.limit_ms = supervise_limit();
  supervise_begin(&settings);
}

tenon_status_t library_load(const char *path, uint32_t flags, tenon_library_t **out_library) {
  supervise_loading(path);
  tenon_status_t status = tenon_library_load(path, flags, out_library);
  supervise_loaded();
  return status;
}

void library_path(const char *file, text_t *out_path) {
  text_add(out_path, "%s%s", strchr(file, '/') || !system_is_file(file) ? "" : "./", file);
}

bool library_load_all(const texts_t *paths, bool is_isolated, text_t *why) {
  bool fine = true;
  for (int32_t i = 0; fine && i < paths->count; i++) {
    text_t path = {NULL, 0, 0, false};
    library_path(paths->items[i], &path);
    fine = library_load(text_get(&path), is_isolated ? TENON_LOAD_ISOLATED : 0, NULL) == TENON_OK;
    if (!fine) text_add(why, "%s", tenon_error());
    text_free(&path);
  }
  return fine;
}
