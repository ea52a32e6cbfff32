/* Libraries from source: one call builds and loads them, and takes them from the cache until
 * something that they were made from changes. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include "check.h"
#include "failing.h"
#include "tensors.h"
#include "written.h"

static char cache[100], temporary[100];

/* Writes a library `name` whose operator adds BY of by.h. */
static void put_library(const char *file, const char *name) {
  char text[2000];
  snprintf(text, sizeof text,
           "#include <tenon/op.h>\n#include \"by.h\"\n"
           "static tenon_status_t run(const tenon_loop_t *loop) {\n"
           "  for (int64_t i = 0; i < loop->count; i++)\n"
           "    ((float *)loop->data[1])[i] = ((const float *)loop->data[0])[i] + BY;\n"
           "  return TENON_OK;\n}\n"
           "TENON_LIBRARY(%s, \"1.0.0\", TENON_OP(\"more(Tensor x) -> Tensor\", TENON_TYPES(\"x: "
           "f32; out = x\"),\n"
           "  TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_LOOP(\"f32 -> f32\", run)))\n",
           name);
  put(file, text);
}

static int count_files(const char *path, const char *ending) {
  int count = 0;
  DIR *list = opendir(path);
  for (const struct dirent *e; list && (e = readdir(list)) != NULL;) {
    size_t size = strlen(e->d_name);
    size_t end = strlen(ending);
    count += *e->d_name != '.' && size >= end && strcmp(e->d_name + size - end, ending) == 0;
  }
  if (list) closedir(list);
  return count;
}

typedef struct said_t {
  int commands;
  int reused;
  char words[2000];
} said_t;
static void say(void *context, uint32_t what, const char *text) {
  said_t *said = context;
  said->commands += what == TENON_BUILD_COMMAND;
  said->reused += what == TENON_BUILD_REUSED;
  if (what == TENON_BUILD_WORDS) snprintf(said->words, sizeof said->words, "%s", text);
}

/* Builds and loads a library, returns the result of its operator for 1, and unloads it; -1: it
 * cannot be built. */
static float result_of(const char *file, const char *op, const char *option, uint32_t flags,
                       said_t *said) {
  const char *source = in_folder(file);
  said_t unheard = {0};
  const tenon_build_t build = {.size = sizeof build,
                               .flags = flags,
                               .source_count = 1,
                               .option_count = option != NULL,
                               .sources = &source,
                               .options = &option,
                               .say = say,
                               .context = said ? said : &unheard};
  tenon_library_t *library = NULL;
  const tenon_op_t *found = NULL;
  tenon_tensor_t *in = NULL;
  tenon_tensor_t *out = NULL;
  float value = -1;
  if (tenon_library_load_build(&build, TENON_LOAD_UNLOADABLE, &library) != TENON_OK) return -1;
  in = tensor_of("f32[] 1");
  CHECK_STATUS(tenon_op_find(op, &found), TENON_OK);
  if (found) CHECK_STATUS(tenon_op_call(found, NULL, &in, &out, 0), TENON_OK);
  if (out) value = *(float *)out->data;
  tenon_tensor_release(in);
  tenon_tensor_release(out);
  CHECK_STATUS(tenon_library_unload(library), TENON_OK);
  return value;
}

