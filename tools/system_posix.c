/* Services of the operating system on POSIX; see system.h. Nothing here prints. The location of the
 * command is read from /proc. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "system.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <ftw.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

bool system_is_terminal(bool error_stream) {
  return isatty(error_stream ? STDERR_FILENO : STDOUT_FILENO) != 0;
}

int32_t system_terminal_width(void) {
  struct winsize size;
  if (!system_is_terminal(false)) return 0;
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

double system_clock_ms(void) {
  struct timespec now = {0, 0};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

int32_t system_processors(void) {
  long count = sysconf(_SC_NPROCESSORS_ONLN);
  return count > 0 && count < 4096 ? (int32_t)count : 1;
}

void system_processor(text_t *out_name) {
  char line[512] = "";
  FILE *file = fopen("/proc/cpuinfo", "r");
  while (file && fgets(line, sizeof line, file) && strncmp(line, "model name", 10) != 0)
    continue;
  const char *colon = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
  if (colon)
    text_bytes(out_name, colon + 2, strcspn(colon + 2, "\n"));
  else
    text_add(out_name, "cpu");
  if (file) fclose(file);
}

bool system_own_folder(text_t *out_folder) {
  char path[4096];
  ssize_t size = readlink("/proc/self/exe", path, sizeof path);
  if (size <= 0 || (size_t)size >= sizeof path) return false;
  path[size] = 0;
  char *separator = strrchr(path, '/');
  if (!separator) return false;
  text_bytes(out_folder, path, (size_t)(separator - path));
  return !out_folder->failed;
}

bool system_module_path(const char *name, text_t *out_path) {
  struct link_map *map = NULL;
  void *module = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
  char *path = NULL;
  if (module && dlinfo(module, RTLD_DI_LINKMAP, &map) == 0)
    path = map->l_name[0] == '/' ? strdup(map->l_name) : realpath(map->l_name, NULL);
  if (module) dlclose(module);
  if (path) text_add(out_path, "%s", path);
  free(path);
  return path != NULL;
}

bool system_module_open(const char *path, const char *const *names, int count,
                        void (**out_functions)(void), text_t *why) {
  void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  for (int i = 0; i < count && module; i++) {
    void *address = dlsym(module, names[i]);
    if (!address) {
      text_add(why, "the library does not export %s", names[i]);
      return false;
    }
    /* ISO C has no cast between object and function pointers */
    memcpy(&out_functions[i], &address, sizeof address);
  }
  if (!module) text_add(why, "%s", dlerror());
  return module != NULL;
}

bool system_find_program(const char *name, text_t *out_path) {
  const char *folders = getenv("PATH");
  for (const char *at = folders ? folders : ""; *at; at += strspn(at, ":")) {
    size_t size = strcspn(at, ":");
    text_clear(out_path);
    text_bytes(out_path, at, size);
    text_add(out_path, "/%s", name);
    if (size && system_is_file(text_get(out_path)) && access(text_get(out_path), X_OK) == 0)
      return true;
    at += size;
  }
  return false;
}

bool system_is_file(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

bool system_is_folder(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool system_list_folder(const char *path, texts_t *out_names, text_t *why) {
  bool fine = true;
  DIR *folder = opendir(path);
  if (!folder) {
    text_add(why, "%s: %s", path, strerror(errno));
    return false;
  }
  for (const struct dirent *entry; fine && (entry = readdir(folder)) != NULL;)
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      fine = texts_add(out_names, entry->d_name);
  closedir(folder);
  if (!fine) text_add(why, "%s: out of memory", path);
  texts_sort(out_names);
  return fine;
}

bool system_temporary_file(text_t *out_path) {
  const char *folder = getenv("TMPDIR");
  text_add(out_path, "%s/tenon-XXXXXX", folder && *folder ? folder : "/tmp");
  int file = out_path->failed ? -1 : mkstemp(out_path->data);
  if (file < 0) {
    text_clear(out_path);
    return false;
  }
  close(file);
  return true;
}

bool system_make_folder(const char *path, text_t *why) {
  text_t part = {NULL, 0, 0, false};
  bool fine = true;
  for (size_t i = 1, size = strlen(path); fine && i <= size; i++) {
    if (path[i] != '/' && path[i] != 0) continue;
    text_clear(&part);
    text_bytes(&part, path, i);
    if (mkdir(text_get(&part), 0777) == 0) continue;
    const int reason = errno; /* looking at the folder changes errno */
    if (system_is_folder(text_get(&part))) continue;
    text_add(why, "cannot create the folder %s: %s", text_get(&part), strerror(reason));
    fine = false;
  }
  text_free(&part);
  return fine;
}

bool system_make_temporary(text_t *out_path, text_t *why) {
  const char *parent = getenv("TMPDIR");
  text_add(out_path, "%s/tenon-XXXXXX", parent && *parent ? parent : "/tmp");
  if (!out_path->failed && mkdtemp(out_path->data)) return true;
  text_add(why, "cannot create a folder in %s: %s", parent && *parent ? parent : "/tmp",
           strerror(errno));
  text_clear(out_path);
  return false;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place) {
  (void)info;
  (void)kind;
  (void)place;
  remove(path);
  return 0;
}

void system_remove_folder(const char *path) {
  (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
