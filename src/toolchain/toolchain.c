/* Choice of compilers and their command lines; see toolchain.h. Each language is one row of a
 * table: suffixes, programs to try, flags. nvcc passes flags on to the host's compiler. */
#include "toolchain/toolchain.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/processors.h"
#include "base/status.h"
#include "base/thread.h"

typedef struct language_t {
  const char *name;
  const char *suffixes;    /* separated by blanks */
  const char *variable;    /* environment variable that names the program */
  const char *programs[4]; /* otherwise the first of these that exists */
  const char *flags[8];
  const char *advice; /* what to do if no program exists */
} language_t;

/* One row per language reads best as a table. */
/* clang-format off */
static const language_t languages[TN_LANGUAGES] = {
    [TN_LANGUAGE_C] = {"C", ".c", "CC", {"cc", "gcc", "clang"},
        {"-g1", /* line numbers, for `tenon show` */
         "-fPIC", "-fvisibility=hidden", "-std=gnu11", "-Wall",
         "-Werror=incompatible-pointer-types", "-Werror=implicit-function-declaration"},
        "install gcc or clang, or set CC"},
    [TN_LANGUAGE_CXX] = {"C++", ".cc .cpp .cxx", "CXX", {"c++", "g++", "clang++"},
        {"-g1", "-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden", "-std=c++17",
         "-Wall"},
        "install g++ or clang++, or set CXX"},
    [TN_LANGUAGE_ASSEMBLY] = {"assembly", ".s .S", "CC", {"cc", "gcc", "clang"}, {"-fPIC"},
        "install gcc or clang, or set CC"},
    [TN_LANGUAGE_CUDA] = {"CUDA", ".cu", "NVCC", {"nvcc", "/usr/local/cuda/bin/nvcc"},
        {"-std=c++17", "-Xcompiler", "-fPIC,-fvisibility=hidden,-Wall"},
        "install NVIDIA's CUDA toolkit (nvcc), or set NVCC to where it is"},
    [TN_LANGUAGE_OBJECT] = {"object", ".o .a", NULL, {NULL}, {NULL}, ""},
};
/* clang-format on */

/* Other environment variables that compilers read. */
static const char *const variables[] = {"CPATH",
                                        "C_INCLUDE_PATH",
                                        "CPLUS_INCLUDE_PATH",
                                        "LIBRARY_PATH",
                                        "COMPILER_PATH",
                                        "GCC_EXEC_PREFIX",
                                        "LD_LIBRARY_PATH",
                                        "NVCC_PREPEND_FLAGS",
                                        "NVCC_APPEND_FLAGS",
                                        "SOURCE_DATE_EPOCH",
                                        NULL};

/* Whether `suffix` is one of the suffixes, which are separated by blanks. */
static bool has_suffix(const char *suffixes, const char *suffix) {
  const size_t size = strlen(suffix);
  for (const char *at = suffixes; *at;) {
    const size_t part = strcspn(at, " ");
    if (part == size && strncmp(suffix, at, size) == 0) return true;
    at += part;
    if (*at == ' ') at++;
  }
  return false;
}

int tn_language_of(const char *source) {
  const char *slash = strrchr(source, '/');
  const char *dot = strrchr(slash ? slash : source, '.');
  for (int i = 0; dot && i < TN_LANGUAGES; i++)
    if (has_suffix(languages[i].suffixes, dot)) return i;
  return -1;
}

static uint32_t source_count(const tn_toolchain_t *t) {
  return t->text ? 1 : t->build->source_count;
}
static const char *source_at(const tn_toolchain_t *t, uint32_t index) {
  return t->text ? "source.c" : t->build->sources[index];
}

/* opening a toolchain */

/* Splits "ccache gcc" into its words. */
static void add_split(tn_words_t *list, const char *words) {
  for (;;) {
    size_t size = 0;
    while (isspace((unsigned char)*words))
      words++;
    while (words[size] && !isspace((unsigned char)words[size]))
      size++;
    if (size == 0) return;
    tn_words_add(list, "%.*s", (int)size, words);
    words += size;
  }
}

