/* The limits on processors, on Linux and other POSIX systems: the affinity mask, and the quotas of
 * control groups of version 1 and 2. Without the files of Linux there is no quota.
 * Invariant: a file that is missing or has another form than expected sets no limit. */
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/processors.h"

enum { PATH = 4096 };

/* A hierarchy of control groups that limits processor time, and the group of this process in it. */
typedef struct hierarchy_t {
  bool is_v2;
  char mount[PATH]; /* folder where it is mounted */
  char root[PATH];  /* the group that this folder shows: another one than "/" in some containers */
  char group[PATH];
} hierarchy_t;

/* Is `word` one of the words that commas separate? */
static bool has_word(const char *list, const char *word) {
  const size_t size = strlen(word);
  for (const char *at = list; at; at = strchr(at, ',')) {
    if (*at == ',') at++;
    if (!strncmp(at, word, size) && (at[size] == ',' || at[size] == '\0')) return true;
  }
  return false;
}

/* Finds the mount in a line of /proc/self/mountinfo: number, parent, device, root, folder,
 * options, optional fields, "-", type, source, options of the type. */
static bool read_mount(const char *line, hierarchy_t *h) {
  char type[64];
  char options[PATH];
  char root[PATH];
  char mount[PATH];
  const char *rest = strstr(line, " - ");
  if (!rest || sscanf(rest, " - %63s %*s %4095s", type, options) != 2) return false;
  if (sscanf(line, "%*s %*s %*s %4095s %4095s", root, mount) != 2) return false;
  if (h->is_v2 ? strcmp(type, "cgroup2") : strcmp(type, "cgroup") || !has_word(options, "cpu"))
    return false;
  snprintf(h->root, sizeof h->root, "%s", root);
  snprintf(h->mount, sizeof h->mount, "%s", mount);
  return true;
}

/* Finds the group in a line of /proc/self/cgroup: "0::/group" of version 2, or
 * "4:cpu,cpuacct:/group" of version 1. */
static bool read_group(const char *line, hierarchy_t *h) {
  const char *controllers = strchr(line, ':');
  const char *group = controllers ? strchr(controllers + 1, ':') : NULL;
  char words[256];
  if (!group) return false;
  snprintf(words, sizeof words, "%.*s", (int)(group - controllers - 1), controllers + 1);
  if (h->is_v2 ? words[0] != '\0' : !has_word(words, "cpu")) return false;
  snprintf(h->group, sizeof h->group, "%.*s", (int)strcspn(group + 1, "\n"), group + 1);
  return true;
}

static bool find_line(const char *path, bool (*read)(const char *, hierarchy_t *), hierarchy_t *h) {
  char line[3 * PATH];
  bool is_found = false;
  bool is_rest = false; /* of a line that is longer than the buffer */
  FILE *file = fopen(path, "re");
  while (file && !is_found && fgets(line, sizeof line, file)) {
    is_found = !is_rest && read(line, h);
    is_rest = !strchr(line, '\n');
  }
  if (file) fclose(file);
  return is_found;
}

/* Reads up to two numbers from a file. Returns how many there are; "max" is none. */
static int read_group_file(const char *folder, const char *name, double *first, double *second) {
  char path[3 * PATH];
  snprintf(path, sizeof path, "%.8000s/%s", folder, name);
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  const int count = fscanf(file, "%lf %lf", first, second);
  fclose(file);
  return count < 0 ? 0 : count;
}

/* The quota of one group in processors; 0: none. */
static double quota_of(const char *folder, bool is_v2) {
  double quota = 0;
  double period = 0;
  double unused;
  if (is_v2) {
    if (read_group_file(folder, "cpu.max", &quota, &period) != 2) return 0;
  } else if (!read_group_file(folder, "cpu.cfs_quota_us", &quota, &unused) ||
             !read_group_file(folder, "cpu.cfs_period_us", &period, &unused)) {
    return 0;
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

/* The least quota of the group and of those above it; 0: none. */
static double least_quota(const char *prefix, bool is_v2) {
  hierarchy_t h = {.is_v2 = is_v2};
  char path[2 * PATH];
  double least = 0;
  snprintf(path, sizeof path, "%s/proc/self/mountinfo", prefix);
  if (!find_line(path, read_mount, &h)) return 0;
  snprintf(path, sizeof path, "%s/proc/self/cgroup", prefix);
  if (!find_line(path, read_group, &h)) return 0;
  const size_t above = strcmp(h.root, "/") ? strlen(h.root) : 0;
  const char *group = h.group + above;
  if (strncmp(h.group, h.root, above) != 0 || (*group && *group != '/')) group = "";
  char below[PATH];
  snprintf(below, sizeof below, "%s", group);
  for (;;) {
    snprintf(path, sizeof path, "%.1000s%.3000s%.3000s", prefix, h.mount, below);
    const double quota = quota_of(path, is_v2);
    if (quota > 0 && (least == 0 || quota < least)) least = quota;
    char *last = strrchr(below, '/');
    if (!last) return least;
    *last = '\0';
  }
}

tn_processors_t tn_processors_under(const char *prefix) {
  tn_processors_t found = {1, 1, 0, 0};
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  if (online > 0) found.online = (int32_t)online;
  found.count = found.online;
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) found.mask = CPU_COUNT(&set);
  if (found.mask > 0 && found.mask < found.count) found.count = found.mask;
#endif
  const double v1 = least_quota(prefix, false);
  const double v2 = least_quota(prefix, true);
  found.quota = v1 > 0 && (v2 == 0 || v1 < v2) ? v1 : v2;
  if (found.quota > 0 && found.quota < found.count) {
    found.count = (int32_t)found.quota;
    if (found.count < found.quota) found.count++;
  }
  return found;
}

tn_processors_t tn_processors(void) { return tn_processors_under(""); }