TEST("one call builds and loads a source, and a second call gives the same library without "
     "compiling") {
  CHECK(mkdtemp(folder) != NULL);
  snprintf(cache, sizeof cache, "%s/cache", folder);
  snprintf(temporary, sizeof temporary, "%s/tmp", folder);
  setenv("TENON_CACHE", cache, 1);
  setenv("TMPDIR", temporary, 1);
  CHECK(mkdir(temporary, 0700) == 0);
  put("by.h", "#define BY 2\n");
  put_library("first.c", "first");
  tenon_library_t *library = NULL;
  tenon_library_t *again = NULL;
  CHECK_STATUS(tenon_library_load_source(in_folder("first.c"), TENON_LOAD_UNLOADABLE, &library),
               TENON_OK);
  if (library)
    CHECK(strcmp(tenon_library_name(library), "first") == 0 &&
          tenon_library_op_count(library) == 1);
  CHECK_STATUS(tenon_library_load_source(in_folder("first.c"), TENON_LOAD_UNLOADABLE, &again),
               TENON_OK);
  CHECK(again == library && count_files(cache, ".so") == 1 && count_files(cache, ".build") == 1);
  if (library) CHECK_TEXT(tenon_library_path(library), cache);
  tenon_library_release(library);
  tenon_library_release(again);
  CHECK(count_files(temporary, "") == 0);
}

TEST("a changed header, source, option, compiler or environment is compiled anew, and an unchanged "
     "one is not") {
  said_t said = {0};
  put_library("more.c", "more");
  CHECK(result_of("more.c", "more::more", NULL, 0, &said) == 3 && said.commands == 2 &&
        !said.reused);
  said = (said_t){0};
  CHECK(result_of("more.c", "more::more", NULL, 0, &said) == 3 && !said.commands &&
        said.reused == 1);
  put("by.h", "#define BY 5\n");
  said = (said_t){0};
  CHECK(result_of("more.c", "more::more", NULL, 0, &said) == 6 && said.commands == 2);
  put("by.h", "#ifndef BY\n#define BY 5\n#endif\n");
  CHECK(result_of("more.c", "more::more", NULL, 0, NULL) == 6);
  CHECK(result_of("more.c", "more::more", "-DBY=7", 0, NULL) == 8);
  said = (said_t){0};
  CHECK(result_of("more.c", "more::more", NULL, 0, &said) == 6 && !said.commands);
  CHECK(mkdir(in_folder("path"), 0700) == 0);
  setenv("CPATH", in_folder("path"), 1);
  said = (said_t){0};
  CHECK(result_of("more.c", "more::more", NULL, 0, &said) == 6 && said.commands == 2);
  unsetenv("CPATH");
  setenv("CC", "gcc -DOTHER", 1);
  said = (said_t){0};
  CHECK(result_of("more.c", "more::more", NULL, 0, &said) == 6 && said.commands == 2);
  unsetenv("CC");
  said = (said_t){0};
  CHECK(result_of("more.c", "more::more", NULL, TENON_BUILD_FRESH, &said) == 6 &&
        said.commands == 2);
  said = (said_t){0};
  CHECK(result_of("more.c", "more::more", "-march=native", 0, NULL) == 6);
  CHECK(result_of("more.c", "more::more", "-march=native", 0, &said) == 6 && said.commands == 2);
  CHECK(count_files(temporary, "") == 0);
}

static void each_file(const char *ending, void (*change)(const char *path)) {
  DIR *list = opendir(cache);
  for (const struct dirent *e; list && (e = readdir(list)) != NULL;) {
    char path[400];
    size_t size = strlen(e->d_name);
    size_t end = strlen(ending);
    snprintf(path, sizeof path, "%s/%s", cache, e->d_name);
    if (size >= end && strcmp(e->d_name + size - end, ending) == 0) change(path);
  }
  if (list) closedir(list);
}
static void flip(const char *path) {
  FILE *file = fopen(path, "r+b");
  int c;
  if (!CHECK(file != NULL)) return;
  fseek(file, -200, SEEK_END);
  c = fgetc(file);
  fseek(file, -1, SEEK_CUR);
  fputc(c ^ 4, file);
  fclose(file);
}
static void cut(const char *path) { CHECK(truncate(path, 1000) == 0); }
static void give(const char *path) { CHECK(chmod(path, 0777) == 0); }
static void take(const char *path) { CHECK(unlink(path) == 0); }

