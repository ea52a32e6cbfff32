/* The Landlock rules of a worker process. With folders, the process may open files only in the
 * folders that the program named and in those of libraries. Without folders, it may open what the
 * user may, except files through which other processes can be reached: /proc of other processes,
 * devices, shared memory and the kernel's debugging files. */
#include "isolation/landlock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include "base/environment.h"

/* Later versions of Landlock than the one of the oldest kernel headers. */
#define ACCESS_REFER ((uint64_t)1 << 13)    /* version 2 */
#define ACCESS_TRUNCATE ((uint64_t)1 << 14) /* version 3 */
#define SCOPE_ABSTRACT ((uint64_t)1 << 0)   /* version 6: abstract Unix sockets */
#define SCOPE_SIGNAL ((uint64_t)1 << 1)

enum {
  READS = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
  WRITES = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
           LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
           LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
           LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
           LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM,
  OF_FILES = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE |
             LANDLOCK_ACCESS_FS_WRITE_FILE | (int)ACCESS_TRUNCATE,
};

/* As in the kernel's headers of version 6. */
typedef struct ruleset_attributes_t {
  uint64_t handled_access_fs;
  uint64_t handled_access_net;
  uint64_t scoped;
} ruleset_attributes_t;

typedef struct rules_t {
  int ruleset;
  uint64_t reads;
  uint64_t writes;
} rules_t;

int tn_landlock_version(void) {
  const char *text = tn_environment("TENON_ISOLATION_LANDLOCK");
  if (text && !strcmp(text, "off")) return 0;
  const long version =
      syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return version > 0 ? (int)version : 0;
}

static int create_ruleset(int version, uint32_t allow, rules_t *out) {
  const bool may_connect = allow & TENON_ALLOW_NETWORK;
  ruleset_attributes_t all = {.handled_access_fs = READS | WRITES};
  if (version >= 2) all.handled_access_fs |= ACCESS_REFER;
  if (version >= 3) all.handled_access_fs |= ACCESS_TRUNCATE;
  if (version >= 6) all.scoped = may_connect ? SCOPE_SIGNAL : SCOPE_SIGNAL | SCOPE_ABSTRACT;
  const size_t size = version >= 6 ? sizeof all : sizeof all.handled_access_fs;
  *out = (rules_t){.reads = READS, .writes = all.handled_access_fs};
  out->ruleset = (int)syscall(SYS_landlock_create_ruleset, &all, size, 0);
  return out->ruleset;
}

static bool is_missing(void) { return errno == ENOENT || errno == EACCES || errno == ELOOP; }

/* A path that does not exist cannot be opened either, so it needs no rule. `flags` may have
 * O_NOFOLLOW, which passes over symbolic links: their targets have rules of their own. */
static bool add_path(const rules_t *rules, const char *path, uint64_t access, int flags) {
  struct stat about;
  const int folder = open(path, O_PATH | O_CLOEXEC | flags);
  if (folder < 0) return is_missing();
  bool good = fstat(folder, &about) == 0;
  if (good && !S_ISLNK(about.st_mode)) {
    if (!S_ISDIR(about.st_mode)) access &= OF_FILES;
    const struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = folder};
    good =
        syscall(SYS_landlock_add_rule, rules->ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
  }
  close(folder);
  return good;
}

static bool add_paths(const rules_t *rules, const char *const *paths, uint64_t access) {
  bool good = true;
  for (size_t i = 0; paths[i] && good; i++)
    good = add_path(rules, paths[i], access, 0);
  return good;
}

/* What libraries and language runtimes read about the machine and about their own process. */
static const char *const machine[] = {"/proc/self",
                                      "/proc/cpuinfo",
                                      "/proc/meminfo",
                                      "/proc/stat",
                                      "/proc/filesystems",
                                      "/proc/sys/vm",
                                      "/proc/sys/kernel/osrelease",
                                      "/proc/sys/kernel/pid_max",
                                      "/proc/sys/kernel/threads-max",
                                      "/sys/devices",
                                      "/sys/class",
                                      "/sys/bus",
                                      "/sys/fs/cgroup",
                                      "/sys/kernel/mm",
                                      "/dev/null",
                                      "/dev/urandom",
                                      "/dev/random",
                                      NULL};

static bool add_named_folders(const rules_t *rules, const tn_control_t *control) {
  static const char *const libraries[] = {
      "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache", NULL};
  char own[sizeof control->path];
  memcpy(own, control->path, sizeof own);
  *strrchr(own, '/') = 0;
  bool good = add_paths(rules, libraries, READS) && add_path(rules, *own ? own : "/", READS, 0);
  for (const char *at = control->readable; *at && good; at += strlen(at) + 1)
    good = add_path(rules, at, READS, 0);
  for (const char *at = control->writable; *at && good; at += strlen(at) + 1)
    good = add_path(rules, at, READS | rules->writes, 0);
  return good;
}

