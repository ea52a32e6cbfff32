/* Finds Tenon's own files, beside the command or beside libtenon; see installation.h. */
#include "installation.h"

#include <stdlib.h>
#include <string.h>

#include "system.h"

/* Finds the first of `places`, relative to the folder of the command and then to that of libtenon,
 * that contains `file`. */
static bool find_folder(const char *const *places, const char *file, text_t *out_folder,
                        text_t *why) {
  text_t own = {NULL, 0, 0, false};
  text_t library = {NULL, 0, 0, false};
  text_t path = {NULL, 0, 0, false};
  bool found = false;
  if (system_module_path("libtenon.so.1", &library)) /* cut to its folder */
    library.data[library.size = (size_t)(text_file_name(text_get(&library)) - text_get(&library))] =
        0;
  (void)system_own_folder(&own);
  const char *const folders[] = {text_get(&own), text_get(&library)};
  for (int f = 0; f < 2 && !found; f++)
    for (const char *const *place = places; *folders[f] && *place && !found; place++) {
      text_t folder = {NULL, 0, 0, false};
      text_clear(&path);
      text_add(&folder, "%s/%s", folders[f], *place);
      text_add(&path, "%s/%s", text_get(&folder), file);
      char *real = system_is_file(text_get(&path)) ? realpath(text_get(&folder), NULL) : NULL;
      if (real) {
        text_add(out_folder, "%s", real);
        found = true;
      }
      free(real);
      text_free(&folder);
    }
  if (!found)
    text_add(why, "%s was not found near %s: this Tenon is not installed completely", file,
             text_get(&own));
  text_free(&own);
  text_free(&library);
  text_free(&path);
  return found;
}

bool installation_include(text_t *out_folder, text_t *why) {
  static const char *const places[] = {"../include", "../../include", NULL};
  const char *stated = getenv("TENON_INCLUDE");
  if (stated && *stated) {
    text_add(out_folder, "%s", stated);
    return true;
  }
  return find_folder(places, "tenon/op.h", out_folder, why);
}

bool installation_cmake(text_t *out_folder, text_t *why) {
  static const char *const places[] = {"../lib/cmake/tenon", "cmake/tenon", NULL};
  return find_folder(places, "tenon-config.cmake", out_folder, why);
}
