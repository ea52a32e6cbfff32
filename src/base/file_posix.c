/* Files over POSIX. Files are opened with O_NONBLOCK, so that a FIFO cannot block the caller. */
#include "base/file.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/status.h"

static const char *kind_of_file(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "not a regular file";
}

tenon_status_t tn_file_status(int reason) {
  switch (reason) {
  case ENOENT:
  case ENOTDIR:
    return TENON_NOT_FOUND;
  case EEXIST:
    return TENON_EXISTS;
  case ENOMEM:
    return TENON_MEMORY;
  default:
    return TENON_DENIED;
  }
}

tenon_status_t tn_file_map(const char *path, tn_file_t *out_file) {
  struct stat info;
  *out_file = (tn_file_t){NULL, 0};
  int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    int reason = errno;
    return tn_fail(tn_file_status(reason), "%s: %s", path, strerror(reason));
  }
  tenon_status_t status = TENON_OK;
  if (fstat(descriptor, &info) != 0) {
    status = tn_fail(tn_file_status(errno), "%s: %s", path, strerror(errno));
  } else if (!S_ISREG(info.st_mode)) {
    status = tn_fail(TENON_INVALID, "%s: expected a regular file, found %s", path,
                     kind_of_file(info.st_mode));
  } else if (info.st_size > 0) {
    void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data == MAP_FAILED)
      status = tn_fail(TENON_MEMORY, "%s: cannot map %lld bytes: %s", path, (long long)info.st_size,
                       strerror(errno));
    else
      *out_file = (tn_file_t){data, (size_t)info.st_size};
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
  uintptr_t begin = ((uintptr_t)data + page - 1) / page * page;
  uintptr_t end = ((uintptr_t)data + size) / page * page;
  if (begin < end) (void)madvise((void *)begin, end - begin, MADV_DONTNEED); /* a hint */
}

void tn_pages_discard(void *data, size_t size) { tn_file_forget(data, size); }

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
    return tn_fail(tn_file_status(reason), "%s: %s", path, strerror(reason));
  }
  size_t size = strlen(real) + 1;
  if (size <= capacity) memcpy(out_path, real, size);
  free(real);
  return size <= capacity
             ? TENON_OK
             : tn_fail(TENON_INVALID, "%s: a path of %zu bytes is too long", path, size);
}

bool tn_file_of_address(const void *address, char *out_path, size_t capacity) {
  Dl_info info;
  if (!dladdr(address, &info) || !info.dli_fname || strlen(info.dli_fname) >= capacity)
    return false;
  strcpy(out_path, info.dli_fname);
  return true;
}

tenon_status_t tn_file_is_private(const char *path, bool *out_private) {
  struct stat info;
  if (stat(path, &info) != 0)
    return tn_fail(tn_file_status(errno), "%s: %s", path, strerror(errno));
  *out_private =
      (info.st_uid == geteuid() || info.st_uid == 0) && !(info.st_mode & (S_IWGRP | S_IWOTH));
  return TENON_OK;
}

bool tn_file_stamp(const char *path, uint64_t *out_size, int64_t *out_changed) {
  struct stat info;
  if (stat(path, &info) != 0) return false;
  *out_size = (uint64_t)info.st_size;
  *out_changed = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
  return true;
}

/* writing */

static bool write_bytes(int file, const char *data, size_t size) {
  while (size) {
    ssize_t part = write(file, data, size);
    if (part < 0 && errno != EINTR) return false;
    if (part < 0) continue;
    data += part;
    size -= (size_t)part;
  }
  return true;
}

/* Creates a file with an unused name next to `path`. Returns the descriptor, or -1 with errno
 * set. */
static int open_beside(const char *path, uint32_t mode, char *out_beside, size_t capacity) {
  static unsigned numbers;
  for (int attempt = 0; attempt < 100; attempt++) {
    unsigned number = __atomic_fetch_add(&numbers, 1, __ATOMIC_RELAXED);
    int size = snprintf(out_beside, capacity, "%s.%ld-%u", path, (long)getpid(), number);
    int file;
    if (size < 0 || (size_t)size >= capacity) {
      errno = ENAMETOOLONG;
      return -1;
    }
    file = open(out_beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, (mode_t)mode);
    if (file >= 0 || errno != EEXIST) return file;
  }
  return -1;
}

/* Renames the finished temporary file to its final name. A rename is the last change to the file:
 * link() followed by unlink() would change the file's metadata while another process reads it. On
 * file systems without RENAME_NOREPLACE an existing file is replaced. */
