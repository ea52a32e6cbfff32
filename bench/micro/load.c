/* load.c: how long a library takes to load in a fresh process, beside the system's own dlopen of
 * the same file. bench/load.py runs it. The program opens libtenon itself, so that the cost of
 * opening it shows too.
 *
 *   load tenon LIBTENON LIBRARY
 *       nanoseconds of opening libtenon, of tenon_start and of tenon_library_load, then the number
 *       of operators
 *
 *   load dlopen - LIBRARY
 *       nanoseconds of dlopen and a call of the entry */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>
#include <time.h>

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int fail(const char *what, const char *why) {
  fprintf(stderr, "load: %s: %s\n", what, why);
  return 1;
}

static void *open_file(const char *path) {
  void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!file) fail(path, dlerror());
  return file;
}

/* Finds a function of an opened file; `out_function` is a pointer to a pointer to a function. */
static int look_up(void *file, const char *name, void *out_function) {
  void *found = dlsym(file, name);
  memcpy(out_function, &found, sizeof found);
  return found ? 0 : fail(name, dlerror());
}

static int time_dlopen(const char *path) {
  const tenon_descriptor_t *(*entry)(void);
  double begin = now_ns();
  void *file = open_file(path);
  if (!file || look_up(file, "tenon_library", &entry)) return 1;
  const char *name = entry()->name;
  return printf("dlopen %.0f %s\n", now_ns() - begin, name) < 0;
}

static int time_tenon(const char *runtime, const char *path) {
  tenon_status_t (*start)(void), (*load)(const char *, uint32_t, tenon_library_t **);
  int32_t (*count)(const tenon_library_t *);
  const char *(*error)(void);
  tenon_library_t *library = NULL;
  double begin = now_ns();
  void *file = open_file(runtime);
  double opened = now_ns();
  if (!file || look_up(file, "tenon_start", &start) || look_up(file, "tenon_library_load", &load) ||
      look_up(file, "tenon_library_op_count", &count) || look_up(file, "tenon_error", &error))
    return 1;
  double before = now_ns();
  if (start() != TENON_OK) return fail("tenon_start", error());
  double started = now_ns();
  if (load(path, 0, &library) != TENON_OK) return fail(path, error());
  double loaded = now_ns();
  return printf("tenon %.0f %.0f %.0f %d\n", opened - begin, started - before, loaded - started,
                (int)count(library)) < 0;
}

int main(int argc, char **argv) {
  if (argc == 4 && strcmp(argv[1], "tenon") == 0) return time_tenon(argv[2], argv[3]);
  if (argc == 4 && strcmp(argv[1], "dlopen") == 0) return time_dlopen(argv[3]);
  fprintf(stderr, "usage: load tenon LIBTENON LIBRARY, load dlopen - LIBRARY\n");
  return 2;
}
