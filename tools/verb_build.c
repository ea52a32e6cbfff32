/* `tenon build`: sources to an operator library, checked by loading it.  The commands are composed in toolchain.c. */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "library.h"
#include "options.h"
#include "say.h"
#include "toolchain.h"

static void print_count(const char *before, int32_t count, const char *after) {
  printf("%s%d operator%s%s", before, (int)count, count == 1 ? "" : "s", after);
}

/* Loads what was built, as a program would, and says what is in it. */
static int check(const char *output) {
  tenon_library_t *library = NULL;
  text_t path = {NULL, 0, 0, false};
  library_path(output, &path);
  tenon_status_t status = tenon_library_load(text_get(&path), 0, &library);
  text_free(&path);
  if (status != TENON_OK) return say_failure("%s was built but cannot be loaded: %s", output, tenon_error());
  int32_t count = tenon_library_op_count(library), waiting = 0;
  int32_t extended = tenon_library_extended_count(library, &waiting);
  printf("built %s: ", output);
  if (count || !(extended + waiting)) print_count("", count, extended + waiting ? ", " : "");
  if (extended + waiting) print_count("kernels for ", extended + waiting, " of other libraries");
  if (waiting) printf(" (%d not loaded now)", (int)waiting);
  putchar('\n');
  tenon_library_release(library);
  return EXIT_FINE;
}

static int run(const verb_t *verb, int argc, char **argv) {
  build_t build = {.level = "3"};
  bool no_check = false;
  text_t default_output = {NULL, 0, 0, false}, why = {NULL, 0, 0, false};
  const option_t options[] = {
      {"output", 'o', OPTION_TEXT, "LIB", "name of the library (the first source's name with .so)", &build.output},
      {"verbose", 'v', OPTION_FLAG, NULL, "show the commands", &build.verbose},
      {"optimize", 'O', OPTION_TEXT, "LEVEL", "level of optimisation (3)", &build.level},
      {"debug", 'g', OPTION_FLAG, NULL, "with information for debuggers", &build.debug},
      {"include", 'I', OPTION_TEXTS, "DIR", "look for headers there too", &build.folders},
      {"define", 'D', OPTION_TEXTS, "NAME[=VALUE]", "define a macro", &build.macros},
      {"library", 'l', OPTION_TEXTS, "LIB", "link with a library", &build.libraries},
      {"library-dir", 'L', OPTION_TEXTS, "DIR", "look for libraries there too", &build.library_folders},
      {"no-check", 0, OPTION_FLAG, NULL, "do not load the library to see that it can be", &no_check},
      {NULL, 0, OPTION_FLAG, NULL, NULL, NULL}};
  command_line_t line = {verb, options, 1, -1, "SOURCE", {NULL, 0, 0}, &build.flags};
  int code = options_parse(&line, argc, argv);
  build.sources = line.operands;
  if (code == OPTIONS_GO_ON) {
    if (!build.output) {
      const char *name = text_file_name(build.sources.items[0]), *dot = strrchr(name, '.');
      text_add(&default_output, "%.*s.so", (int)(dot ? (size_t)(dot - name) : strlen(name)), name);
      build.output = text_get(&default_output);
    }
    if (!toolchain_build(&build, &why)) {
      code = say_failure("%s", text_get(&why));
    } else if (no_check || toolchain_has_device_code(&build)) {
      printf("built %s\n", build.output);
      code = EXIT_FINE;
    } else {
      code = check(build.output);
    }
  }
  texts_t *const lists[] = {&build.sources,         &build.folders,   &build.macros,
                            &build.library_folders, &build.libraries, &build.flags};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) texts_free(lists[i]);
  text_free(&default_output);
  text_free(&why);
  return code;
}

const verb_t verb_build = {
    "build", "[option]... SOURCE... [-- COMPILER-FLAG...]", "build an operator library from source",
    "Compiles C, C++, assembly and CUDA sources (.c .cc .cpp .cxx .s .S .cu) and objects (.o .a) to a\n"
    "library of operators that exports tenon_library() alone, then loads it to see that it is right.\n"
    "Compilers: CC, CXX and NVCC of the environment, else cc, c++ and nvcc.  Flags after -- go to each.\n",
    run};
