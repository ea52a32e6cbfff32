/* The cache of libraries built from source. The key of an entry describes the build (compilers,
 * commands, environment). The entry lists the library's file, every input file with a hash of its
 * contents, and the compilers' messages. A library's file name contains a hash of its contents, so
 * a file that is in use is never overwritten. */
#include "toolchain/built.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cache.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"

enum { NAME = 64 };

static bool hash_file(const char *path, uint64_t *out_hash) {
  tn_file_t file;
  if (!tn_file_exists(path) || tn_file_map(path, &file) != TENON_OK) return false;
  *out_hash = tn_cache_hash(file.data, file.size, 5);
  tn_file_unmap(&file);
  return true;
}

static void report_build(const tenon_build_t *build, uint32_t what, const char *text) {
  if (build->say && *text) build->say(build->context, what, text);
}

/* Whether the library in the cache has these contents and only this user can change it. */
static bool is_library(const char *path, uint64_t hash) {
  uint64_t now;
  bool is_private = false;
  return hash_file(path, &now) && now == hash &&
         tn_file_is_private(path, &is_private) == TENON_OK && is_private;
}

/* An entry consists of "library HASH NAME", one "input HASH PATH" for each input, an empty line,
 * and the compilers' messages. */

static void write_entry(const char *name, const tn_text_t *key, const char *library, uint64_t hash,
                        const tn_words_t *inputs, const tn_text_t *words) {
  tn_text_t entry = {0};
  bool fine = true;
  tn_text_add(&entry, "library %016" PRIx64 " %s\n", hash, library);
  TN_EACH_WORD(input, inputs) {
    uint64_t own = 0;
    fine = fine && hash_file(input, &own) && !strchr(input, '\n');
    tn_text_add(&entry, "input %016" PRIx64 " %s\n", own, input);
  }
  tn_text_add(&entry, "\n%s", tn_text_get(words));
  if (fine && !entry.failed) tn_cache_write(name, key->data, key->size, entry.data, entry.size);
  tn_text_clear(&entry);
}

/* Whether all inputs are unchanged. Returns the library's name and hash and the compilers'
 * messages. */
static bool check_entry(char *entry, char out_library[NAME], uint64_t *out_hash,
                        const char **out_words) {
  bool has_library = false;
  for (char *line = entry, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
    char path[4200];
    uint64_t hash, now;
    int at = 0;
    *end = 0;
    if (!*line) {
      *out_words = end + 1;
      return has_library;
    }
    if (sscanf(line, "library %" SCNx64 " %n", &hash, &at) == 1 && at > 0) {
      has_library =
          snprintf(out_library, NAME, "%s", line + at) < NAME && !strchr(out_library, '/');
      *out_hash = hash;
    } else if (sscanf(line, "input %" SCNx64 " %n", &hash, &at) == 1 && at > 0) {
      if (snprintf(path, sizeof path, "%s", line + at) >= (int)sizeof path ||
          !hash_file(path, &now) || now != hash)
        return false;
    } else
      return false;
  }
  return false;
}

static bool find_built(const tenon_build_t *build, const char *name, const tn_text_t *key,
                       tn_built_t *built) {
  char library[NAME], folder[4096], *entry;
  const char *words = "";
  void *data;
  size_t size;
  uint64_t hash = 0;
  bool found = false;
  if (!tn_cache_folder(folder, sizeof folder) ||
      !tn_cache_read(name, key->data, key->size, &data, &size))
    return false;
  entry = tn_copy_text(data, size);
  tn_release_memory(data);
  if (entry && check_entry(entry, library, &hash, &words)) {
    snprintf(built->path, sizeof built->path, "%s/%s", folder, library);
    found = is_library(built->path, hash);
  }
  if (found) {
    report_build(build, TENON_BUILD_REUSED, built->path);
    report_build(build, TENON_BUILD_WORDS, words);
  }
  tn_release_memory(entry);
  return built->is_reused = found;
}

/* Removes the library of an entry that is about to be replaced. A library younger than a minute
 * stays, because another process may have read the entry but not opened the library yet. */
static void remove_replaced_library(const char *name, const tn_text_t *key, const char *folder,
                                    const char *other, int64_t now) {
  const int64_t minute = 60 * (int64_t)1000000000;
  char library[NAME], path[4200];
  uint64_t hash;
  void *data;
  size_t size;
  int64_t changed;
  if (!tn_cache_read(name, key->data, key->size, &data, &size)) return;
  char *entry = tn_copy_text(data, size);
  if (entry && sscanf(entry, "library %" SCNx64 " %63s", &hash, library) == 2 &&
      !strchr(library, '/') && strcmp(library, other) != 0) {
    snprintf(path, sizeof path, "%s/%s", folder, library);
    if (tn_file_stamp(path, &hash, &changed) && now - changed > minute) tn_file_remove(path);
  }
  tn_release_memory(entry);
  tn_release_memory(data);
}

