/* The disk cache over POSIX. An entry is written to a temporary file, which is then renamed to the
 * entry's name, so that a reader never sees a partial entry. */
#include "base/cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/environment.h"
#include "base/file.h"
#include "base/memory.h"

typedef struct head_t {
  char magic[8];
  uint64_t key_size;
  uint64_t size;
  uint64_t checksum; /* of key and data */
} head_t;
static const char magic[8] = "TNCACHE1";

uint64_t tn_cache_hash(const void *data, size_t size, uint64_t seed) {
  const unsigned char *at = data;
  uint64_t sum = seed ^ 0x9E3779B97F4A7C15u ^ size;
  uint64_t word;
  for (; size; at += 8) {
    size_t part = size < 8 ? size : 8;
    word = 0;
    memcpy(&word, at, part);
    sum = (sum ^ word) * 0xD6E8FEB86659FD93u;
    sum ^= sum >> 32;
    size -= part;
  }
  return sum;
}

bool tn_cache_folder(char *path, size_t capacity) {
  const char *own = tn_environment("TENON_CACHE");
  const char *all = tn_environment("XDG_CACHE_HOME");
  const char *home = tn_environment("HOME");
  int size;
  if (own && *own) {
    if (strcmp(own, "off") == 0) return false;
    size = snprintf(path, capacity, "%s", own);
  } else if (all && *all == '/')
    size = snprintf(path, capacity, "%s/tenon", all);
  else if (home && *home == '/')
    size = snprintf(path, capacity, "%s/.cache/tenon", home);
  else
    return false;
  return size > 0 && (size_t)size < capacity;
}

static bool compose_entry_path(const char *name, char *path, size_t capacity) {
  size_t size;
  if (!tn_cache_folder(path, capacity)) return false;
  size = strlen(path);
  int more = snprintf(path + size, capacity - size, "/%s", name);
  return more > 0 && (size_t)more < capacity - size;
}

bool tn_cache_read(const char *name, const void *key, size_t key_size, void **out_data,
                   size_t *out_size) {
  char path[4096];
  tn_file_t file;
  head_t head;
  bool is_private = false;
  bool good = false;
  if (!compose_entry_path(name, path, sizeof path) || !tn_file_exists(path)) return false;
  /* the cache holds code: ignore an entry that other users can change */
  if (tn_file_is_private(path, &is_private) != 0 || !is_private) return false;
  if (tn_file_map(path, &file) != 0) return false;
  if (file.size >= sizeof head) {
    memcpy(&head, file.data, sizeof head);
    uint64_t room = file.size - sizeof head;
    good = memcmp(head.magic, magic, sizeof magic) == 0 && head.key_size == key_size &&
           head.size <= room && key_size == room - head.size &&
           memcmp(file.data + sizeof head, key, key_size) == 0 &&
           tn_cache_hash(file.data + sizeof head, (size_t)room, 1) == head.checksum;
  }
  *out_size = good ? (size_t)head.size : 0;
  *out_data = good ? tn_allocate(*out_size) : NULL;
  if (*out_data) memcpy(*out_data, file.data + sizeof head + key_size, *out_size);
  tn_file_unmap(&file);
  return *out_data != NULL;
}

static void make_folders(char *path) {
  for (char *at = path + 1; *at; at++)
    if (*at == '/') {
      *at = 0;
      (void)mkdir(path, 0700);
      *at = '/';
    }
}

void tn_cache_make_folder(void) {
  char path[4096];
  if (compose_entry_path("", path, sizeof path)) make_folders(path);
}

void tn_cache_write(const char *name, const void *key, size_t key_size, const void *data,
                    size_t size) {
  char path[4096];
  size_t room = key_size + size;
  if (!compose_entry_path(name, path, sizeof path)) return;
  char *whole = tn_allocate(sizeof(head_t) + room);
  if (!whole) return;
  head_t head = {.key_size = key_size, .size = size};
  memcpy(head.magic, magic, sizeof magic);
  memcpy(whole + sizeof head, key, key_size);
  memcpy(whole + sizeof head + key_size, data, size);
  head.checksum = tn_cache_hash(whole + sizeof head, room, 1);
  memcpy(whole, &head, sizeof head);
  make_folders(path);
  (void)tn_file_replace(path, whole, sizeof head + room, 0600);
  tn_release_memory(whole);
}