TEST("a cache entry that is damaged, missing, or could be changed by others is made anew") {
  static void (*const changes[])(const char *path) = {flip, cut, give, take};
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
    for (int entry = 0; entry < 2; entry++) {
      said_t said = {0};
      each_file(entry ? ".build" : ".so", changes[i]);
      CHECK(result_of("more.c", "more::more", NULL, 0, &said) == 6 && said.commands == 2 &&
            !said.reused);
      said = (said_t){0};
      CHECK(result_of("more.c", "more::more", NULL, 0, &said) == 6 && !said.commands &&
            said.reused);
    }
}

static void age(const char *path) {
  const struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_sec = 1000000000}};
  CHECK(utimensat(AT_FDCWD, path, times, 0) == 0);
}

static void renew(const char *path) { CHECK(utimensat(AT_FDCWD, path, NULL, 0) == 0); }
/* A sum of the inodes and times of the library files in the cache. */
static uint64_t stamps;
static void stamp(const char *path) {
  struct stat info;
  if (CHECK(stat(path, &info) == 0))
    stamps += (uint64_t)info.st_ino + (uint64_t)info.st_mtim.tv_sec;
}

TEST("a library that is in the cache is not written again, since another process may be about to "
     "open it") {
  const int files = count_files(cache, ".so");
  CHECK(files > 0);
  each_file(".so", age);
  stamps = 0;
  each_file(".so", stamp);
  const uint64_t before = stamps;
  for (int is_entry = 0; is_entry < 2;
       is_entry++) { /* First without the entry, then with the entry of another text. */
    said_t said = {0};
    if (is_entry)
      put("by.h", "#define BY 5 /* the same */\n");
    else
      each_file(".build", take);
    CHECK(result_of("more.c", "more::more", NULL, 0, &said) == 6 && said.commands == 2 &&
          !said.reused);
    stamps = 0;
    each_file(".so", stamp);
    CHECK(count_files(cache, ".so") == files && stamps == before);
  }
  each_file(".so", renew);
}

TEST("the old library of a changed source is removed, unless it was made within the last minute") {
  int files = count_files(cache, ".so");
  put("by.h", "#define BY 20\n");
  CHECK(result_of("more.c", "more::more", NULL, 0, NULL) == 21 &&
        count_files(cache, ".so") == files + 1);
  each_file(".so", age);
  put("by.h", "#define BY 5\n");
  CHECK(result_of("more.c", "more::more", NULL, 0, NULL) == 6 &&
        count_files(cache, ".so") == files);
}

TEST("a library is not kept if a file it was made from changed meanwhile") {
  char script[1000];
  snprintf(script, sizeof script, "#!/bin/sh\ngcc \"$@\" && echo '#define BY 40' > '%s'\n",
           in_folder("by.h"));
  put("late", script);
  CHECK(chmod(in_folder("late"), 0700) == 0);
  put("by.h", "#define BY 30\n");
  setenv("CC", in_folder("late"), 1);
  /* It was compiled from the earlier text. */
  CHECK(result_of("more.c", "more::more", NULL, 0, NULL) == 31);
  CHECK(result_of("more.c", "more::more", NULL, 0, NULL) == 41);
  unsetenv("CC");
  put("by.h", "#define BY 5\n");
}

TEST("a library from the cache repeats the warnings of its compilation") {
  said_t said = {0};
  put_library("warned.c", "warned");
  FILE *file = fopen(in_folder("warned.c"), "a");
  if (CHECK(file != NULL)) {
    fputs("static int nobody;\n", file);
    fclose(file);
  }
  CHECK(result_of("warned.c", "warned::more", NULL, 0, &said) == 6 && said.commands);
  CHECK_TEXT(said.words, "nobody");
  said = (said_t){0};
  CHECK(result_of("warned.c", "warned::more", NULL, 0, &said) == 6 && said.reused);
  CHECK_TEXT(said.words, "nobody");
}

