/* Choice of compilers and their command lines; see toolchain.h.
 * A language is one row of a table: suffixes, programs to try, flags; nvcc hands flags for the host's compiler on. */
#include "toolchain.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process.h"
#include "system.h"

enum { LANGUAGE_C, LANGUAGE_CXX, LANGUAGE_ASSEMBLY, LANGUAGE_CUDA, LANGUAGE_OBJECT, LANGUAGE_COUNT };

typedef struct language_t {
  const char *name, *suffixes; /* suffixes: separated by blanks */
  const char *variable;        /* of the environment, names the program */
  const char *programs[4];     /* else the first of these that is there */
  const char *flags[8];
  const char *advice; /* where none is there */
} language_t;

/* clang-format off */
static const language_t languages[LANGUAGE_COUNT] = {
    [LANGUAGE_C] = {"C", ".c", "CC", {"cc", "gcc", "clang"},
        {"-fPIC", "-fvisibility=hidden", "-std=c11", "-Wall", "-Werror=incompatible-pointer-types",
         "-Werror=implicit-function-declaration"},
        "install gcc or clang, or set CC"},
    [LANGUAGE_CXX] = {"C++", ".cc .cpp .cxx", "CXX", {"c++", "g++", "clang++"},
        {"-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden", "-std=c++17", "-Wall"},
        "install g++ or clang++, or set CXX"},
    [LANGUAGE_ASSEMBLY] = {"assembly", ".s .S", "CC", {"cc", "gcc", "clang"}, {"-fPIC"},
        "install gcc or clang, or set CC"},
    [LANGUAGE_CUDA] = {"CUDA", ".cu", "NVCC", {"nvcc", "/usr/local/cuda/bin/nvcc"},
        {"-std=c++17", "-Xcompiler", "-fPIC,-fvisibility=hidden,-Wall"},
        "install NVIDIA's CUDA toolkit (nvcc), or set NVCC to where it is"},
    [LANGUAGE_OBJECT] = {"object", ".o .a", NULL, {NULL}, {NULL}, ""},
};
/* clang-format on */

typedef struct work_t { /* one build under way */
  const build_t *build;
  texts_t programs[LANGUAGE_COUNT]; /* program and its own arguments; empty: not needed */
  texts_t objects;
  text_t folder, include;
  bool keep_unique_off; /* the C++ compiler knows -fno-gnu-unique */
} work_t;

static int language_of(const char *source) {
  const char *dot = strrchr(text_file_name(source), '.');
  for (int i = 0; dot && i < LANGUAGE_COUNT; i++)
    for (const char *at = languages[i].suffixes; *at; at += strcspn(at, " "), at += *at == ' ')
      if (strlen(dot) == strcspn(at, " ") && strncmp(dot, at, strlen(dot)) == 0) return i;
  return -1;
}

bool toolchain_has_device_code(const build_t *build) {
  for (int32_t i = 0; i < build->sources.count; i++)
    if (language_of(build->sources.items[i]) == LANGUAGE_CUDA) return true;
  return false;
}

/* ---- programs --------------------------------------------------------------------------------------------------- */

/* Splits "ccache gcc" into its words. */
static bool add_words(texts_t *list, const char *words) {
  text_t word = {NULL, 0, 0, false};
  bool fine = true;
  while (fine && *words) {
    size_t size = 0;
    while (isspace((unsigned char)*words)) words++;
    while (words[size] && !isspace((unsigned char)words[size])) size++;
    if (size == 0) break;
    text_clear(&word);
    text_bytes(&word, words, size);
    fine = !word.failed && texts_add(list, text_get(&word));
    words += size;
  }
  text_free(&word);
  return fine;
}

static bool find_program(work_t *work, int language, text_t *why) {
  const language_t *row = &languages[language];
  texts_t *program = &work->programs[language];
  if (program->count > 0 || language == LANGUAGE_OBJECT) return true;
  const char *chosen = getenv(row->variable);
  for (int i = 0; (!chosen || !*chosen) && row->programs[i]; i++)
    if (system_can_execute(row->programs[i])) chosen = row->programs[i];
  if (!chosen || !*chosen) return text_add(why, "no %s compiler was found: %s", row->name, row->advice), false;
  if (add_words(program, chosen) && program->count > 0 && system_can_execute(program->items[0])) return true;
  text_add(why, "the %s compiler '%s' (from %s) cannot be run: %s", row->name, chosen, row->variable, row->advice);
  return false;
}