/* Paths that no rule may cover: /proc, /sys, /dev, and where else such file systems are mounted. */
typedef struct withheld_t {
  char *text; /* paths, each ended by a NUL; one more NUL ends the list */
  size_t size;
} withheld_t;

static bool withhold(withheld_t *list, const char *path) {
  const size_t size = strlen(path) + 1;
  char *more = realloc(list->text, list->size + size + 1);
  if (!more) return false;
  memcpy(more + list->size, path, size);
  list->text = more;
  list->size += size;
  more[list->size] = 0;
  return true;
}

/* Replaces "\040" and the like, by which the kernel writes blanks in paths. */
static void decode_path(char *path) {
  char *to = path;
  for (const char *from = path; *from; to++) {
    unsigned code;
    if (*from == '\\' && sscanf(from + 1, "%3o", &code) == 1) {
      *to = (char)code;
      from += 4;
    } else {
      *to = *from++;
    }
  }
  *to = 0;
}

static bool withhold_mounts(withheld_t *list) {
  static const char *const kinds[] = {"proc",    "sysfs",   "devtmpfs", "devpts",
                                      "debugfs", "tracefs", "mqueue",   "securityfs"};
  char *line = NULL;
  size_t capacity = 0;
  bool good = withhold(list, "/proc") && withhold(list, "/sys") && withhold(list, "/dev");
  FILE *file = fopen("/proc/self/mountinfo", "re");
  while (file && good && getline(&line, &capacity, file) > 0) {
    char path[4096], kind[64];
    const char *tail = strstr(line, " - ");
    if (sscanf(line, "%*s %*s %*s %*s %4095s", path) != 1 || !tail ||
        sscanf(tail, " - %63s", kind) != 1)
      continue;
    decode_path(path);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
      if (!strcmp(kind, kinds[i])) good = good && withhold(list, path);
  }
  free(line);
  if (file) fclose(file);
  return good;
}

typedef enum cover_t {
  COVER_ALL,  /* the path and everything below */
  COVER_SOME, /* something below is withheld */
  COVER_NONE, /* the path itself is withheld */
} cover_t;

static cover_t cover_of(const withheld_t *list, const char *path) {
  const size_t size = strlen(path);
  cover_t found = COVER_ALL;
  for (const char *at = list->text; *at; at += strlen(at) + 1) {
    if (!strcmp(at, path)) return COVER_NONE;
    if (!strncmp(at, path, size) && (at[size] == '/' || !strcmp(path, "/"))) found = COVER_SOME;
  }
  return found;
}

/* Adds rules for the folder's entries, except for what is withheld. */
static bool add_entries(const rules_t *rules, const withheld_t *list, const char *path,
                        uint64_t access) {
  char below[4096];
  DIR *folder = opendir(path);
  bool good = true;
  if (!folder) return is_missing();
  for (struct dirent *entry; good && (entry = readdir(folder));) {
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    const int size =
        snprintf(below, sizeof below, "%s/%s", strcmp(path, "/") ? path : "", entry->d_name);
    if (size < 0 || (size_t)size >= sizeof below) continue;
    switch (cover_of(list, below)) {
    case COVER_ALL:
      good = add_path(rules, below, access, O_NOFOLLOW);
      break;
    case COVER_SOME:
      good = add_entries(rules, list, below, access);
      break;
    case COVER_NONE:
      break;
    }
  }
  closedir(folder);
  return good;
}

static bool add_everything(const rules_t *rules, uint32_t allow) {
  withheld_t list = {NULL, 0};
  const bool may_write = allow & TENON_ALLOW_WRITE;
  const bool good = withhold_mounts(&list) &&
                    add_entries(rules, &list, "/", may_write ? READS | rules->writes : READS);
  free(list.text);
  return good;
}

bool tn_landlock_restrict(const tn_control_t *control) {
  rules_t rules;
  const int version = tn_landlock_version();
  if (!version && !control->has_folders) return true;
  if (create_ruleset(version, control->allow, &rules) < 0) return false;
  bool good = add_paths(&rules, machine, READS);
  if (good && control->has_folders)
    good = add_named_folders(&rules, control);
  else if (good)
    good = add_everything(&rules, control->allow);
  good = good && syscall(SYS_landlock_restrict_self, rules.ruleset, 0) == 0;
  close(rules.ruleset);
  return good;
}
