/* `tenon show` prints everything that is known about an operator, a pass or a partitioner. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "library.h"
#include "options.h"
#include "passes.h"
#include "print_error.h"
#include "summary.h"

static const char *const kinds[] = {"none",   "bool",    "int",    "dim",     "float", "str",
                                    "choice", "dtype",   "device", "tensor",  "graph", "int[]",
                                    "dim[]",  "float[]", "str[]",  "Tensor[]"};

static void add_value(text_t *out, const tenon_argument_t *argument) {
  const tenon_value_t *value = &argument->value;
  switch (value->kind) {
  case TENON_KIND_BOOL:
    text_add(out, "%s", value->as.i ? "True" : "False");
    break;
  case TENON_KIND_INT:
    text_add(out, "%" PRId64, value->as.i);
    break;
  case TENON_KIND_DIM:
    text_add(out, "%" PRId64, value->as.dim.value);
    break;
  case TENON_KIND_FLOAT:
    text_add(out, "%.15g", value->as.f);
    break;
  case TENON_KIND_STR:
    text_add(out, "'%.*s'", (int)value->count, value->as.s);
    break;
  case TENON_KIND_CHOICE:
    text_add(out, "'%s'",
             value->as.i >= 0 && value->as.i < argument->choice_count
                 ? argument->choices[value->as.i]
                 : "?");
    break;
  case TENON_KIND_DTYPE:
    text_add(out, "%s", tenon_dtype_name(value->as.dtype));
    break;
  case TENON_KIND_INTS:
  case TENON_KIND_DIMS:
  case TENON_KIND_FLOATS:
  case TENON_KIND_STRS:
    text_add(out, "[");
    for (uint32_t i = 0; i < value->count; i++) {
      text_add(out, "%s", i ? ", " : "");
      if (value->kind == TENON_KIND_INTS)
        text_add(out, "%" PRId64, value->as.ints[i]);
      else if (value->kind == TENON_KIND_DIMS)
        text_add(out, "%" PRId64, value->as.dims[i].value);
      else if (value->kind == TENON_KIND_FLOATS)
        text_add(out, "%.15g", value->as.floats[i]);
      else
        text_add(out, "'%.*s'", (int)value->as.strs[i].size, value->as.strs[i].data);
    }
    text_add(out, "]");
    break;
  default:
    text_add(out, "None");
    break;
  }
}

/* Prints the role, kind and name of an argument, and its properties: "keyword, optional, in host
 * memory, one of 'a', 'b', default 3". */
static void print_argument(const tenon_argument_t *argument) {
  static const char *const roles[] = {"input", "attribute", "result"};
  text_t words = {NULL, 0, 0, false};
  const char *kind =
      argument->kind < sizeof kinds / sizeof *kinds ? kinds[argument->kind] : "unknown";
  if (argument->role != TENON_ARGUMENT_ATTR)
    kind = argument->kind == TENON_KIND_TENSORS ? "Tensor[]" : "Tensor";
  if (argument->is_keyword) text_add(&words, ", by name only");
  if (argument->is_host) text_add(&words, ", in host memory");
  if (argument->is_written) text_add(&words, ", written to");
  if (argument->is_optional) text_add(&words, ", optional");
  for (uint32_t i = 0; i < argument->choice_count; i++)
    text_add(&words, "%s'%s'", i ? ", " : ", one of ", argument->choices[i]);
  if (argument->has_default && argument->role == TENON_ARGUMENT_ATTR) {
    text_add(&words, ", default ");
    add_value(&words, argument);
  }
  if (words.size > 2) /* without the first comma */
    printf("  %-10s %-9s %-17s %s\n", roles[argument->role], kind, argument->name, words.data + 2);
  else
    printf("  %-10s %-9s %s\n", roles[argument->role], kind, argument->name);
  text_free(&words);
}

static void print_labelled(const char *label, const char *text) {
  if (!text || !*text) return;
  printf("%-10s ", label);
  options_wrap(text, 11);
}

