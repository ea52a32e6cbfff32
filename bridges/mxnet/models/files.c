#include "files.h"

#include "base/status.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The limit for a symbol file, in MiB: about a hundred times the size of a large model's. The tree
 * that is read from a file may need 25 times its size. */
enum { MIB_MOST = 32 };

tenon_status_t files_read(const char *path, tn_arena_t *arena, const char **out_data,
                          size_t *out_size) {
  struct stat about;
  tenon_status_t status = TENON_OK;
  char *data = NULL;
  FILE *file = fopen(path, "rb");
  if (!file) return tn_fail(TENON_NOT_FOUND, "%s: %s", path, strerror(errno));
  if (fstat(fileno(file), &about) != 0 || !S_ISREG(about.st_mode))
    status = tn_fail(TENON_INVALID, "%s: expected a file, found a folder or a device", path);
  else if (about.st_size > (off_t)MIB_MOST << 20)
    status = tn_fail(
        TENON_INVALID,
        "%s: the file has %lld bytes, but symbol files of more than %d MiB are not supported", path,
        (long long)about.st_size, MIB_MOST);
  else if (!(data = tn_arena_array(arena, (size_t)about.st_size + 1, 1)))
    status = tn_no_memory(path, 0);
  else
    *out_size = fread(data, 1, (size_t)about.st_size, file);
  fclose(file);
  *out_data = data;
  return status;
}

static char *join(tn_arena_t *arena, const char *folder, size_t folder_size, const char *name) {
  char *path = tn_arena_array(arena, folder_size + strlen(name) + 2, 1);
  if (path && folder_size)
    sprintf(path, "%.*s/%s", (int)folder_size, folder, name);
  else if (path)
    sprintf(path, "%s", name);
  return path;
}

/* Finds NAME-*.params, where NAME is `stem`. If there are several files, `found` lists them. */
static tenon_status_t find_params(const char *folder, const char *stem, size_t stem_size,
                                  tn_arena_t *arena, char *found, size_t room, int *out_count,
                                  const char **out_name) {
  static const char suffix[] = ".params";
  DIR *entries = opendir(folder);
  if (!entries) return tn_fail(TENON_NOT_FOUND, "%s: %s", folder, strerror(errno));
  for (struct dirent *entry; (entry = readdir(entries));) {
    const char *name = entry->d_name;
    size_t size = strlen(name);
    size_t used = strlen(found);
    if (size < stem_size + 1 + strlen(suffix) || strncmp(name, stem, stem_size) != 0 ||
        name[stem_size] != '-' || strcmp(name + size - strlen(suffix), suffix) != 0)
      continue;
    if (++*out_count <= 8) snprintf(found + used, room - used, "%s%s", used ? ", " : "", name);
    if (!(*out_name = tn_arena_text(arena, name, size))) break;
  }
  closedir(entries);
  return TENON_OK;
}

tenon_status_t files_params(const char *symbol_path, const char *folder, tn_arena_t *arena,
                            const char **out_path) {
  static const char suffix[] = "-symbol.json";
  const char *slash = strrchr(symbol_path, '/');
  const char *name = slash ? slash + 1 : symbol_path;
  const char *only = NULL;
  size_t stem_size = strlen(name);
  size_t folder_size = slash ? (size_t)(slash - symbol_path) : 0;
  if (folder) folder_size = strlen(folder);
  char found[600] = "";
  char *first = tn_arena_array(arena, stem_size + 20, 1);
  int count = 0;
  struct stat about;
  *out_path = NULL;
  if (stem_size > strlen(suffix) && strcmp(name + stem_size - strlen(suffix), suffix) == 0)
    stem_size -= strlen(suffix);
  if (!folder) {
    /* The path is like "/x-symbol.json". */
    folder = symbol_path;
    folder_size += folder_size == 0 && slash;
  }
  if (!first) return tn_no_memory("a path", 0);
  sprintf(first, "%.*s-0000.params", (int)stem_size, name);
  const char *path = join(arena, folder, folder_size, first);
  if (!path) return tn_no_memory("a path", 0);
  if (stat(path, &about) == 0) {
    *out_path = path;
    return TENON_OK;
  }
  const char *where = folder_size ? tn_arena_text(arena, folder, folder_size) : ".";
  if (!where) return tn_no_memory("a path", 0);
  TENON_TRY(find_params(where, name, stem_size, arena, found, sizeof found, &count, &only));
  if (count > 1)
    return tn_fail(TENON_INVALID,
                   "%s: %s does not exist, and %d other files could hold the parameters: %s%s; "
                   "keep only one of them",
                   symbol_path, first, count, found, count > 8 ? ", ..." : "");
  if (count && (!only || !(*out_path = join(arena, folder, folder_size, only))))
    return tn_no_memory("a path", 0);
  return TENON_OK;
}