static tenon_status_t find_compiler(tn_toolchain_t *t, int language) {
  const language_t *row = &languages[language];
  tn_words_t *program = &t->programs[language];
  char path[4096];
  if (program->count > 0 || language == TN_LANGUAGE_OBJECT) return TENON_OK;
  const char *chosen = tn_environment(row->variable);
  for (int i = 0; (!chosen || !*chosen) && row->programs[i]; i++)
    if (tn_process_find(row->programs[i], path, sizeof path)) chosen = row->programs[i];
  if (!chosen || !*chosen)
    return tn_fail(TENON_UNAVAILABLE, "no %s compiler was found: %s", row->name, row->advice);
  add_split(program, chosen);
  if (program->text.failed) return tn_no_memory("a command", strlen(chosen));
  if (program->count > 0 && tn_process_find(tn_text_get(&program->text), path, sizeof path))
    return TENON_OK;
  return tn_fail(TENON_UNAVAILABLE, "the %s compiler '%s' (from %s) cannot be run: %s", row->name,
                 chosen, row->variable, row->advice);
}

/* Finds the folder that contains tenon/op.h: TENON_INCLUDE, else next to the installed libtenon,
 * else in the source tree. */
static tenon_status_t find_include(tn_toolchain_t *t) {
  static const char *const near[] = {"/../include", "/../../include"};
  const char *own = tn_environment("TENON_INCLUDE");
  const char *slash;
  char binary[4000] = "";
  char header[4200];
  const bool is_stated = own && *own;
  for (size_t i = 0; i < 2 + sizeof near / sizeof *near; i++) {
    const char *folder = NULL;
    if (i == 0)
      folder = is_stated ? own : NULL;
    else if (i <= sizeof near / sizeof *near) {
      char path[4000];
      if (!tn_file_of_address((const void *)&languages, path, sizeof path) ||
          tn_file_real_path(path, binary, sizeof binary) != TENON_OK ||
          !(slash = strrchr(binary, '/')))
        continue;
      snprintf(header, sizeof header, "%.*s%s", (int)(slash - binary), binary, near[i - 1]);
      folder = header;
    } else {
#ifdef TENON_SOURCE_INCLUDE
      folder = TENON_SOURCE_INCLUDE;
#endif
    }
    if (!folder || snprintf(t->include, sizeof t->include, "%s", folder) >= (int)sizeof t->include)
      continue;
    snprintf(header, sizeof header, "%s/tenon/op.h", t->include);
    if (tn_file_exists(header)) return TENON_OK;
    if (is_stated)
      return tn_fail(TENON_NOT_FOUND,
                     "TENON_INCLUDE=%s: that folder does not contain tenon/op.h: set TENON_INCLUDE "
                     "to the folder of Tenon's headers",
                     own);
  }
  return tn_fail(TENON_NOT_FOUND,
                 "tenon/op.h was not found in ../include of %s: set TENON_INCLUDE to the folder of "
                 "Tenon's headers",
                 *binary ? binary : "the program");
}

static tenon_status_t check_sources(const tn_toolchain_t *t) {
  tn_text_t wrong = {0};
  tenon_status_t status = TENON_OK;
  for (uint32_t i = 0; i < source_count(t) && !t->text; i++) {
    const char *source = source_at(t, i);
    const char *gap = wrong.size ? "\n       " : "";
    if (tn_language_of(source) < 0)
      tn_text_add(&wrong,
                  "%s%s: expected a source or object file: .c .cc .cpp .cxx .s .S .cu .o .a", gap,
                  source);
    else if (!tn_file_exists(source))
      tn_text_add(&wrong, "%s%s: no such file", gap, source);
  }
  if (!source_count(t))
    status = tn_fail(TENON_INVALID, "no source files were given: a library needs at least one");
  else if (wrong.size)
    status = tn_fail(TENON_NOT_FOUND, "%s", tn_text_get(&wrong));
  tn_text_clear(&wrong);
  return status;
}

