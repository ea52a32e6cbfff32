/* Searches for needed libraries as ld.so(8) does on Linux: in the folders named in the file,
 * LD_LIBRARY_PATH, the cache of ldconfig and the system's folders. A folder with a variable that
 * only the system's loader knows ($LIB) makes the answer uncertain. */
#include "loader/needed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"

/* Tries FOLDER/NAME, with $ORIGIN replaced by the folder of `path`. */
static tn_found_t try_folder(const char *folder, size_t size, const char *path, const char *name,
                             char *out, size_t capacity) {
  static const char *const origins[] = {"$ORIGIN", "${ORIGIN}"};
  const char *slash = strrchr(path, '/');
  int origin_size = 0;
  for (size_t i = 0; i < 2; i++) {
    size_t word = strlen(origins[i]);
    if (size < word || strncmp(folder, origins[i], word) != 0) continue;
    folder += word;
    size -= word;
    origin_size = slash ? (int)(slash - path) : 0;
  }
  if (memchr(folder, '$', size)) return TN_UNSURE;
  int written = snprintf(out, capacity, "%.*s%.*s/%s", origin_size, path, (int)size, folder, name);
  if (written < 0 || (size_t)written >= capacity) return TN_UNSURE;
  return tn_file_exists(out) ? TN_FOUND : TN_MISSING;
}

/* Tries each folder of a list. As for the system's loader, an empty part is the current folder, and
 * `separators` are those of the list: a run path has colons only. */
static tn_found_t try_folders(const char *folders, const char *separators, const char *path,
                              const char *name, char *out, size_t capacity) {
  tn_found_t found = TN_MISSING;
  if (!folders || !*folders) return TN_MISSING;
  for (const char *at = folders; at && found != TN_FOUND;) {
    size_t size = strcspn(at, separators);
    tn_found_t here = size ? try_folder(at, size, path, name, out, capacity)
                           : try_folder(".", 1, path, name, out, capacity);
    if (here != TN_MISSING) found = here;
    at = at[size] ? at + size + 1 : NULL;
  }
  return found;
}

typedef struct cache_entry_t {
  int32_t flags;
  uint32_t key;
  uint32_t value;
  uint32_t version;
  uint64_t hardware;
} cache_entry_t;

/* Returns: a text of the cache, or NULL if it is outside the file. */
static const char *cache_text(const tn_file_t *file, uint32_t offset) {
  return offset < file->size && memchr(file->data + offset, 0, file->size - offset)
             ? (const char *)file->data + offset
             : NULL;
}

/* Searches /etc/ld.so.cache, format 1.1: magic, number of entries, five words, then the entries,
 * which refer to texts. */
static tn_found_t try_cache(const char *name, char *out, size_t capacity) {
  static const char magic[] = "glibc-ld.so.cache1.1";
  static const char place[] = "/etc/ld.so.cache";
  tn_file_t file;
  uint32_t count = 0;
  if (!tn_file_exists(place) || tn_file_map(place, &file) != TENON_OK) return TN_UNSURE;
  tn_found_t found = TN_UNSURE;
  if (file.size >= 48 && !memcmp(file.data, magic, sizeof magic - 1)) {
    found = TN_MISSING;
    memcpy(&count, file.data + 20, sizeof count);
  }
  cache_entry_t entry;
  for (size_t at = 48; count && file.size - at >= sizeof entry && found != TN_FOUND;
       count--, at += sizeof entry) {
    memcpy(&entry, file.data + at, sizeof entry);
    const char *key = cache_text(&file, entry.key);
    const char *value = cache_text(&file, entry.value);
    if (!key || !value || strcmp(key, name) != 0 || strlen(value) >= capacity) continue;
    strcpy(out, value);
    found = TN_FOUND;
  }
  tn_file_unmap(&file);
  return found;
}

tn_found_t tn_needed_find(const tn_binary_t *binary, const char *path, const char *name,
                          char *out_path, size_t capacity) {
  if (strchr(name, '/')) { /* a path is not searched for */
    const char *slash = strrchr(name, '/');
    if (strchr(name, '$'))
      return try_folder(name, (size_t)(slash - name), path, slash + 1, out_path, capacity);
    if (strlen(name) >= capacity) return TN_UNSURE;
    strcpy(out_path, name);
    return tn_file_exists(name) ? TN_FOUND : TN_MISSING;
  }
  const char *environment = tn_environment("LD_LIBRARY_PATH");
  struct {
    const char *folders;
    const char *separators;
  } places[] = {
      {environment, ":;"}, {binary->run_path, ":"}, {"/lib64:/usr/lib64:/lib:/usr/lib", ":"}};
  if (binary->is_run_path_first) {
    places[0].folders = binary->run_path;
    places[0].separators = ":";
    places[1].folders = environment;
    places[1].separators = ":;";
  }
  tn_found_t result = TN_MISSING;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    tn_found_t found =
        try_folders(places[i].folders, places[i].separators, path, name, out_path, capacity);
    if (found == TN_FOUND) return found;
    if (found == TN_UNSURE) result = found;
  }
  tn_found_t found = try_cache(name, out_path, capacity);
  return found == TN_MISSING ? result : found;
}

/* Guesses Debian's package name: libfoo3 for libfoo.so.3, libfoo2-3 for libfoo2.so.3. */
static bool name_package(const char *library, char *out, size_t capacity) {
  const char *end = strstr(library, ".so.");
  if (strncmp(library, "lib", 3) != 0 || !end || strchr(library, '/')) return false;
  const char *version = end + 4;
  const char *dash = end[-1] >= '0' && end[-1] <= '9' ? "-" : "";
  size_t digits = strspn(version, "0123456789");
  int size = snprintf(out, capacity, "%.*s%s%.*s", (int)(end - library), library, dash, (int)digits,
                      version);
  for (char *at = out; *at; at++) {
    if (*at == '_') *at = '-';
    if (*at >= 'A' && *at <= 'Z') *at = (char)(*at + 'a' - 'A');
  }
  return digits && size > 0 && (size_t)size < capacity;
}

static void report_missing(const tn_binary_t *binary, const char *name, tn_text_t *offences) {
  const char *environment = tn_environment("LD_LIBRARY_PATH");
  char package[200];
  tn_text_t places = {0};
  if (!strncmp(name, "libc.musl", 9) || !strncmp(name, "ld-musl", 7)) {
    tn_binary_offence(
        offences,
        "it needs %.200s: it was built for musl, but this system has glibc: build it here", name);
    return;
  }
  if (*binary->run_path) tn_text_add(&places, "its own run path %.200s, ", binary->run_path);
  if (environment && *environment) tn_text_add(&places, "LD_LIBRARY_PATH %.200s, ", environment);
  const bool has_package = name_package(name, package, sizeof package);
  const char *on_debian = has_package ? "; on Debian the package may be " : "";
  tn_binary_offence(offences,
                    "it needs %.200s, which was not found: install it, or add its folder to "
                    "LD_LIBRARY_PATH (searched: %sthe system's folders%s%s)",
                    name, tn_text_get(&places), on_debian, has_package ? package : "");
  tn_text_clear(&places);
}

void tn_needed_missing(const tn_binary_t *binary, const char *path, tn_text_t *offences) {
  char found[4096];
  for (uint64_t i = 0; i < binary->needed.count && i < TN_LISTED; i++)
    if (tn_needed_find(binary, path, binary->needed.names[i], found, sizeof found) == TN_MISSING)
      report_missing(binary, binary->needed.names[i], offences);
}
