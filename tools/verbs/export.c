/* `tenon export` makes operators of a library available to another framework's library loader. The
 * result is a copy of a library that came with Tenon (exports/ beside libtenon); the names of the
 * exported operators are written into it. It is opened at once to check it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "export_functions.h"
#include "export_operators.h"
#include "export_symbols.h"
#include "file.h"
#include "library.h"
#include "options.h"
#include "print_error.h"
#include "system.h"

/* The marker at the start of the space for settings in the file. */
static const char opening[] = "tenon export: what this library exports\n";

typedef struct asked_t { /* the command line */
  const char *library;
  const char *output;
  const char *prefix;
  const texts_t *ops;
  const char *form; /* "mxnet", "tvm_ffi" or "onnxruntime" */
  bool is_operand;  /* the library is an operand that was moved behind the others */
  functions_t functions;
} asked_t;

static bool is_functions(const asked_t *asked) { return strcmp(asked->form, "tvm_ffi") == 0; }

static void put_line(text_t *lines, const char *key, const char *value, bool *is_fine) {
  *is_fine = *is_fine && !strchr(value, '\n');
  text_add(lines, "%s=%s\n", key, value);
}

/* Writes the lines behind the marker `opening`, where the file has a run of zero bytes for them. */
static bool put_settings(text_t *bytes, const text_t *lines) {
  const size_t size = sizeof opening - 1;
  for (size_t at = 0; at + size + lines->size < bytes->size; at++) {
    if (memcmp(bytes->data + at, opening, size) != 0) continue;
    at += size;
    for (size_t i = 0; i <= lines->size; i++)
      if (bytes->data[at + i]) return false;
    memcpy(bytes->data + at, lines->data, lines->size);
    return true;
  }
  return false;
}

/* Reads the library that came with Tenon and writes the settings into it. */
static int make_export(const asked_t *asked, const char *library, text_t *bytes) {
  text_t tenon = {NULL, 0, 0, false};
  text_t model = {NULL, 0, 0, false};
  text_t lines = {NULL, 0, 0, false};
  text_t why = {NULL, 0, 0, false};
  bool is_fine = true;
  int code = EXIT_FINE;
  if (!system_module_path("libtenon.so.1", &tenon))
    code = print_failure("the path of libtenon.so.1 cannot be determined");
  const int folder =
      code == EXIT_FINE ? (int)(text_file_name(text_get(&tenon)) - text_get(&tenon)) : 0;
  const char *const places[] = {"tenon/exports", "exports"};
  for (int i = 0; i < 2 && code == EXIT_FINE && !bytes->size; i++) {
    text_clear(&model);
    text_add(&model, "%.*s%s/%s.so", folder, text_get(&tenon), places[i], asked->form);
    if (system_is_file(text_get(&model)) && !file_read(text_get(&model), bytes, &why))
      code = print_failure("%s", text_get(&why));
  }
  if (code == EXIT_FINE && !bytes->size)
    code = print_failure("%s does not exist: this Tenon was built without the exporter",
                         text_get(&model));
  put_line(&lines, "tenon", text_get(&tenon), &is_fine);
  put_line(&lines, "library", library, &is_fine);
  if (asked->prefix) put_line(&lines, "prefix", asked->prefix, &is_fine);
  const texts_t *ops = is_functions(asked) ? &asked->functions.ops : asked->ops;
  for (int32_t i = 0; i < ops->count; i++)
    put_line(&lines, "op", ops->items[i], &is_fine);
  if (code == EXIT_FINE && !is_fine)
    code = print_failure("a path or a name contains a line break, which cannot be exported");
  if (code == EXIT_FINE && lines.failed) code = print_failure("out of memory");
  if (code == EXIT_FINE && !put_settings(bytes, &lines))
    code = print_failure("%s has no space for %zu bytes of settings: export fewer operators",
                         text_get(&model), lines.size);
  if (code == EXIT_FINE && is_functions(asked) &&
      !export_symbols_set(bytes, &asked->functions.names))
    code = print_failure("%s has room for %d functions with names of at most %d bytes: export "
                         "fewer operators, or a shorter --prefix",
                         text_get(&model), EXPORT_SYMBOLS_MOST, EXPORT_NAME_MOST);
  text_t *const texts[] = {&tenon, &model, &lines, &why};
  for (int i = 0; i < 4; i++)
    text_free(texts[i]);
  return code;
}

