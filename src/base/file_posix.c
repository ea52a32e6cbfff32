/* Files over POSIX: mapping, kinds, owners.  Opens with O_NONBLOCK so that a FIFO cannot hang the caller. */
#include "base/file.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"

static const char *kind_of(mode_t mode) {
  return S_ISDIR(mode)                    ? "a folder"
         : S_ISFIFO(mode)                 ? "a FIFO"
         : S_ISSOCK(mode)                 ? "a socket"
         : S_ISCHR(mode) || S_ISBLK(mode) ? "a device"
                                          : "no regular file";
}

tenon_status_t tn_file_map(const char *path, tn_file_t *out_file) {
  struct stat info;
  *out_file = (tn_file_t){NULL, 0};
  int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    int reason = errno;
    return tn_fail(reason == ENOENT || reason == ENOTDIR ? TENON_NOT_FOUND : TENON_DENIED, "%s: %s", path,
                   strerror(reason));
  }
  tenon_status_t status = TENON_OK;
  if (fstat(descriptor, &info) != 0) {
    status = tn_fail(TENON_DENIED, "%s: %s", path, strerror(errno));
  } else if (!S_ISREG(info.st_mode)) {
    status = tn_fail(TENON_INVALID, "%s: expected a regular file, found %s", path, kind_of(info.st_mode));
  } else if (info.st_size > 0) {
    void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data == MAP_FAILED)
      status = tn_fail(TENON_MEMORY, "%s: cannot map %lld bytes: %s", path, (long long)info.st_size, strerror(errno));
    else *out_file = (tn_file_t){data, (size_t)info.st_size};
  }
  close(descriptor);
  return status;
}

void tn_file_unmap(tn_file_t *file) {
  if (file->data) munmap((void *)(uintptr_t)file->data, file->size);
  *file = (tn_file_t){NULL, 0};
}

void tn_file_forget(const void *data, size_t size) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t begin = ((uintptr_t)data + page - 1) / page * page, end = ((uintptr_t)data + size) / page * page;
  if (begin < end) (void)madvise((void *)begin, end - begin, MADV_DONTNEED); /* a hint */
}

bool tn_file_exists(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

bool tn_file_is_folder(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

tenon_status_t tn_file_real_path(const char *path, char *out_path, size_t capacity) {
  char *real = realpath(path, NULL);
  if (!real) {
    int reason = errno;
    tenon_status_t status = reason == ENOENT || reason == ENOTDIR ? TENON_NOT_FOUND : TENON_DENIED;
    return reason == ENOMEM ? tn_no_memory("a path", capacity) : tn_fail(status, "%s: %s", path, strerror(reason));
  }
  size_t size = strlen(real) + 1;
  if (size <= capacity) memcpy(out_path, real, size);
  free(real);
  return size <= capacity ? TENON_OK : tn_fail(TENON_INVALID, "%s: a path of %zu bytes is too long", path, size);
}

bool tn_file_of_address(const void *address, char *out_path, size_t capacity) {
  Dl_info info;
  if (!dladdr(address, &info) || !info.dli_fname || strlen(info.dli_fname) >= capacity) return false;
  strcpy(out_path, info.dli_fname);
  return true;
}

tenon_status_t tn_file_is_private(const char *path, bool *out_private) {
  struct stat info;
  if (stat(path, &info) != 0) return tn_fail(TENON_NOT_FOUND, "%s: %s", path, strerror(errno));
  *out_private = (info.st_uid == geteuid() || info.st_uid == 0) && !(info.st_mode & (S_IWGRP | S_IWOTH));
  return TENON_OK;
}