/* Whether the C++ compiler takes -fno-gnu-unique: g++ does, and without it a library may never be unloaded. */
static bool takes_no_gnu_unique(work_t *work) {
  static const char *const words[] = {"-fno-gnu-unique", "-fsyntax-only", "-x", "c++", "/dev/null"};
  texts_t command = {NULL, 0, 0};
  text_t why = {NULL, 0, 0, false};
  int64_t id = 0;
  bool fine = true;
  for (int32_t i = 0; i < work->programs[LANGUAGE_CXX].count; i++)
    fine = fine && texts_add(&command, work->programs[LANGUAGE_CXX].items[i]);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) fine = fine && texts_add(&command, words[i]);
  fine = fine && process_start(&command, true, &id, &why) && process_wait(id, command.items[0], &why);
  texts_free(&command);
  text_free(&why);
  return fine;
}

/* The folder with tenon/op.h: beside the command where it is installed or built, else the source's. */
static bool find_include(text_t *out_folder, text_t *why) {
  text_t own = {NULL, 0, 0, false}, header = {NULL, 0, 0, false};
  bool found = false;
  if (system_own_folder(&own)) {
    text_add(&header, "%s/../include/tenon/op.h", text_get(&own));
    if ((found = system_is_file(text_get(&header)))) text_add(out_folder, "%s/../include", text_get(&own));
  }
#ifdef TENON_SOURCE_INCLUDE
  text_clear(&header);
  text_add(&header, "%s/tenon/op.h", TENON_SOURCE_INCLUDE);
  if (!found && (found = system_is_file(text_get(&header)))) text_add(out_folder, "%s", TENON_SOURCE_INCLUDE);
#endif
  if (!found)
    text_add(why, "tenon/op.h was not found in ../include of the command's folder %s: reinstall Tenon", text_get(&own));
  text_free(&own);
  text_free(&header);
  return found;
}

/* ---- command lines ---------------------------------------------------------------------------------------------- */

typedef struct command_t {
  texts_t words;
  bool failed;
} command_t;

static void add(command_t *command, const char *before, const char *word) {
  text_t text = {NULL, 0, 0, false};
  text_add(&text, "%s%s", before, word);
  if (text.failed || !texts_add(&command->words, text_get(&text))) command->failed = true;
  text_free(&text);
}

static void add_each(command_t *command, const char *before, const texts_t *words) {
  for (int32_t i = 0; i < words->count; i++) add(command, before, words->items[i]);
}

static void compose_compile(const work_t *work, int language, const char *source, const char *object,
                            command_t *command) {
  const build_t *build = work->build;
  add_each(command, "", &work->programs[language]);
  add(command, "-O", build->level);
  if (build->debug) add(command, "-g", "");
  else if (language == LANGUAGE_C || language == LANGUAGE_CXX) add(command, "-g1", ""); /* lines, for `tenon show` */
  for (int i = 0; languages[language].flags[i]; i++) add(command, "", languages[language].flags[i]);
  if (language == LANGUAGE_CXX && work->keep_unique_off) add(command, "-fno-gnu-unique", "");
  add_each(command, "-I", &build->folders);
  add(command, "-I", text_get(&work->include));
  add_each(command, "-D", &build->macros);
  add_each(command, "", &build->flags);
  add(command, "-c", "");
  add(command, "", source);
  add(command, "-o", "");
  add(command, "", object);
}

/* The linking program is that of the language that brings a run-time library of its own.  -z defs: a name that nobody
 * defines is found now and not when the library is loaded. */
static void compose_link(const work_t *work, int language, command_t *command) {
  const build_t *build = work->build;
  const char *through = language == LANGUAGE_CUDA ? "-Xlinker=" : "-Wl,";
  text_t script = {NULL, 0, 0, false};
  text_add(&script, "%s--version-script=%s/exports", through, text_get(&work->folder));
  add_each(command, "", &work->programs[language]);
  add(command, "-shared", "");
  if (build->debug) add(command, "-g", "");
  add(command, "-o", "");
  add(command, "", build->output);
  add_each(command, "", &work->objects);
  add(command, "", text_get(&script));
  add(command, through, "-z,defs");
  add(command, through, "--as-needed");
  add_each(command, "", &build->flags);
  add_each(command, "-L", &build->library_folders);
  add_each(command, "-l", &build->libraries);
  add(command, "-lm", "");
  text_free(&script);
}

/* As a shell would have to be told. */
static void print_command(const texts_t *words) {
  for (int32_t i = 0; i < words->count; i++) {
    const char *word = words->items[i];
    bool plain = *word && !word[strcspn(word, " \t\n'\"\\$`&|;<>()*?[]{}~#!")];
    if (i > 0) putchar(' ');
    if (!plain) putchar('\'');
    for (; *word; word++)
      if (*word == '\'') fputs("'\\''", stdout);
      else putchar(*word);
    if (!plain) putchar('\'');
  }
  putchar('\n');
}

