/* `tenon model` writes a small ONNX file that uses operators, to try them in a model. */
#include <stdio.h>

#include "library.h"
#include "model.h"
#include "options.h"
#include "print_error.h"

static int run_model_verb(const verb_t *verb, int argc, char **argv) {
  model_t model = {.path = "model.onnx"};
  texts_t libraries = {NULL, 0, 0};
  text_t why = {NULL, 0, 0, false};
  const option_t options[] = {
      {"ops", 0, OPTION_TEXTS, "LIB", "load this operator library first; may be repeated",
       &libraries},
      {"input", 'i', OPTION_TEXTS, "NAME=DTYPE[N,...]",
       "an input, such as x=f32[rows,4]; extents are numbers or names; may be repeated",
       &model.inputs},
      {"attr", 'a', OPTION_TEXTS, "NAME=VALUE",
       "an attribute, set on every operator that has it; may be repeated", &model.attrs},
      {"output", 'o', OPTION_TEXT, "FILE", "name of the file (default: model.onnx)", &model.path},
      {NULL, 0, OPTION_FLAG, NULL, NULL, NULL}};
  command_line_t line = {verb, options, 1, -1, "OPERATOR", {NULL, 0, 0}, NULL};
  int code = options_parse(&line, argc, argv);
  if (code == OPTIONS_PARSED) {
    model.ops = line.operands;
    line.operands = (texts_t){NULL, 0, 0};
    library_supervise();
    bool fine = library_load_all(&libraries, false, &why) && model_write(&model, &why);
    code = EXIT_FINE;
    if (fine)
      printf("wrote %s\n", model.path);
    else
      code = print_failure("%s", text_get(&why));
  }
  model_free(&model);
  texts_free(&libraries);
  texts_free(&line.operands);
  text_free(&why);
  return code;
}

const verb_t verb_model = {"model", "OPERATOR... -i NAME=DTYPE[N,...] [option]...",
                           "write a small ONNX model that uses operators",
                           "Writes an ONNX file with one node for each operator. The first result "
                           "of a node is the first input of the next.\nEvery other tensor argument "
                           "becomes an input of the model, with the name of the argument.",
                           run_model_verb};
