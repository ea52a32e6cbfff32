/* The search for a library: a path is taken as it is; a name is looked for in the folders of
 * TENON_LIBRARY_PATH, with the system's prefix and suffix added where they lack, and never in the
 * current folder: files lie there that nobody chose.  Called through locate.h. */
#include "loader/locate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "base/file.h"
#include "base/status.h"

static const char prefix[] = "lib";
static const char suffix[] = ".so";
enum { FORMS = 4 }; /* of a name: bit 0 with the prefix, bit 1 with the suffix */

const char *tn_reason(const char *path) {
  const char *message = tn_error();
  size_t size = strlen(path);
  return !strncmp(message, path, size) && !strncmp(message + size, ": ", 2) ? message + size + 2
                                                                            : message;
}

/* Writes FOLDER/NAME in a form; false when the name has that prefix or suffix already, or there is
 * no room. */
static bool put_form(const char *folder, size_t folder_size, const char *name, int form, char *out,
                     size_t capacity) {
  const char *end = strstr(name, suffix);
  bool has_prefix = !strncmp(name, prefix, sizeof prefix - 1);
  bool has_suffix = end && (end[sizeof suffix - 1] == 0 || end[sizeof suffix - 1] == '.');
  if ((form & 1 && has_prefix) || (form & 2 && has_suffix)) return false;
  int size = snprintf(out, capacity, "%.*s%s%s%s%s", (int)folder_size, folder,
                      folder_size ? "/" : "", form & 1 ? prefix : "", name, form & 2 ? suffix : "");
  return size >= 0 && (size_t)size < capacity;
}

/* Looks in each folder of the list. */
static bool search(const char *folders, const char *name, char *out, size_t capacity) {
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
  if (folders && search(folders, given, found, sizeof found))
    return tn_file_real_path(found, out_path, capacity);
  const char *here =
      tn_file_exists(given) ? "; the file of that name in the current folder is ./" : "";
  const char *name = *here ? given : "";
  if (!folders || !*folders)
    return tn_fail(TENON_NOT_FOUND,
                   "a name without '/' is looked for in TENON_LIBRARY_PATH, which is not set: set "
                   "it to the library's folder, or give a path with a '/'%s%s",
                   here, name);
  return tn_fail(TENON_NOT_FOUND,
                 "not in the folders of TENON_LIBRARY_PATH (%s), with %s and %s added too%s%s",
                 folders, prefix, suffix, here, name);
}