/* `report` has lines of name, tab, operator, tab, reason why the operator was left out. */
static void print_report(const char *output, const char *report) {
  int32_t given = 0;
  int32_t left = 0;
  for (const char *at = report; *at; at = strchr(at, '\n') + 1)
    if (*at == '\t')
      left++;
    else
      given++;
  const char *plural = given == 1 ? "" : "s";
  printf("exported %s: %d operator%s%s\n", output, (int)given, plural,
         left ? "; not exported:" : "");
  for (const char *at = report; *at; at = strchr(at, '\n') + 1) {
    const char *why = strchr(strchr(at, '\t') + 1, '\t') + 1;
    if (*at == '\t') printf("  %.*s\n", (int)strcspn(why, "\n"), why);
  }
}

/* Opens the exported library as the framework would. */
static int check_export(const char *made, const char *output) {
  text_t why = {NULL, 0, 0, false};
  void (*functions[3])(void);
  static const char *const names[] = {"initialize", "_msgGet", "tenon_export_report"};
  int code = EXIT_FINE;
  if (!system_module_open(made, names, 3, functions, &why))
    code = print_failure("%s cannot be opened: %s", made, text_get(&why));
  text_free(&why);
  if (code != EXIT_FINE) return code;
  const char *message = "";
  if (((int (*)(int))functions[0])(10901) == 1) {
    print_report(output, ((const char *(*)(void))functions[2])());
    return EXIT_FINE;
  }
  ((void (*)(int, const char **))functions[1])(0, &message);
  return print_failure("%s", message);
}

static int export_library(asked_t *asked) {
  text_t path = {NULL, 0, 0, false};
  text_t bytes = {NULL, 0, 0, false};
  text_t part = {NULL, 0, 0, false};
  text_t why = {NULL, 0, 0, false};
  tenon_library_t *library;
  library_supervise();
  library_path(asked->library, &path);
  int code = library_load(text_get(&path), 0, &library) == TENON_OK ? EXIT_FINE
                                                                    : print_runtime_error(NULL);
  if (code == EXIT_FINE && is_functions(asked))
    code = export_functions_list(library, asked->ops, asked->prefix, &asked->functions);
  if (code == EXIT_FINE) code = make_export(asked, tenon_library_path(library), &bytes);
  text_add(&part, "%s%s.part", strchr(asked->output, '/') ? "" : "./", asked->output);
  if (code == EXIT_FINE && !file_write(text_get(&part), &bytes, &why))
    code = print_failure("%s", text_get(&why));
  if (code == EXIT_FINE && is_functions(asked))
    code = export_functions_check(&asked->functions, text_get(&part), asked->output);
  else if (code == EXIT_FINE && strcmp(asked->form, "onnxruntime") == 0)
    code = export_operators_check(text_get(&part), asked->output, asked->ops->count > 0);
  else if (code == EXIT_FINE)
    code = check_export(text_get(&part), asked->output);
  if (code == EXIT_FINE && rename(text_get(&part), asked->output) != 0)
    code = print_failure("cannot write %s", asked->output);
  if (code != EXIT_FINE) remove(text_get(&part));
  text_t *const texts[] = {&path, &bytes, &part, &why};
  for (int i = 0; i < 4; i++)
    text_free(texts[i]);
  export_functions_free(&asked->functions);
  return code;
}