TEST("without a cache the source is built each time, and nothing is left behind") {
  said_t said = {0};
  setenv("TENON_CACHE", "off", 1);
  CHECK(result_of("more.c", "more::more", NULL, 0, NULL) == 6);
  CHECK(result_of("more.c", "more::more", NULL, 0, &said) == 6 && said.commands == 2);
  CHECK(count_files(temporary, "") == 0);
  /* Nothing can be written there. */
  setenv("TENON_CACHE", "/proc/nothing", 1);
  CHECK(result_of("more.c", "more::more", NULL, 0, NULL) == 6);
  CHECK(count_files(temporary, "") == 0);
  setenv("TENON_CACHE", cache, 1);
}

TEST("several sources, or a source and an object, make one library") {
  put("part.c", "float part(void);\nfloat part(void) { return 3; }\n");
  put("by.h", "float part(void);\n#define BY part()\n");
  char command[500];
  snprintf(command, sizeof command, "cc -fPIC -c %s -o %s", in_folder("part.c"),
           in_folder("part.o"));
  CHECK(system(command) == 0);
  for (int object = 0; object < 2; object++) {
    char first[200], second[200];
    snprintf(first, sizeof first, "%s", in_folder("more.c"));
    snprintf(second, sizeof second, "%s", in_folder(object ? "part.o" : "part.c"));
    const char *const sources[] = {first, second};
    const tenon_build_t build = {.size = sizeof build, .source_count = 2, .sources = sources};
    tenon_library_t *library = NULL;
    CHECK_STATUS(tenon_library_load_build(&build, TENON_LOAD_UNLOADABLE, &library), TENON_OK);
    if (library) CHECK_STATUS(tenon_library_unload(library), TENON_OK);
    CHECK_STATUS(tenon_library_build(&build, in_folder("whole.so")), TENON_OK);
  }
}

TEST("a library that is built but cannot be loaded is reported with its source") {
  tenon_library_t *library = (tenon_library_t *)(uintptr_t)1;
  put("refused.c", "#include <tenon/op.h>\nTENON_LIBRARY(refused, \"1\", TENON_OP(\"f(Tensor x\", "
                   "TENON_DOC(\"f\")))\n");
  CHECK_STATUS(tenon_library_load_source(in_folder("refused.c"), 0, &library), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "refused.c: cannot load ");
  CHECK_TEXT(tenon_error(), "schema 'f(Tensor x'");
  CHECK(library == NULL);
}

TEST("a source that cannot be built gives one message with the compiler's output, and leaves "
     "nothing") {
  tenon_library_t *library = (tenon_library_t *)(uintptr_t)1;
  int files = count_files(cache, "");
  put("wrong.c", "int a;\nint b = missing;\n");
  CHECK_STATUS(tenon_library_load_source(in_folder("wrong.c"), 0, &library), TENON_INVALID);
  CHECK(library == NULL);
  CHECK_TEXT(tenon_error(), "wrong.c does not compile: cc failed with status 1:\n");
  CHECK_TEXT(tenon_error(), "wrong.c:2:9: error: ");
  put("open.c", "extern int missing;\nint *b = &missing;\n");
  CHECK_STATUS(tenon_library_load_source(in_folder("open.c"), 0, &library), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "does not link");
  CHECK_TEXT(tenon_error(), "missing");
  CHECK_STATUS(tenon_library_load_source(in_folder("none.c"), 0, NULL), TENON_NOT_FOUND);
  CHECK_TEXT(tenon_error(), "none.c: no such file");
  CHECK_STATUS(tenon_library_load_source(in_folder("by.h"), 0, NULL), TENON_NOT_FOUND);
  CHECK_TEXT(tenon_error(), "by.h: expected a source or object file");
  CHECK_STATUS(tenon_library_load_source(NULL, 0, &library), TENON_INVALID);
  setenv("CC", "nonesuch -O2", 1);
  CHECK_STATUS(tenon_library_load_source(in_folder("first.c"), 0, NULL), TENON_UNAVAILABLE);
  CHECK_TEXT(tenon_error(),
             "the C compiler 'nonesuch -O2' (from CC) cannot be run: install gcc or clang");
  unsetenv("CC");
  setenv("TENON_INCLUDE", folder, 1);
  CHECK_STATUS(tenon_library_load_source(in_folder("first.c"), 0, NULL), TENON_NOT_FOUND);
  CHECK_TEXT(tenon_error(), "that folder does not contain tenon/op.h");
  unsetenv("TENON_INCLUDE");
  const tenon_build_t none = {.size = sizeof none};
  const tenon_build_t odd = {.size = sizeof odd, .flags = 64};
  const tenon_build_t small = {.size = 4};
  CHECK_STATUS(tenon_library_load_build(&none, 0, NULL), TENON_INVALID);
  CHECK_STATUS(tenon_library_load_build(&odd, 0, NULL), TENON_INVALID);
  CHECK_STATUS(tenon_library_load_build(&small, 0, NULL), TENON_INVALID);
  CHECK_STATUS(tenon_library_load_build(NULL, 0, NULL), TENON_INVALID);
  CHECK(count_files(temporary, "") == 0 && count_files(cache, "") == files);
}