static void print_op(const tenon_op_t *op) {
  tenon_op_info_t info = {.size = sizeof info};
  text_t traits = {NULL, 0, 0, false};
  tenon_op_info(op, &info);
  printf("%s\n\n", info.name);
  print_labelled("schema", info.schema);
  print_labelled("about", info.doc);
  print_labelled("types", info.types);
  print_labelled("shapes", info.shapes);
  print_labelled("where", info.where);
  if (info.traits & TENON_PURE) text_add(&traits, " pure");
  if (info.traits & TENON_POINTWISE) text_add(&traits, " pointwise");
  if (info.traits & TENON_RANDOM) text_add(&traits, " random");
  if (info.traits & TENON_BRIEF) text_add(&traits, " brief");
  print_labelled("traits", traits.size > 0 ? traits.data + 1 : NULL);
  print_labelled("gradient", info.gradient);
  print_labelled("batching", info.batching);
  print_labelled("sharding", info.sharding);
  print_labelled("reuse", info.reuse);
  printf("%-10s %s %s", "library", info.library, info.library_version ? info.library_version : "");
  if (info.library_path && *info.library_path) printf(" (%s)", info.library_path);
  printf("\n");
  if (info.version > 1) printf("%-10s %" PRId64 "\n", "version", info.version);
  printf("\narguments and results\n");
  for (uint32_t role = TENON_ARGUMENT_INPUT; role <= TENON_ARGUMENT_OUTPUT; role++) {
    tenon_argument_t argument = {.size = sizeof argument};
    for (int32_t i = 0; tenon_op_argument(op, role, i, &argument) == TENON_OK; i++)
      print_argument(&argument);
  }
  printf("\nkernels\n");
  if (info.kernel_count == 0) printf("  none: the operator is implemented by the runtime\n");
  for (int32_t i = 0; i < info.kernel_count; i++) {
    char *kernel = tenon_op_kernel(op, i);
    if (kernel) printf("  %s\n", kernel);
    tenon_text_release(kernel);
  }
  char *table = NULL;
  printf("\ntable\n");
  if (tenon_op_table(op, &table) != TENON_OK) (void)print_runtime_error(NULL);
  for (const char *at = table; at && *at; at += strcspn(at, "\n") + 1)
    printf("  %.*s\n", (int)strcspn(at, "\n"), at);
  tenon_text_release(table);
  text_free(&traits);
}

/* Prints why each candidate for a key is chosen or rejected. */
static int explain_key(const tenon_op_t *op, const char *key, const char *dtype_name) {
  tenon_dtype_t dtype = {0, 0, 0};
  char *text = NULL;
  if (dtype_name && tenon_dtype_parse(dtype_name, &dtype) != TENON_OK)
    return print_runtime_error(NULL);
  if (tenon_op_explain(op, key, dtype, &text) != TENON_OK) return print_runtime_error(NULL);
  fputs(text, stdout);
  tenon_text_release(text);
  return EXIT_FINE;
}

static bool is_artifact(const char *name) {
  static const char ending[] = ".tenon";
  const size_t size = strlen(name);
  return size >= sizeof ending && strcmp(name + size - strlen(ending), ending) == 0;
}

/* Prints what an artifact is. Returns an exit code. */
static int show_artifact(const char *path) {
  char *text = NULL;
  if (tenon_artifact_inspect(path, &text) != TENON_OK) return print_runtime_error(NULL);
  printf("%s", text);
  tenon_text_release(text);
  return EXIT_FINE;
}

/* Prints an operator, or why it has its kernel for a key. Returns an exit code. */
static int show_op(const char *name, const char *key, const char *dtype) {
  const tenon_op_t *op = NULL;
  if (!key && passes_show(name)) return EXIT_FINE;
  if (tenon_op_find(name, &op) != TENON_OK) return print_runtime_error(NULL);
  if (key) return explain_key(op, key, dtype);
  print_op(op);
  return EXIT_FINE;
}

static int run_show_verb(const verb_t *verb, int argc, char **argv) {
  texts_t libraries = {NULL, 0, 0};
  bool isolates_ops = false;
  text_t why = {NULL, 0, 0, false};
  const char *key = NULL;
  const char *dtype = NULL;
  const option_t options[] = {
      {"ops", 0, OPTION_TEXTS, "LIB", "load a library first; may be repeated", &libraries},
      {LIBRARY_ISOLATE, &isolates_ops},
      {"explain", 0, OPTION_TEXT, "KEY",
       "only explain why each candidate kernel for a key (cpu, autograd npu) is chosen or rejected",
       &key},
      {"dtype", 0, OPTION_TEXT, "DTYPE", "with --explain: for calls with this dtype (default: all)",
       &dtype},
      {NULL, 0, OPTION_FLAG, NULL, NULL, NULL}};
  command_line_t line = {verb, options, 1, -1, "NS::OPERATOR", {NULL, 0, 0}, NULL};
  int code = options_parse(&line, argc, argv);
  if (code == OPTIONS_PARSED) {
    code = EXIT_FINE;
    if (libraries.count) library_supervise();
    if (!library_load_all(&libraries, isolates_ops, &why))
      code = print_failure("%s", text_get(&why));
    for (int32_t i = 0; code == EXIT_FINE && i < line.operands.count; i++) {
      const char *name = line.operands.items[i];
      if (i > 0) putchar('\n');
      code = is_artifact(name) ? show_artifact(name) : show_op(name, key, dtype);
    }
  }
  texts_free(&line.operands);
  texts_free(&libraries);
  text_free(&why);
  return code;
}

const verb_t verb_show = {
    "show", "[option]... NS::OPERATOR|FILE.tenon...",
    "show everything that is known about an operator or artifact",
    "Prints schema, types, shapes, traits, gradient, arguments, kernels and dispatch table of an "
    "operator; of a pass or partitioner its kind, documentation, strategies and library; of an "
    "artifact (FILE.tenon) whether it is damaged, what is in it, and for which processor it was "
    "compiled.",
    run_show_verb};
