/* `tenon compile` compiles a model and writes the artifact. */
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

static bool compile_model(const char *model, const char *artifact, text_t *why) {
  tenon_graph_t *graph = NULL;
  tenon_status_t status = tenon_graph_load(model, NULL, &graph);
  if (status == TENON_OK) status = tenon_graph_save(graph, artifact);
  if (status != TENON_OK) text_add(why, "%s", tenon_error());
  tenon_graph_release(graph);
  return status == TENON_OK;
}

static int run_compile_verb(const verb_t *verb, int argc, char **argv) {
  texts_t libraries = {NULL, 0, 0};
  text_t why = {NULL, 0, 0, false};
  text_t artifact = {NULL, 0, 0, false};
  const char *stated = NULL;
  const option_t options[] = {
      {"ops", 0, OPTION_TEXTS, "LIB", "load this operator library first; may be repeated",
       &libraries},
      {"output", 'o', OPTION_TEXT, "FILE",
       "name of the artifact (default: that of the model, with the ending .tenon)", &stated},
      {NULL, 0, OPTION_FLAG, NULL, NULL, NULL}};
  command_line_t line = {verb, options, 1, 1, "MODEL", {NULL, 0, 0}, NULL};
  int code = options_parse(&line, argc, argv);
  if (code == OPTIONS_PARSED) {
    const char *model = line.operands.items[0];
    library_supervise();
    bool fine = name_artifact(model, stated, &artifact, &why) &&
                library_load_all(&libraries, false, &why) &&
                compile_model(model, text_get(&artifact), &why);
    code = EXIT_FINE;
    if (fine)
      printf("wrote %s\n", text_get(&artifact));
    else
      code = print_failure("%s", text_get(&why));
  }
  texts_free(&libraries);
  texts_free(&line.operands);
  text_free(&artifact);
  text_free(&why);
  return code;
}

const verb_t verb_compile = {
    "compile", "MODEL [-o FILE.tenon] [option]...",
    "compile a model into one file that loads at once",
    "Compiles a model for this processor and writes an artifact: one file with the compiled graph, "
    "the weights as kernels\nread them, and the model itself. Whatever takes a model takes an "
    "artifact. On another processor, or with another\nversion of Tenon, the model in it is "
    "compiled "
    "again when it is loaded. An existing file is replaced.",
    run_compile_verb};