static bool begin(const work_t *work, const command_t *command, int64_t *out_id, text_t *why) {
  if (command->failed) return text_add(why, "out of memory"), false;
  if (work->build->verbose) print_command(&command->words);
  return process_start(&command->words, false, out_id, why);
}

/* ---- the build -------------------------------------------------------------------------------------------------- */

static bool begin_compile(work_t *work, int32_t index, int64_t *out_id, text_t *why) {
  const char *source = work->build->sources.items[index];
  int language = language_of(source);
  text_t object = {NULL, 0, 0, false};
  command_t command = {{NULL, 0, 0}, false};
  bool fine = true;
  *out_id = 0;
  if (language == LANGUAGE_OBJECT) {
    fine = texts_add(&work->objects, source);
  } else {
    text_add(&object, "%s/%d.o", text_get(&work->folder), (int)index);
    compose_compile(work, language, source, text_get(&object), &command);
    fine = texts_add(&work->objects, text_get(&object)) && begin(work, &command, out_id, why);
  }
  text_free(&object);
  texts_free(&command.words);
  return fine;
}

static bool compile_all(work_t *work, text_t *why) {
  const texts_t *sources = &work->build->sources;
  int32_t begun = 0, ended = 0, at_once = system_processors();
  bool fine = true;
  int64_t *ids = calloc((size_t)sources->count, sizeof *ids);
  if (!ids) return text_add(why, "out of memory"), false;
  while (ended < begun || (fine && begun < sources->count)) {
    if (fine && begun < sources->count && begun - ended < at_once) {
      if (!begin_compile(work, begun, &ids[begun], why)) fine = false, ids[begun] = 0;
      begun++;
      continue;
    }
    text_t reason = {NULL, 0, 0, false};
    if (ids[ended] && !process_wait(ids[ended], "the compiler", &reason) && fine) {
      text_add(why, "%s does not compile: %s", sources->items[ended], text_get(&reason));
      fine = false;
    }
    text_free(&reason);
    ended++;
  }
  free(ids);
  return fine;
}

static bool link_all(work_t *work, text_t *why) {
  command_t command = {{NULL, 0, 0}, false};
  int language = work->programs[LANGUAGE_CUDA].count  ? LANGUAGE_CUDA
                 : work->programs[LANGUAGE_CXX].count ? LANGUAGE_CXX
                                                      : LANGUAGE_C;
  int64_t id = 0;
  bool fine = find_program(work, language, why); /* objects alone: none is chosen yet */
  if (fine) {
    compose_link(work, language, &command);
    text_t reason = {NULL, 0, 0, false};
    fine = begin(work, &command, &id, &reason) && process_wait(id, command.words.items[0], &reason);
    if (!fine) text_add(why, "%s does not link: %s", work->build->output, text_get(&reason));
    text_free(&reason);
  }
  texts_free(&command.words);
  return fine;
}

static bool write_exports(const work_t *work, text_t *why) {
  text_t path = {NULL, 0, 0, false};
  text_add(&path, "%s/exports", text_get(&work->folder));
  FILE *file = fopen(text_get(&path), "w");
  bool fine = file && fputs("{ global: tenon_library; local: *; };\n", file) >= 0;
  if (file && fclose(file) != 0) fine = false;
  if (!fine) text_add(why, "cannot write %s", text_get(&path));
  text_free(&path);
  return fine;
}

static bool check_sources(work_t *work, text_t *why) {
  const texts_t *sources = &work->build->sources;
  bool fine = true;
  for (int32_t i = 0; i < sources->count; i++) {
    int language = language_of(sources->items[i]);
    const char *gap = fine ? "" : "\n       ";
    if (language < 0) {
      text_add(why, "%s%s: expected a source or object file: .c .cc .cpp .cxx .s .S .cu .o .a", gap, sources->items[i]);
      fine = false;
    } else if (!system_is_file(sources->items[i])) {
      text_add(why, "%s%s: there is no such file", gap, sources->items[i]);
      fine = false;
    }
  }
  for (int32_t i = 0; fine && i < sources->count; i++) fine = find_program(work, language_of(sources->items[i]), why);
  return fine;
}

bool toolchain_build(const build_t *build, text_t *why) {
  work_t work = {.build = build};
  bool fine = check_sources(&work, why) && find_include(&work.include, why) && system_make_temporary(&work.folder, why);
  if (fine && work.programs[LANGUAGE_CXX].count > 0) work.keep_unique_off = takes_no_gnu_unique(&work);
  fine = fine && write_exports(&work, why) && compile_all(&work, why) && link_all(&work, why);
  if (work.folder.size > 0) system_remove_folder(text_get(&work.folder));
  for (int i = 0; i < LANGUAGE_COUNT; i++) texts_free(&work.programs[i]);
  texts_free(&work.objects);
  text_free(&work.folder);
  text_free(&work.include);
  return fine;
}