/* `--to FORM LIB [OP]...`: the first operand is the library. */
static int read_form(const char *form, const verb_t *verb, texts_t *operands, asked_t *asked) {
  asked->form = form ? form : "mxnet";
  if (!form) return EXIT_FINE;
  const bool is_onnxruntime = strcmp(form, "onnxruntime") == 0;
  if (!is_functions(asked) && !is_onnxruntime && strcmp(form, "mxnet") != 0)
    return print_usage_error(verb->name, "export: --to: expected mxnet, tvm_ffi or onnxruntime");
  if (is_onnxruntime && asked->prefix)
    return print_usage_error(verb->name, "export: --prefix: expected mxnet or tvm_ffi; in ONNX "
                                         "Runtime the domain is the namespace");
  if (asked->library || !operands->count)
    return print_usage_error(verb->name, "export: --to FORM: expected one library");
  asked->library = operands->items[0];
  asked->is_operand = true;
  operands->count--; /* the library moves behind the operators */
  memmove(operands->items, operands->items + 1, (size_t)operands->count * sizeof(char *));
  operands->items[operands->count] = (char *)(uintptr_t)asked->library;
  return EXIT_FINE;
}

static int run_export_verb(const verb_t *verb, int argc, char **argv) {
  asked_t asked = {.library = NULL};
  const char *form = NULL;
  text_t default_output = {NULL, 0, 0, false};
  const option_t options[] = {
      {"mxnet", 0, OPTION_TEXT, "LIB",
       "make a library that MXNet 1.9 loads, with the operators of LIB", &asked.library},
      {"to", 0, OPTION_TEXT, "FORM",
       "what to make of LIB, the first operand: mxnet, tvm_ffi (functions for tvm-ffi), or "
       "onnxruntime (custom operators for ONNX Runtime)",
       &form},
      {"output", 'o', OPTION_TEXT, "OUT",
       "name of the exported library (default: name of LIB with _mxnet.so, _tvm_ffi.so or "
       "_onnxruntime.so)",
       &asked.output},
      {"prefix", 0, OPTION_TEXT, "TEXT",
       "prefix of the operators' names in the framework (default: the namespace and _ in MXNet, "
       "none in tvm-ffi)",
       &asked.prefix},
      {NULL, 0, OPTION_FLAG, NULL, NULL, NULL}};
  command_line_t line = {verb, options, 0, -1, "OP", {NULL, 0, 0}, NULL};
  int code = options_parse(&line, argc, argv);
  asked.ops = &line.operands;
  if (code == OPTIONS_PARSED) {
    const int found = read_form(form, verb, &line.operands, &asked);
    if (found != EXIT_FINE) code = found;
  }
  if (code == OPTIONS_PARSED && !asked.library)
    code = print_usage_error(
        verb->name, "export: the target framework is missing: add --mxnet LIB or --to FORM LIB");
  if (code == OPTIONS_PARSED) {
    if (!asked.output) {
      const char *name = text_file_name(asked.library);
      const char *dot = strrchr(name, '.');
      const int size = (int)(dot ? (size_t)(dot - name) : strlen(name));
      text_add(&default_output, "%.*s_%s.so", size, name, asked.form);
      asked.output = text_get(&default_output);
    }
    code = export_library(&asked);
  }
  text_free(&default_output);
  if (asked.is_operand) line.operands.count++;
  texts_free(&line.operands);
  return code;
}

const verb_t verb_export = {
    "export", "--mxnet LIB | --to FORM LIB [option]... [OP]...",
    "make operators available to another framework's library loader",
    "Makes a library that MXNet 1.9 loads by mx.library.load, one that tvm-ffi loads by "
    "tvm_ffi.load_module (--to tvm_ffi), or one for register_custom_ops_library of ONNX Runtime "
    "(--to onnxruntime), from all operators of a Tenon library or from the given ones (ns::name). "
    "demo::gelu becomes mx.nd.demo_gelu and mx.sym.demo_gelu, the function gelu, or the node gelu "
    "of the domain demo. No compiler is needed.\nThe exported library opens LIB and libtenon at "
    "their present paths, else in its own folder.",
    run_export_verb};
