/* `tenon build`: sources to an operator library, checked by loading it.  The library does the work. */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "library.h"
#include "options.h"
#include "say.h"
#include "system.h"

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

static void say(void *context, uint32_t what, const char *text) {
  if (what == TENON_BUILD_WORDS) fputs(text, stderr);
  else if (*(const bool *)context) printf("%s%s\n", what == TENON_BUILD_REUSED ? "made before: " : "", text);
}

typedef struct asked_t { /* on the command line */
  texts_t sources, folders, macros, library_folders, libraries, flags;
  const char *output, *level;
  bool debug, verbose, fresh, no_check;
} asked_t;

static bool add(texts_t *options, const char *before, const char *word) {
  text_t text = {NULL, 0, 0, false};
  text_add(&text, "%s%s", before, word);
  bool fine = !text.failed && texts_add(options, text_get(&text));
  text_free(&text);
  return fine;
}

static bool add_each(texts_t *options, const char *before, const texts_t *words) {
  bool fine = true;
  for (int32_t i = 0; i < words->count; i++) fine = fine && add(options, before, words->items[i]);
  return fine;
}

static bool has_device_code(const texts_t *sources) { /* that cannot be tried on every machine */
  for (int32_t i = 0; i < sources->count; i++)
    if (text_ends_with(sources->items[i], ".cu")) return true;
  return false;
}

static int build(asked_t *asked) {
  texts_t options = {NULL, 0, 0};
  const bool in_colour = system_is_terminal(true) && !has_device_code(&asked->sources);
  bool fine = !asked->level || add(&options, "-O", asked->level);
  fine = fine && (!asked->debug || add(&options, "-g", ""));
  fine = fine && (!in_colour || add(&options, "-fdiagnostics-color=always", ""));
  fine = fine && add_each(&options, "-I", &asked->folders) && add_each(&options, "-D", &asked->macros);
  fine = fine && add_each(&options, "", &asked->flags) && add_each(&options, "-L", &asked->library_folders);
  fine = fine && add_each(&options, "-l", &asked->libraries);
  const tenon_build_t work = {.size = sizeof work,
                              .flags = asked->fresh ? TENON_BUILD_FRESH : 0,
                              .source_count = (uint32_t)asked->sources.count,
                              .option_count = (uint32_t)options.count,
                              .sources = (const char *const *)asked->sources.items,
                              .options = (const char *const *)options.items,
                              .say = say,
                              .context = &asked->verbose};
  int code = !fine                                                   ? say_failure("out of memory")
             : tenon_library_build(&work, asked->output) != TENON_OK ? say_failure("%s", tenon_error())
             : asked->no_check || has_device_code(&asked->sources)   ? printf("built %s\n", asked->output) < 0
                                                                     : check(asked->output);
  texts_free(&options);
  return code;
}

static int run(const verb_t *verb, int argc, char **argv) {
  asked_t asked = {.output = NULL};
  text_t default_output = {NULL, 0, 0, false};
  const option_t options[] = {
      {"output", 'o', OPTION_TEXT, "LIB", "name of the library (the first source's name with .so)", &asked.output},
      {"verbose", 'v', OPTION_FLAG, NULL, "show the commands", &asked.verbose},
      {"optimize", 'O', OPTION_TEXT, "LEVEL", "level of optimisation (3)", &asked.level},
      {"debug", 'g', OPTION_FLAG, NULL, "with information for debuggers", &asked.debug},
      {"include", 'I', OPTION_TEXTS, "DIR", "look for headers there too", &asked.folders},
      {"define", 'D', OPTION_TEXTS, "NAME[=VALUE]", "define a macro", &asked.macros},
      {"library", 'l', OPTION_TEXTS, "LIB", "link with a library", &asked.libraries},
      {"library-dir", 'L', OPTION_TEXTS, "DIR", "look for libraries there too", &asked.library_folders},
      {"fresh", 0, OPTION_FLAG, NULL, "compile, also what the cache has", &asked.fresh},
      {"no-check", 0, OPTION_FLAG, NULL, "do not load the library to see that it can be", &asked.no_check},
      {NULL, 0, OPTION_FLAG, NULL, NULL, NULL}};
  command_line_t line = {verb, options, 1, -1, "SOURCE", {NULL, 0, 0}, &asked.flags};
  int code = options_parse(&line, argc, argv);
  asked.sources = line.operands;
  if (code == OPTIONS_GO_ON) {
    if (!asked.output) {
      const char *name = text_file_name(asked.sources.items[0]), *dot = strrchr(name, '.');
      text_add(&default_output, "%.*s.so", (int)(dot ? (size_t)(dot - name) : strlen(name)), name);
      asked.output = text_get(&default_output);
    }
    code = build(&asked);
  }
  texts_t *const lists[] = {&asked.sources,         &asked.folders,   &asked.macros,
                            &asked.library_folders, &asked.libraries, &asked.flags};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) texts_free(lists[i]);
  text_free(&default_output);
  return code;
}

const verb_t verb_build = {
    "build", "[option]... SOURCE... [-- COMPILER-FLAG...]", "build an operator library from source",
    "Compiles C, C++, assembly and CUDA sources (.c .cc .cpp .cxx .s .S .cu) and objects (.o .a) to a\n"
    "library of operators that exports tenon_library() alone, then loads it to see that it is right.\n"
    "Compilers: CC, CXX and NVCC of the environment, else cc, c++ and nvcc.  Flags after -- go to each.\n"
    "What did not change since it was built is taken from the cache (TENON_CACHE, else ~/.cache/tenon).\n",
    run};
