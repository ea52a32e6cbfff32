/* `tenon compile` and `tenon pack` compile a model and write the artifact, the latter with
 * operator libraries. */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "library.h"
#include "options.h"
#include "print_error.h"

static const char ending[] = ".tenon";

/* The name of the artifact: that which is stated, or the model's with another ending. */
static bool name_artifact(const char *model, const char *stated, text_t *out, text_t *why) {
  const char *slash = strrchr(model, '/');
  const char *dot = strrchr(slash ? slash : model, '.');
  const size_t size = dot ? (size_t)(dot - model) : strlen(model);
  if (stated)
    text_add(out, "%s", stated);
  else
    text_add(out, "%.*s%s", (int)size, model, ending);
  const char *name = text_get(out);
  const size_t length = strlen(name);
  if (length >= sizeof ending && strcmp(name + length - strlen(ending), ending) == 0) return true;
  text_add(why, "-o %s: the name of an artifact ends with %s: write -o %s%s", name, ending, name,
           ending);
  return false;
}

static bool compile_model(const char *model, const texts_t *enclosed, const char *artifact,
                          text_t *why) {
  tenon_graph_t *graph = NULL;
  tenon_status_t status = tenon_graph_load(model, NULL, &graph);
  if (status == TENON_OK)
    status =
        tenon_graph_pack(graph, artifact, (const char *const *)enclosed->items, enclosed->count);
  if (status != TENON_OK) text_add(why, "%s", tenon_error());
  tenon_graph_release(graph);
  return status == TENON_OK;
}

/* Adds the files of "a.so,b.so". */
static bool add_files(const texts_t *lists, texts_t *files) {
  for (int32_t i = 0; i < lists->count; i++)
    for (const char *at = lists->items[i]; *at; at += strcspn(at, ","), at += *at == ',') {
      text_t file = {NULL, 0, 0, false};
      text_add(&file, "%.*s", (int)strcspn(at, ","), at);
      const bool is_added = !*text_get(&file) || texts_add(files, text_get(&file));
      text_free(&file);
      if (!is_added) return false;
    }
  return true;
}

enum { ELF_MACHINE = 18, ELF_HEAD = 20 }; /* where an ELF file says which processor it is for */

static bool read_head(const char *path, char *head) {
  FILE *file = fopen(path, "rb");
  if (!file) return false;
  const bool is_read = fread(head, 1, ELF_HEAD, file) == ELF_HEAD;
  fclose(file);
  return is_read && memcmp(head, "\177ELF", 4) == 0;
}

/* Whether a file is for another processor than this command. */
static bool is_for_others(const char *path) {
  char head[ELF_HEAD];
  char own[ELF_HEAD];
  return read_head(path, head) && read_head("/proc/self/exe", own) &&
         memcmp(head + ELF_MACHINE, own + ELF_MACHINE, ELF_HEAD - ELF_MACHINE) != 0;
}

/* Loads libraries before the model is read. Those for other processors are only put into the
 * file. */
static bool load_enclosed(const texts_t *files, text_t *why) {
  for (int32_t i = 0; i < files->count; i++) {
    text_t path = {NULL, 0, 0, false};
    library_path(files->items[i], &path);
    const tenon_status_t status =
        is_for_others(text_get(&path)) ? TENON_OK : library_load(text_get(&path), 0, NULL);
    text_free(&path);
    if (status == TENON_OK) continue;
    text_add(why, "%s", tenon_error());
    return false;
  }
  return true;
}

static int compile_by(const verb_t *verb, const option_t *options, const texts_t *lists,
                      const char *const *stated, bool encloses, int argc, char **argv) {
  const texts_t none = {NULL, 0, 0};
  texts_t files = {NULL, 0, 0};
  text_t why = {NULL, 0, 0, false};
  text_t artifact = {NULL, 0, 0, false};
  command_line_t line = {verb, options, 1, 1, "MODEL", {NULL, 0, 0}, NULL};
  int code = options_parse(&line, argc, argv);
  if (code == OPTIONS_PARSED) {
    const char *model = line.operands.items[0];
    library_supervise();
    const bool is_written =
        name_artifact(model, *stated, &artifact, &why) && add_files(lists, &files) &&
        load_enclosed(&files, &why) &&
        compile_model(model, encloses ? &files : &none, text_get(&artifact), &why);
    code = EXIT_FINE;
    if (is_written)
      printf("wrote %s\n", text_get(&artifact));
    else
      code = print_failure("%s", text_get(&why));
  }
  texts_free(&files);
  texts_free(&line.operands);
  text_free(&artifact);
  text_free(&why);
  return code;
}

#define OUTPUT_OPTION                                                                              \
  "output", 'o', OPTION_TEXT, "FILE",                                                              \
      "name of the artifact (default: that of the model, with the ending .tenon)"

static int run_compile_verb(const verb_t *verb, int argc, char **argv) {
  texts_t lists = {NULL, 0, 0};
  const char *stated = NULL;
  const option_t options[] = {
      {"ops", 0, OPTION_TEXTS, "LIB[,LIB]", "load these libraries first; may be repeated", &lists},
      {OUTPUT_OPTION, &stated},
      {NULL, 0, OPTION_FLAG, NULL, NULL, NULL}};
  const int code = compile_by(verb, options, &lists, &stated, false, argc, argv);
  texts_free(&lists);
  return code;
}

static int run_pack_verb(const verb_t *verb, int argc, char **argv) {
  texts_t lists = {NULL, 0, 0};
  const char *stated = NULL;
  const option_t options[] = {
      {"ops", 0, OPTION_TEXTS, "LIB[,LIB]",
       "put these libraries into the artifact, also for other processors; may be repeated", &lists},
      {OUTPUT_OPTION, &stated},
      {NULL, 0, OPTION_FLAG, NULL, NULL, NULL}};
  const int code = compile_by(verb, options, &lists, &stated, true, argc, argv);
  texts_free(&lists);
  return code;
}

const verb_t verb_compile = {
    "compile", "MODEL [-o FILE.tenon] [option]...",
    "compile a model into one file that loads at once",
    "Compiles a model for this processor and writes an artifact: one file with the compiled graph, "
    "the weights as kernels\nread them, and the model itself. Whatever takes a model takes an "
    "artifact. On another processor, or with another\nversion of Tenon, the model in it is "
    "compiled again when it is loaded. An existing file is replaced.",
    run_compile_verb};

const verb_t verb_pack = {
    "pack", "MODEL --ops=LIB[,LIB]... [-o FILE.tenon]",
    "compile a model into one file with its operator libraries",
    "Writes an artifact as `tenon compile` does, with operator libraries in it. Running it loads "
    "the "
    "libraries that are for\nthe processor, under the same rules as other files, unless a library "
    "of this name is loaded already. A library that the\nmodel needs and that is not inside is "
    "looked for along TENON_LIBRARY_PATH.",
    run_pack_verb};