TEST("a library without operators is refused after the build, and a failed build leaves the file "
     "at the output") {
  const char *source = in_folder("part.c");
  const tenon_build_t build = {.size = sizeof build, .source_count = 1, .sources = &source};
  CHECK_STATUS(tenon_library_load_source(source, 0, NULL), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "does not export the function tenon_library");
  put("stays.so", "mine");
  source = in_folder("wrong.c");
  CHECK_STATUS(tenon_library_build(&build, in_folder("stays.so")), TENON_INVALID);
  FILE *file = fopen(in_folder("stays.so"), "r");
  char text[10] = "";
  if (file) CHECK(fgets(text, sizeof text, file) && strcmp(text, "mine") == 0), fclose(file);
  source = in_folder("part.c");
  CHECK_STATUS(tenon_library_build(&build, in_folder("no/where.so")), TENON_NOT_FOUND);
  CHECK_STATUS(tenon_library_build(&build, ""), TENON_INVALID);
}

TEST("processes that build one source at once all get the library") {
  enum { PROCESSES = 6 };
  pid_t ids[PROCESSES];
  put("by.h", "#define BY 11\n");
  fflush(NULL);
  for (int i = 0; i < PROCESSES; i++)
    if ((ids[i] = fork()) == 0) {
      const float value = result_of("more.c", "more::more", NULL, 0, NULL);
      if (value == 12) _exit(0);
      fprintf(stderr, "process %d: %g, %s\n", i, (double)value,
              value < 0 ? tenon_error() : "a wrong value");
      _exit(1);
    }
  for (int i = 0; i < PROCESSES; i++) {
    int state = -1;
    CHECK(waitpid(ids[i], &state, 0) == ids[i] && state == 0);
  }
  said_t said = {0};
  CHECK(result_of("more.c", "more::more", NULL, 0, &said) == 12 && said.reused);
  CHECK(count_files(temporary, "") == 0);
}

static tenon_status_t attempt(void *context) {
  tenon_library_t *library = NULL;
  tenon_status_t status =
      tenon_library_load_source(in_folder("more.c"), TENON_LOAD_UNLOADABLE, &library);
  (void)context;
  if (library) CHECK_STATUS(tenon_library_unload(library), TENON_OK);
  CHECK(count_files(temporary, "") == 0);
  return status;
}
TEST("building survives the failure of each allocation, with and without a cache") {
  fail_each("a library from the cache", attempt, NULL, 1);
  setenv("TENON_CACHE", "off", 1);
  fail_each("a library from source", attempt, NULL, 7);
  tenon_shutdown();
  char command[200];
  snprintf(command, sizeof command, "rm -r %s", folder);
  CHECK(system(command) == 0);
}
