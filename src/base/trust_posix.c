/* Owners and permissions over POSIX. Where access lists are used, the group bits of the mode are an
 * upper bound on what any entry grants. Invariant: a path is checked from the root down, so that
 * nobody can exchange a part that was already checked: each folder above it was found to be closed
 * to others. */
#include "base/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"

static tn_file_identity_t identity_of(const struct stat *info) {
  return (tn_file_identity_t){
      .device = (uint64_t)info->st_dev,
      .number = (uint64_t)info->st_ino,
      .size = (uint64_t)info->st_size,
      .modified = (int64_t)info->st_mtim.tv_sec * 1000000000 + info->st_mtim.tv_nsec,
      .changed = (int64_t)info->st_ctim.tv_sec * 1000000000 + info->st_ctim.tv_nsec,
  };
}

bool tn_file_is_same(const char *path, const tn_file_identity_t *identity) {
  struct stat info;
  if (lstat(path, &info) != 0) return false;
  const tn_file_identity_t now = identity_of(&info);
  return now.device == identity->device && now.number == identity->number &&
         now.size == identity->size && now.modified == identity->modified &&
         now.changed == identity->changed;
}

/* The file is examined before and after it is opened. A file that takes its place in between has a
 * different number or time. */
tenon_status_t tn_file_map_real(const char *path, tn_file_t *out_file,
                                tn_file_identity_t *out_identity) {
  char real[4096];
  struct stat info;
  *out_file = (tn_file_t){NULL, 0};
  if (lstat(path, &info) != 0)
    return tn_fail(tn_file_status(errno), "%s: %s", path, strerror(errno));
  *out_identity = identity_of(&info);
  TN_TRY(tn_file_map(path, out_file));
  if (tn_file_real_path(path, real, sizeof real) == TENON_OK && strcmp(real, path) == 0 &&
      tn_file_is_same(path, out_identity))
    return TENON_OK;
  tn_file_unmap(out_file);
  return tn_fail(TENON_ABORTED,
                 "%s: the file or a folder of its path changed while it was checked: try again",
                 path);
}

static bool fill_copy(int copy, const tn_file_t *file) {
  for (size_t at = 0; at < file->size;) {
    ssize_t part = write(copy, file->data + at, file->size - at);
    if (part < 0 && errno != EINTR) return false;
    if (part > 0) at += (size_t)part;
  }
  return fcntl(copy, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
}

tenon_status_t tn_file_copy_part(const char *path, const void *bytes, size_t size,
                                 tn_file_t *out_file, int *out_copy) {
  const tn_file_t file = {bytes, size};
  int copy = memfd_create("library", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  bool is_filled = copy >= 0 && fill_copy(copy, &file);
  void *data = is_filled && size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, copy, 0) : NULL;
  if (!is_filled || data == MAP_FAILED) {
    tenon_status_t status = tn_fail(
        TENON_UNAVAILABLE, "%s: cannot make a private copy of the file: %s", path, strerror(errno));
    tn_copy_close(copy);
    return status;
  }
  *out_file = (tn_file_t){data, size};
  *out_copy = copy;
  return TENON_OK;
}

tenon_status_t tn_file_copy(const char *path, tn_file_t *file, int *out_copy) {
  tn_file_t copy;
  TN_TRY(tn_file_copy_part(path, file->data, file->size, &copy, out_copy));
  tn_file_unmap(file);
  *file = copy;
  return TENON_OK;
}

void tn_copy_close(int copy) {
  if (copy >= 0) close(copy);
}

/* Appends what other users could do with one part of the path: the first `size` bytes. */
static void add_part(const char *path, int size, tn_text_t *lines) {
  char part[4096];
  char text[128] = "";
  struct stat info;
  const uid_t self = geteuid();
  snprintf(part, sizeof part, "%.*s", size, path);
  if (lstat(part, &info) != 0) {
    tn_text_add(lines, "%s%s: %s", lines->size ? "\n" : "", part, strerror(errno));
    return;
  }
  const bool is_folder = S_ISDIR(info.st_mode);
  const bool is_sticky = is_folder && info.st_mode & S_ISVTX;
  const char *kind = is_folder ? "folder" : "file";
  const char *gap = lines->size ? "\n" : "";
  if (info.st_uid != self && info.st_uid != 0) {
    snprintf(text, sizeof text, self ? "this user, %u, or root" : "root", (unsigned)self);
    tn_text_add(lines, "%s%s %s belongs to user %u, expected %s: change its owner with chown", gap,
                kind, part, (unsigned)info.st_uid, text);
  } else if (info.st_mode & (S_IWGRP | S_IWOTH) && !is_sticky) {
    const char *who = info.st_mode & S_IWGRP ? "everybody" : "others";
    if (!(info.st_mode & S_IWOTH)) who = "its group";
    tn_text_add(lines, "%s%s %s is writable by %s (mode %04o): run chmod go-w on it", gap, kind,
                part, who, (unsigned)info.st_mode & 07777);
  }
}

void tn_file_changeable(const char *path, tn_text_t *lines) {
  add_part("/", 1, lines);
  for (const char *end = path; *end;) {
    end += 1 + strcspn(end + 1, "/");
    if (end > path + 1) add_part(path, (int)(end - path), lines);
  }
}
