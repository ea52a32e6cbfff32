/* `tenon build`: sources to an operator library, checked by loading it.  The library does the
 * work. */
#include <stdio.h>
#include <tenon/tenon.h>

#include "build.h"
#include "library.h"
#include "print_error.h"

static void print_count(const char *before, int32_t count, const char *after) {
  printf("%s%d operator%s%s", before, (int)count, count == 1 ? "" : "s", after);
}

/* Loads what was built, as a program would, and says what is in it. */
static int load_built_library(const char *output) {
  tenon_library_t *library = NULL;
  text_t path = {NULL, 0, 0, false};
  library_path(output, &path);
  tenon_status_t status = tenon_library_load(text_get(&path), 0, &library);
  text_free(&path);
  if (status != TENON_OK)
    return print_failure("%s was built but cannot be loaded: %s", output, tenon_error());
  int32_t count = tenon_library_op_count(library);
  int32_t waiting = 0;
  int32_t extended = tenon_library_extended_count(library, &waiting);
  printf("built %s: ", output);
  if (count || !(extended + waiting)) print_count("", count, extended + waiting ? ", " : "");
  if (extended + waiting) print_count("kernels for ", extended + waiting, " of other libraries");
  if (waiting) printf(" (%d not loaded now)", (int)waiting);
  putchar('\n');
  tenon_library_release(library);
  return EXIT_FINE;
}

static int run_build_verb(const verb_t *verb, int argc, char **argv) {
  build_t build = {.output = NULL};
  bool no_check = false;
  text_t room = {NULL, 0, 0, false};
  text_t why = {NULL, 0, 0, false};
  const option_t options[] = {BUILD_OPTIONS(&build),
                              {"no-check", 0, OPTION_FLAG, NULL,
                               "do not load the library to see that it can be", &no_check},
                              {NULL, 0, OPTION_FLAG, NULL, NULL, NULL}};
  command_line_t line = {verb, options, 1, -1, "SOURCE", {NULL, 0, 0}, &build.flags};
  int code = options_parse(&line, argc, argv);
  build.sources = line.operands;
  if (code == OPTIONS_PARSED) {
    build_name_output(&build, &room);
    code = !build_library(&build, &why)                ? print_failure("%s", text_get(&why))
           : no_check || build_has_device_code(&build) ? printf("built %s\n", build.output) < 0
                                                       : load_built_library(build.output);
  }
  build_free(&build);
  text_free(&room);
  text_free(&why);
  return code;
}

const verb_t verb_build = {"build", "[option]... SOURCE... [-- COMPILER-FLAG...]",
                           "build an operator library from source",
                           "Compiles C, C++, assembly and CUDA sources (.c .cc .cpp .cxx .s .S "
                           ".cu) and objects (.o .a) to a\n"
                           "library of operators that exports tenon_library() alone, then loads it "
                           "to see that it is right.\n"
                           "Compilers: CC, CXX and NVCC of the environment, else cc, c++ and nvcc. "
                           " Flags after -- go to each.\n"
                           "What did not change since it was built is taken from the cache "
                           "(TENON_CACHE, else ~/.cache/tenon).\n",
                           run_build_verb};