static int give_name(const char *from, const char *to, bool is_new) {
#ifdef RENAME_NOREPLACE
  if (is_new && renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return 0;
  if (is_new && errno != EINVAL && errno != ENOSYS) return errno;
#endif
  return rename(from, to) == 0 ? 0 : errno;
}

static tenon_status_t fail_write(const char *path, int reason) {
  return tn_fail(tn_file_status(reason), "%s: cannot write the file: %s", path, strerror(reason));
}

/* Writes the bytes to an open file and closes it. Returns 0 or the errno of the first failure. */
static int finish_file(int file, const void *data, size_t size) {
  int problem = write_bytes(file, data, size) ? 0 : errno;
  if (close(file) != 0 && !problem) problem = errno;
  return problem;
}

/* A device or a FIFO, such as /dev/null, stays what it is and takes the bytes. A rename would put a
 * regular file in its place. */
static bool is_special(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

static tenon_status_t write_special(const char *path, const void *data, size_t size) {
  int file = open(path, O_WRONLY | O_CLOEXEC);
  int problem = file < 0 ? errno : finish_file(file, data, size);
  return problem ? fail_write(path, problem) : TENON_OK;
}

static tenon_status_t write_file(const char *path, const void *data, size_t size, uint32_t mode,
                                 bool is_new) {
  char beside[4200];
  if (!is_new && is_special(path)) return write_special(path, data, size);
  int file = open_beside(path, mode, beside, sizeof beside);
  if (file < 0) return fail_write(path, errno);
  int problem = finish_file(file, data, size);
  if (!problem) problem = give_name(beside, path, is_new);
  if (!problem) return TENON_OK;
  (void)unlink(beside);
  return fail_write(path, problem);
}

/* Writes a temporary file, whose name is stored in out_beside. Leaves no file after a failure. */
static tenon_status_t write_beside(const tn_new_file_t *new, uint32_t mode, char *out_beside,
                                   size_t capacity) {
  const int file = open_beside(new->path, mode, out_beside, capacity);
  const int problem = file < 0 ? errno : finish_file(file, new->data, new->size);
  if (!problem) return TENON_OK;
  if (file >= 0) (void)unlink(out_beside);
  return fail_write(new->path, problem);
}

tenon_status_t tn_file_replace_both(const tn_new_file_t files[2], uint32_t mode) {
  char beside[2][4200];
  TN_TRY(write_beside(&files[0], mode, beside[0], sizeof beside[0]));
  tenon_status_t status = write_beside(&files[1], mode, beside[1], sizeof beside[1]);
  for (int i = 0; i < 2; i++) {
    const int problem = status == TENON_OK ? give_name(beside[i], files[i].path, false) : 0;
    if (problem) status = fail_write(files[i].path, problem);
    if (status != TENON_OK) (void)unlink(beside[i]); /* the second file, or both */
  }
  return status;
}

tenon_status_t tn_file_replace(const char *path, const void *data, size_t size, uint32_t mode) {
  return write_file(path, data, size, mode, false);
}

tenon_status_t tn_file_create(const char *path, const void *data, size_t size, uint32_t mode) {
  return write_file(path, data, size, mode, true);
}

void tn_file_remove(const char *path) { (void)unlink(path); }

/* folders */

tenon_status_t tn_folder_make(char *path, size_t capacity) {
  const char *parent = tn_environment("TMPDIR");
  if (!parent || !*parent) parent = "/tmp";
  int size = snprintf(path, capacity, "%s/tenon-XXXXXX", parent);
  bool fits = size > 0 && (size_t)size < capacity;
  if (fits && mkdtemp(path)) return TENON_OK;
  const char *reason = fits ? strerror(errno) : "the path is too long";
  *path = 0;
  return tn_fail(TENON_UNAVAILABLE, "cannot create a folder in TMPDIR (%s): %s", parent, reason);
}

tenon_status_t tn_folder_create(const char *path, bool is_new) {
  char part[4096];
  size_t size = strlen(path);
  if (size >= sizeof part) return tn_fail(TENON_INVALID, "%.100s...: the path is too long", path);
  for (size_t i = 1; i < size; i++) {
    if (path[i] != '/') continue;
    memcpy(part, path, i);
    part[i] = 0;
    if (mkdir(part, 0777) != 0 && errno != EEXIST)
      return tn_fail(tn_file_status(errno), "%s: cannot create the folder: %s", part,
                     strerror(errno));
  }
  if (mkdir(path, 0777) == 0) return TENON_OK;
  if (errno == EEXIST && is_new) return tn_fail(TENON_EXISTS, "%s already exists", path);
  if (errno == EEXIST && tn_file_is_folder(path)) return TENON_OK;
  return tn_fail(tn_file_status(errno), "%s: cannot create the folder: %s", path, strerror(errno));
}

void tn_folder_remove(const char *path) {
  char file[4096];
  DIR *folder = opendir(path);
  for (const struct dirent *entry; folder && (entry = readdir(folder)) != NULL;)
    if (snprintf(file, sizeof file, "%s/%s", path, entry->d_name) < (int)sizeof file)
      (void)unlink(file);
  if (folder) closedir(folder);
  (void)rmdir(path);
}

static int is_shown(const struct dirent *entry) { return entry->d_name[0] != '.'; }

void tn_folder_list(const char *path, void (*each)(void *context, const char *file),
                    void *context) {
  struct dirent **entries = NULL;
  char file[4096];
  int count = scandir(path, &entries, is_shown, alphasort);
  for (int i = 0; i < count; i++) {
    int size = snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
    if (size > 0 && (size_t)size < sizeof file && tn_file_exists(file)) each(context, file);
    free(entries[i]);
  }
  free(entries);
}

bool tn_folder_current(char *path, size_t capacity) { return getcwd(path, capacity) != NULL; }
