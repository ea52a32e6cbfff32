/* `tenon build` compiles sources to an operator library and loads the result to check it. libtenon
 * does the compilation. */
#include <stdio.h>
#include <tenon/tenon.h>

#include "build.h"
#include "library.h"
#include "print_error.h"

static void print_count(const char *before, int32_t count, const char *after) {
  printf("%s%d operator%s%s", before, (int)count, count == 1 ? "" : "s", after);
}

static int32_t count_backends(void) {
  int32_t count = 0;
  while (tenon_backend_name(count))
    count++;
  return count;
}

/* Counts the backends after the first `known` ones that are devices: kernels make backends known by
 * name as well. A device of which this machine has none counts too. */
static int32_t count_devices(int32_t known) {
  int32_t count = 0;
  for (int32_t i = known; tenon_backend_name(i); i++)
    if (tenon_backend_check(tenon_backend_name(i)) == TENON_OK) count++;
  return count;
}

/* Loads the built library as a program would, and prints how many operators and devices it has. */
static int load_built_library(const char *output) {
  tenon_library_t *library = NULL;
  text_t path = {NULL, 0, 0, false};
  library_path(output, &path);
  int32_t known = count_backends();
  tenon_status_t status = library_load(text_get(&path), 0, &library);
  text_free(&path);
  if (status != TENON_OK)
    return print_failure("%s was built, but cannot be loaded: %s", output, tenon_error());
  int32_t count = tenon_library_op_count(library);
  int32_t waiting = 0;
  int32_t extended = tenon_library_extended_count(library, &waiting);
  int32_t devices = count_devices(known);
  printf("built %s: ", output);
  if (count || !(extended + waiting || devices))
    print_count("", count, extended + waiting || devices ? ", " : "");
  if (extended + waiting) print_count("kernels for ", extended + waiting, " from other libraries");
  if (waiting) printf(" (%d of them are not loaded)", (int)waiting);
  if (extended + waiting && devices) printf(", ");
  if (devices) printf("%d device%s", (int)devices, devices == 1 ? "" : "s");
  putchar('\n');
  tenon_library_release(library);
  return EXIT_FINE;
}

static int run_build_verb(const verb_t *verb, int argc, char **argv) {
  build_t build = {.output = NULL};
  bool no_check = false;
  text_t room = {NULL, 0, 0, false};
  text_t why = {NULL, 0, 0, false};
  const option_t options[] = {
      BUILD_OPTIONS(&build),
      {"no-check", 0, OPTION_FLAG, NULL, "do not load the built library to check it", &no_check},
      {NULL, 0, OPTION_FLAG, NULL, NULL, NULL}};
  command_line_t line = {verb, options, 1, -1, "SOURCE", {NULL, 0, 0}, &build.flags};
  int code = options_parse(&line, argc, argv);
  build.sources = line.operands;
  if (code == OPTIONS_PARSED) {
    build_name_output(&build, &room);
    if (!build_library(&build, &why))
      code = print_failure("%s", text_get(&why));
    else if (no_check || build_has_device_code(&build))
      code = printf("built %s\n", build.output) < 0 ? EXIT_FAILED : EXIT_FINE;
    else {
      library_supervise();
      code = load_built_library(build.output);
    }
  }
  build_free(&build);
  text_free(&room);
  text_free(&why);
  return code;
}

const verb_t verb_build = {
    "build", "[option]... SOURCE... [-- COMPILER-FLAG...]",
    "build an operator library from source files",
    "Compiles C, C++, assembly and CUDA sources (.c .cc .cpp .cxx .s .S .cu) and object files (.o "
    ".a) to an operator library that exports only tenon_library(), then loads the library to check "
    "it.\nThe compilers are CC, CXX and NVCC from the environment, else cc, c++ and nvcc. Flags "
    "after -- are passed to all of them. Unchanged sources are not compiled again: results are "
    "cached in TENON_CACHE, else in ~/.cache/tenon.",
    run_build_verb};
