/* Processes, descriptors and mappings of isolated libraries, which the tests look up in Linux's
 * /proc. */
#ifndef TENON_TESTS_ISOLATION_H
#define TENON_TESTS_ISOLATION_H

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MISBEHAVING(name) TEST_LIBRARIES "/misbehave/" name ".so"

/* Returns the parent of a process; 0: it is gone. *out_state is R, S, Z, ... */
static inline int parent_and_state_of(int process, char *out_state) {
  char path[64], text[512], *end;
  int parent = 0;
  snprintf(path, sizeof path, "/proc/%d/stat", process);
  FILE *file = fopen(path, "r");
  if (!file) return 0;
  if (fgets(text, sizeof text, file) && (end = strrchr(text, ')')))
    sscanf(end + 1, " %c %d", out_state, &parent);
  fclose(file);
  return parent;
}

static inline int parent_of(int process) {
  char state;
  return parent_and_state_of(process, &state);
}

/* Is the process there, and does it not wait for anything? */
static inline int is_running(int process) {
  char state = 0;
  return parent_and_state_of(process, &state) && state == 'R';
}

/* Returns the number of processes `depth` levels below this one (1: supervisors, 2: worker
 * processes); *out_last is the id of one of them. */
static inline int processes_below(int depth, int *out_last) {
  DIR *folder = opendir("/proc");
  int count = 0;
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    int process = atoi(entry->d_name);
    int above = process;
    for (int i = 0; i < depth && above; i++)
      above = parent_of(above);
    if (!process || above != getpid()) continue;
    count++;
    if (out_last) *out_last = process;
  }
  if (folder) closedir(folder);
  return count;
}

static inline int open_descriptors(void) {
  DIR *folder = opendir("/proc/self/fd");
  int count = -3; /* ".", ".." and the folder's own descriptor */
  while (folder && readdir(folder))
    count++;
  if (folder) closedir(folder);
  return count;
}

/* Does the address lie in memory that is shared with a worker process? */
static inline int is_shared(const void *address) {
  char line[512];
  unsigned long begin, end;
  int found = 0;
  FILE *file = fopen("/proc/self/maps", "r");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "%lx-%lx", &begin, &end) == 2 && (unsigned long)address >= begin &&
        (unsigned long)address < end)
      found = strstr(line, "memfd:tenon") != NULL;
  if (file) fclose(file);
  return found;
}

static inline int shared_mappings(void) {
  char line[512];
  int count = 0;
  FILE *file = fopen("/proc/self/maps", "r");
  while (file && fgets(line, sizeof line, file))
    count += strstr(line, "memfd:tenon") != NULL;
  if (file) fclose(file);
  return count;
}

#endif