/* Writes the library. If another process has written the same library and may be about to open it,
 * the file stays as it is. */
static tenon_status_t put_library(const char *path, const tn_file_t *file, uint64_t hash) {
  tenon_status_t status = tn_file_create(path, file->data, file->size, 0700);
  if (status != TENON_EXISTS) return status;
  return is_library(path, hash) ? TENON_OK : tn_file_replace(path, file->data, file->size, 0700);
}

/* Moves a new library to the cache, where it is then used. Does nothing if an input changed after
 * the build began, because the library may contain the old or the new version. */
static void keep_library(const char *name, const tn_text_t *key, int64_t begun,
                         const tn_words_t *inputs, const tn_text_t *words, tn_built_t *built) {
  char folder[4096], library[NAME], path[4200];
  tn_file_t file;
  uint64_t size;
  int64_t changed;
  TN_EACH_WORD(input, inputs)
  if (!tn_file_stamp(input, &size, &changed) || changed > begun) return;
  if (!tn_cache_folder(folder, sizeof folder) || tn_file_map(built->path, &file) != TENON_OK)
    return;
  const uint64_t hash = tn_cache_hash(file.data, file.size, 5);
  snprintf(library, sizeof library, "%.16s-%016" PRIx64 ".so", name, hash);
  snprintf(path, sizeof path, "%s/%s", folder, library);
  tn_cache_make_folder();
  remove_replaced_library(name, key, folder, library, begun);
  if (put_library(path, &file, hash) == TENON_OK) {
    write_entry(name, key, library, hash, inputs, words);
    tn_folder_remove(built->folder);
    *built->folder = 0;
    snprintf(built->path, sizeof built->path, "%s", path);
  }
  tn_file_unmap(&file);
}

/* building */

static tenon_status_t make_library(tn_toolchain_t *toolchain, bool is_kept, const char *name,
                                   const tn_text_t *key, tn_built_t *built) {
  tn_text_t words = {0};
  tn_words_t inputs = {0};
  uint64_t size;
  int64_t begun = 0;
  TN_TRY(tn_folder_make(built->folder, sizeof built->folder));
  /* the current time by the file system's clock */
  (void)tn_file_stamp(built->folder, &size, &begun);
  tenon_status_t status = tn_toolchain_run(toolchain, built->folder, &words, &inputs);
  report_build(toolchain->build, TENON_BUILD_WORDS, tn_text_get(&words));
  if (status == TENON_OK) {
    snprintf(built->path, sizeof built->path, "%s/library.so", built->folder);
    if (is_kept) keep_library(name, key, begun, &inputs, &words, built);
  }
  tn_text_clear(&words);
  tn_words_clear(&inputs);
  return status;
}

/* A build for the processor it runs on (=native) must not be cached: the cache may be shared by
 * machines. */
static bool may_keep(const tenon_build_t *build) {
  if (build->flags & TENON_BUILD_FRESH) return false;
  for (uint32_t i = 0; i < build->option_count; i++)
    if (strstr(build->options[i], "=native")) return false;
  return true;
}

tenon_status_t tn_build(const tenon_build_t *build, const char *output, const char *entry,
                        const tn_text_t *text, tn_built_t *built) {
  tn_toolchain_t toolchain = {.build = build, .output = output, .entry = entry, .text = text};
  tn_text_t key = {0};
  char name[NAME];
  const bool is_kept = may_keep(build);
  *built->path = *built->folder = 0;
  built->is_reused = false;
  tenon_status_t status = tn_toolchain_open(&toolchain);
  if (status == TENON_OK) {
    tn_text_add(&key, "library 1\n");
    tn_toolchain_describe(&toolchain, &key);
    if (key.failed) status = tn_no_memory("the description of a build", key.size);
  }
  if (status == TENON_OK) {
    snprintf(name, sizeof name, "%016" PRIx64 "%016" PRIx64 ".build",
             tn_cache_hash(key.data, key.size, 3), tn_cache_hash(key.data, key.size, 4));
    if (!is_kept || !find_built(build, name, &key, built))
      status = make_library(&toolchain, is_kept, name, &key, built);
  }
  if (status != TENON_OK) tn_built_release(built);
  tn_text_clear(&key);
  tn_toolchain_close(&toolchain);
  return status;
}

void tn_built_release(tn_built_t *built) {
  if (*built->folder) tn_folder_remove(built->folder);
  *built->folder = 0;
}
