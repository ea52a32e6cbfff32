/* Functions of tvm-ffi; see export_functions.h. */
#include "export_functions.h"

#include <stdio.h>
#include <string.h>

#include "options.h"
#include "print_error.h"
#include "system.h"

/* Whether an attribute is of a kind that a function of tvm-ffi cannot pass. */
static bool is_impossible(const tenon_argument_t *attr) {
  const bool is_constant = attr->kind == TENON_KIND_TENSOR || attr->kind == TENON_KIND_TENSORS ||
                           attr->kind == TENON_KIND_GRAPH;
  return is_constant && !attr->has_default && !attr->is_optional;
}

/* Adds the reason why the operator cannot be a function. Returns whether there is one. */
static bool explain_impossible(const tenon_op_t *op, const tenon_op_info_t *info, text_t *why) {
  tenon_argument_t argument = {.size = sizeof argument};
  for (int32_t i = 0; i < info->attr_count; i++)
    if (tenon_op_argument(op, TENON_ARGUMENT_ATTR, i, &argument) == TENON_OK &&
        is_impossible(&argument)) {
      text_add(why, "  %s: attribute '%s' is a tensor or a graph\n", info->name, argument.name);
      return true;
    }
  for (int32_t i = 0; i < info->output_count && info->output_count > 1; i++)
    if (tenon_op_argument(op, TENON_ARGUMENT_OUTPUT, i, &argument) == TENON_OK &&
        argument.kind == TENON_KIND_TENSORS) {
      text_add(why, "  %s: result '%s' is a list beside other results\n", info->name,
               argument.name);
      return true;
    }
  return false;
}

/* "demo::gelu.fast" becomes gelu_fast. */
static int add_function(const tenon_op_t *op, const char *prefix, functions_t *out) {
  tenon_op_info_t info = {.size = sizeof info};
  text_t name = {NULL, 0, 0, false};
  tenon_op_info(op, &info);
  if (explain_impossible(op, &info, &out->left_out)) return EXIT_FINE;
  const char *colons = strstr(info.name, "::");
  if (prefix) text_add(&name, "%s", prefix);
  text_add(&name, "%s", colons ? colons + 2 : info.name);
  for (char *c = name.data; c && *c; c++)
    if (*c == '.') *c = '_';
  int code = EXIT_FINE;
  if (texts_has(&out->names, text_get(&name)))
    code = print_failure("two operators would be the function %s: export them into two libraries "
                         "or give --prefix",
                         text_get(&name));
  else if (!texts_add(&out->ops, info.name) || !texts_add(&out->names, text_get(&name)))
    code = print_failure("out of memory");
  text_free(&name);
  return code;
}

int export_functions_list(const tenon_library_t *library, const texts_t *asked, const char *prefix,
                          functions_t *out) {
  const int32_t count = asked->count ? asked->count : tenon_library_op_count(library);
  int code = EXIT_FINE;
  for (int32_t i = 0; i < count && code == EXIT_FINE; i++) {
    const tenon_op_t *op = asked->count ? NULL : tenon_library_op(library, i);
    if (asked->count && tenon_op_find(asked->items[i], &op) != TENON_OK)
      code = print_runtime_error(NULL);
    else
      code = add_function(op, prefix, out);
  }
  if (code == EXIT_FINE && asked->count && out->left_out.size)
    return print_failure("these operators cannot be functions of tvm-ffi:\n%s",
                         text_get(&out->left_out));
  if (code == EXIT_FINE && !out->ops.count)
    return print_failure("the library has no operator that can be a function of tvm-ffi");
  return code;
}

void export_functions_free(functions_t *functions) {
  texts_free(&functions->ops);
  texts_free(&functions->names);
  text_free(&functions->left_out);
}

int export_functions_check(const functions_t *functions, const char *made, const char *output) {
  text_t why = {NULL, 0, 0, false};
  void (*function)(void);
  static const char *const name = "tenon_export_check";
  int code = EXIT_FINE;
  if (!system_module_open(made, &name, 1, &function, &why))
    code = print_failure("%s cannot be opened: %s", made, text_get(&why));
  text_free(&why);
  if (code != EXIT_FINE) return code;
  const char *failure = ((const char *(*)(void))function)();
  if (*failure) return print_failure("%s", failure);
  const char *plural = functions->ops.count == 1 ? "" : "s";
  printf("exported %s: %d function%s", output, (int)functions->ops.count, plural);
  if (functions->left_out.size) printf("; not exported:");
  printf("\n%s", text_get(&functions->left_out));
  return EXIT_FINE;
}