tenon_status_t tn_toolchain_open(tn_toolchain_t *t) {
  TN_TRY(check_sources(t));
  for (uint32_t i = 0; i < source_count(t); i++)
    TN_TRY(find_compiler(t, tn_language_of(source_at(t, i))));
  bool only_objects = true;
  for (int i = 0; i < TN_LANGUAGES; i++)
    only_objects = only_objects && !t->programs[i].count;
  if (only_objects) TN_TRY(find_compiler(t, TN_LANGUAGE_C)); /* the C compiler links */
  return find_include(t);
}

void tn_toolchain_close(tn_toolchain_t *t) {
  for (int i = 0; i < TN_LANGUAGES; i++)
    tn_words_clear(&t->programs[i]);
}

/* command lines */

static bool starts_with(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

static void add_all(tn_words_t *to, const tn_words_t *words) {
  TN_EACH_WORD(word, words) tn_words_add(to, "%s", word);
}

static void compose_compile(const tn_toolchain_t *t, const char *folder, uint32_t index,
                            tn_words_t *out) {
  const tenon_build_t *build = t->build;
  const int language = tn_language_of(source_at(t, index));
  bool has_level = false;
  for (uint32_t i = 0; i < build->option_count; i++)
    has_level = has_level || starts_with(build->options[i], "-O");
  add_all(out, &t->programs[language]);
  if (!has_level) tn_words_add(out, "-O3");
  for (int i = 0; languages[language].flags[i]; i++)
    tn_words_add(out, "%s", languages[language].flags[i]);
  if (language == TN_LANGUAGE_CXX && t->is_no_unique_known) tn_words_add(out, "-fno-gnu-unique");
  for (uint32_t i = 0; i < build->option_count; i++)
    if (!starts_with(build->options[i], "-l") && !starts_with(build->options[i], "-L"))
      tn_words_add(out, "%s", build->options[i]);
  tn_words_add(out, "-I%s", t->include);
  tn_words_add(out, "-MD");
  tn_words_add(out, "-MF");
  tn_words_add(out, "%s/%u.d", folder, index);
  tn_words_add(out, "-c");
  if (t->text)
    tn_words_add(out, "%s/%s", folder, source_at(t, index));
  else
    tn_words_add(out, "%s", source_at(t, index));
  tn_words_add(out, "-o");
  tn_words_add(out, "%s/%u.o", folder, index);
}

/* The language whose compiler links: the one that brings its own run-time library. */
static int linking_language(const tn_toolchain_t *t) {
  static const int order[] = {TN_LANGUAGE_CUDA, TN_LANGUAGE_CXX, TN_LANGUAGE_C};
  for (size_t i = 0; i < sizeof order / sizeof *order; i++)
    if (t->programs[order[i]].count) return order[i];
  return TN_LANGUAGE_ASSEMBLY;
}

/* -z defs reports an undefined symbol now rather than when the library is loaded. -t makes the
 * linker print the files that it reads. */
static void compose_link(const tn_toolchain_t *t, const char *folder, tn_words_t *out) {
  const tenon_build_t *build = t->build;
  const int language = linking_language(t);
  const char *through = language == TN_LANGUAGE_CUDA ? "-Xlinker=" : "-Wl,";
  add_all(out, &t->programs[language]);
  tn_words_add(out, "-shared");
  tn_words_add(out, "-o");
  tn_words_add(out, "%s/library.so", folder);
  for (uint32_t i = 0; i < source_count(t); i++)
    if (tn_language_of(source_at(t, i)) == TN_LANGUAGE_OBJECT)
      tn_words_add(out, "%s", source_at(t, i));
    else
      tn_words_add(out, "%s/%u.o", folder, i);
  tn_words_add(out, "%s--version-script=%s/exports", through, folder);
  tn_words_add(out, "%s-z,defs", through);
  tn_words_add(out, "%s--as-needed", through);
  tn_words_add(out, "%s-t", through);
  for (uint32_t i = 0; i < build->option_count; i++)
    if (!starts_with(build->options[i], "-I") && !starts_with(build->options[i], "-D"))
      tn_words_add(out, "%s", build->options[i]);
  tn_words_add(out, "-lm");
}

/* Appends a command in the form in which a shell accepts it. */
static void add_command(tn_text_t *text, const tn_words_t *words) {
  const char *gap = "";
  TN_EACH_WORD(word, words) {
    bool plain = *word && !word[strcspn(word, " \t\n'\"\\$`&|;<>()*?[]{}~#!")];
    tn_text_add(text, "%s%s", gap, plain ? "" : "'");
    for (const char *c = word; *c; c++)
      tn_text_add(text, *c == '\'' ? "'\\''" : "%c", *c);
    tn_text_add(text, "%s", plain ? "" : "'");
    gap = " ";
  }
  if (words->text.failed) text->failed = true;
}

void tn_toolchain_describe(const tn_toolchain_t *t, tn_text_t *text) {
  bool is_placed = t->build->option_count > 0;
  char path[4096];
  for (uint32_t i = 0; i <= source_count(t); i++) {
    tn_words_t command = {0};
    if (i < source_count(t)) is_placed = is_placed || (!t->text && *source_at(t, i) != '/');
    if (i == source_count(t))
      compose_link(t, "", &command);
    else if (tn_language_of(source_at(t, i)) != TN_LANGUAGE_OBJECT)
      compose_compile(t, "", i, &command);
    add_command(text, &command);
    tn_text_add(text, "\n");
    tn_words_clear(&command);
  }
  for (int i = 0; i < TN_LANGUAGES; i++)
    TN_EACH_WORD(word, &t->programs[i]) {
      uint64_t size;
      int64_t changed;
      if (tn_process_find(word, path, sizeof path) && tn_file_stamp(path, &size, &changed))
        tn_text_add(text, "%s %llu %lld\n", path, (unsigned long long)size, (long long)changed);
    }
  for (int i = 0; variables[i]; i++)
    if (tn_environment(variables[i]))
      tn_text_add(text, "%s=%s\n", variables[i], tn_environment(variables[i]));
  /* relative paths depend on the working directory */
  if (is_placed && tn_folder_current(path, sizeof path)) tn_text_add(text, "in %s\n", path);
  tn_text_add(text, "%s\n", t->entry);
  if (t->text) tn_text_bytes(text, t->text->data, t->text->size);
}

/* running compilers */

static tenon_status_t read_whole(const char *path, tn_text_t *text) {
  tn_file_t file;
  if (!tn_file_exists(path)) return TENON_OK;
  TN_TRY(tn_file_map(path, &file));
  tn_text_bytes(text, (const char *)file.data, file.size);
  tn_file_unmap(&file);
  return TENON_OK;
}

static tenon_status_t start_command(const tn_toolchain_t *t, const tn_words_t *command,
                                    const char *output, const char *errors, int64_t *out_id) {
  if (t->build->say) {
    tn_text_t text = {0};
    add_command(&text, command);
    t->build->say(t->build->context, TENON_BUILD_COMMAND, tn_text_get(&text));
    tn_text_clear(&text);
  }
  return tn_process_start(command, output, errors, out_id);
}

static void add_input(const char *path, const char *folder, tn_words_t *inputs) {
  if (starts_with(path, folder)) return; /* our own temporary file */
  TN_EACH_WORD(input, inputs)
  if (strcmp(input, path) == 0) return;
  tn_words_add(inputs, "%s", path);
}

/* Adds the prerequisites of a rule "object: file file \ file", in which blanks in names are written
 * as "\ ". */
static void add_inputs(const char *list, const char *folder, tn_words_t *inputs) {
  tn_text_t name = {0};
  const char *at = strstr(list, ": ");
  for (at = at ? at + 1 : list + strlen(list); *at;) {
    while (isspace((unsigned char)*at) || (*at == '\\' && at[1] == '\n'))
      at++;
    for (; *at && !isspace((unsigned char)*at) && !(*at == '\\' && at[1] == '\n'); at++) {
      if ((*at == '\\' && (at[1] == ' ' || at[1] == '#' || at[1] == '\\')) ||
          (*at == '$' && at[1] == '$'))
        at++;
      tn_text_bytes(&name, at, 1);
    }
    if (name.size) add_input(name.data, folder, inputs);
    if (name.failed) inputs->text.failed = true;
    tn_text_clear(&name);
  }
}

/* Adds the objects and archives that the linker prints, one per line. Shared libraries are printed
 * by name only and are skipped. */
static void add_linked(const char *lines, const char *folder, tn_words_t *inputs) {
  for (size_t size; *lines; lines += size + (lines[size] != 0)) {
    char path[4096];
    size = strcspn(lines, "\n");
    if (size < 3 || size >= sizeof path) continue;
    memcpy(path, lines, size);
    path[size] = 0;
    if (tn_language_of(path) == TN_LANGUAGE_OBJECT && tn_file_exists(path))
      add_input(path, folder, inputs);
  }
}

/* Waits for a command and collects its messages. `what` and `does` name the task for the error
 * message ("FILE does not compile"). */
static tenon_status_t finish_command(const tn_toolchain_t *t, int64_t id, const char *program,
                                     const char *what, const char *does, const char *errors,
                                     tn_text_t *words) {
  const size_t before = words->size;
  tenon_status_t status = tn_process_wait(id, program);
  char reason[500];
  if (status == TENON_OK) return read_whole(errors, words);
  snprintf(reason, sizeof reason, "%s", tn_error());
  TN_TRY(read_whole(errors, words));
  const char *said = words->size > before ? words->data + before : "";
  const size_t size = words->size - before;
  bool is_shown = t->build->say || !size;
  if (is_shown) return tn_fail(status, "%s does not %s: %s", what, does, reason);
  const int shown = (int)(said[size - 1] == '\n' ? size - 1 : size);
  return tn_fail(status, "%s does not %s: %s:\n%.*s", what, does, reason, shown, said);
}

static tenon_status_t finish_compile(const tn_toolchain_t *t, const char *folder, uint32_t index,
                                     int64_t id, tn_text_t *words, tn_words_t *inputs) {
  char path[4200];
  tn_text_t list = {0};
  const char *program = tn_text_get(&t->programs[tn_language_of(source_at(t, index))].text);
  snprintf(path, sizeof path, "%s/%u.words", folder, index);
  TN_TRY(finish_command(t, id, program, source_at(t, index), "compile", path, words));
  snprintf(path, sizeof path, "%s/%u.d", folder, index);
  tenon_status_t status = read_whole(path, &list);
  /* an assembly file has no dependency list */
  if (!t->text) add_input(source_at(t, index), folder, inputs);
  add_inputs(tn_text_get(&list), folder, inputs);
  tn_text_clear(&list);
  return status;
}

static tenon_status_t compile_all(const tn_toolchain_t *t, const char *folder, tn_text_t *words,
                                  tn_words_t *inputs) {
  const uint32_t count = source_count(t);
  const uint32_t at_once = (uint32_t)tn_processors().count;
  uint32_t begun = 0;
  uint32_t ended = 0;
  tenon_status_t status = TENON_OK;
  tenon_status_t other;
  char errors[4200];
  char *kept = NULL; /* message of the first failure */
  int64_t *ids = tn_allocate_zero(count, sizeof *ids);
  if (!ids) return tn_no_memory("a build", count * sizeof *ids);
  while (ended < begun || (status == TENON_OK && begun < count)) {
    if (status == TENON_OK && begun < count && begun - ended < at_once) {
      tn_words_t command = {0};
      snprintf(errors, sizeof errors, "%s/%u.words", folder, begun);
      if (tn_language_of(source_at(t, begun)) == TN_LANGUAGE_OBJECT) {
        add_input(source_at(t, begun), folder, inputs);
      } else {
        compose_compile(t, folder, begun, &command);
        status = start_command(t, &command, errors, errors, &ids[begun]);
        if (status != TENON_OK) {
          ids[begun] = 0;
          kept = tn_copy_text(tn_error(), strlen(tn_error()));
        }
      }
      tn_words_clear(&command);
      begun++;
      continue;
    }
    other = ids[ended] ? finish_compile(t, folder, ended, ids[ended], words, inputs) : TENON_OK;
    if (other != TENON_OK && status == TENON_OK) {
      status = other;
      kept = tn_copy_text(tn_error(), strlen(tn_error()));
    }
    ended++;
  }
  if (kept) (void)tn_fail(status, "%s", kept);
  tn_release_memory(kept);
  tn_release_memory(ids);
  return status;
}

static tenon_status_t link_all(const tn_toolchain_t *t, const char *folder, tn_text_t *words,
                               tn_words_t *inputs) {
  tn_words_t command = {0};
  tn_text_t list = {0};
  char output[4200], errors[4200];
  int64_t id;
  compose_link(t, folder, &command);
  snprintf(output, sizeof output, "%s/link", folder);
  snprintf(errors, sizeof errors, "%s/link.words", folder);
  tenon_status_t status = start_command(t, &command, output, errors, &id);
  if (status == TENON_OK)
    status = finish_command(t, id, tn_text_get(&command.text), t->output, "link", errors, words);
  if (status == TENON_OK) status = read_whole(output, &list);
  if (status == TENON_OK) add_linked(tn_text_get(&list), folder, inputs);
  tn_text_clear(&list);
  tn_words_clear(&command);
  return status;
}

/* Whether the C++ compiler accepts -fno-gnu-unique. g++ does, and without the flag its libraries
 * may never be unloaded. */
static bool takes_no_unique(const tn_toolchain_t *t) {
  tn_words_t command = {0};
  int64_t id;
  add_all(&command, &t->programs[TN_LANGUAGE_CXX]);
  for (const char *const *word =
           (const char *const[]){"-fno-gnu-unique", "-fsyntax-only", "-x", "c++", "/dev/null", 0};
       *word; word++)
    tn_words_add(&command, "%s", *word);
  bool takes = tn_process_start(&command, "/dev/null", "/dev/null", &id) == TENON_OK &&
               tn_process_wait(id, "the compiler") == TENON_OK;
  tn_words_clear(&command);
  return takes;
}

tenon_status_t tn_toolchain_run(tn_toolchain_t *t, const char *folder, tn_text_t *words,
                                tn_words_t *inputs) {
  char path[4200], exports[200];
  int size = snprintf(exports, sizeof exports, "{ global: %s; local: *; };\n", t->entry);
  snprintf(path, sizeof path, "%s/exports", folder);
  TN_TRY(tn_file_replace(path, exports, (size_t)size, 0600));
  snprintf(path, sizeof path, "%s/%s", folder, source_at(t, 0));
  if (t->text) TN_TRY(tn_file_replace(path, t->text->data, t->text->size, 0600));
  if (t->programs[TN_LANGUAGE_CXX].count) t->is_no_unique_known = takes_no_unique(t);
  TN_TRY(compile_all(t, folder, words, inputs));
  TN_TRY(link_all(t, folder, words, inputs));
  return words->failed || inputs->text.failed ? tn_no_memory("a build", words->size) : TENON_OK;
}
