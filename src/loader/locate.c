/* Finds a library by path or name. A path is used as it is. A name is searched for in the folders
 * of TENON_LIBRARY_PATH, also with the system's prefix and suffix added, but never in the current
 * folder, whose files nobody chose. */
#include "loader/locate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "base/file.h"
#include "base/status.h"

static const char prefix[] = "lib";
static const char suffix[] = ".so";
enum { FORMS = 4 }; /* forms of a name: bit 0 adds the prefix, bit 1 the suffix */

const char *tn_reason(const char *path) {
  const char *message = tn_error();
  size_t size = strlen(path);
  return !strncmp(message, path, size) && !strncmp(message + size, ": ", 2) ? message + size + 2
                                                                            : message;
}

/* Writes FOLDER/NAME in one form. Returns: false if the name already has this prefix or suffix, or
 * if it does not fit. */
static bool put_form(const char *folder, size_t folder_size, const char *name, int form, char *out,
                     size_t capacity) {
  const char *end = strstr(name, suffix);
  bool has_prefix = !strncmp(name, prefix, sizeof prefix - 1);
  bool has_suffix = end && (end[sizeof suffix - 1] == 0 || end[sizeof suffix - 1] == '.');
  if ((form & 1 && has_prefix) || (form & 2 && has_suffix)) return false;
  const char *slash = folder_size ? "/" : "";
  const char *before = form & 1 ? prefix : "";
  const char *after = form & 2 ? suffix : "";
  int size =
      snprintf(out, capacity, "%.*s%s%s%s%s", (int)folder_size, folder, slash, before, name, after);
  return size >= 0 && (size_t)size < capacity;
}

/* Searches each folder of the list. */
static bool search_folders(const char *folders, const char *name, char *out, size_t capacity) {
  while (*folders) {
    size_t size = strcspn(folders, ":");
    for (int form = 0; size && form < FORMS; form++)
      if (put_form(folders, size, name, form, out, capacity) && tn_file_exists(out)) return true;
    folders += size + (folders[size] != 0);
  }
  return false;
}

tenon_status_t tn_locate(const char *given, char *out_path, size_t capacity) {
  const char *folders = tn_environment("TENON_LIBRARY_PATH");
  char found[TN_PATH_SIZE];
  if (!*given) return tn_fail(TENON_INVALID, "the path is empty: give a path or a name");
  if (strchr(given, '/')) return tn_file_real_path(given, out_path, capacity);
  if (folders && search_folders(folders, given, found, sizeof found))
    return tn_file_real_path(found, out_path, capacity);
  const char *here =
      tn_file_exists(given) ? "; the file of that name in the current folder is ./" : "";
  const char *name = *here ? given : "";
  if (!folders || !*folders)
    return tn_fail(TENON_NOT_FOUND,
                   "a name without '/' is looked for in TENON_LIBRARY_PATH, which is not set: set "
                   "it to the library's folder, or give a path with a '/'%s%s",
                   here, name);
  return tn_fail(
      TENON_NOT_FOUND,
      "not found in the folders of TENON_LIBRARY_PATH (%s), also with %s and %s added%s%s", folders,
      prefix, suffix, here, name);
}
