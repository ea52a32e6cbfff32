/* Functions and the module around them; sections of aliases, locations and resources. Called by
 * model.c. Invariant: the module has a function, each function has a name of its own, and its body
 * ends with a return. */
#include <string.h>

#include "base/status.h"
#include "parse/parse.h"

/* sections of the file */

/* Finds the section {-# dialect_resources: ... #-}, which stands at the end. */
static const char *find_resources(const char *text, size_t size) {
  static const char mark[] = "{-#";
  for (const char *p = text + size; size >= 3 && p-- > text;)
    if (*p == '{' && text + size - p >= 3 && memcmp(p, mark, 3) == 0) return p;
  return NULL;
}

/* Reads #name = attribute or !name = type. Locations are skipped. */
static void parse_alias(hlo_cursor_t *cursor, char sign) {
  hlo_alias_t *alias = hlo_take(cursor, 1, sizeof *alias);
  (void)hlo_peek(cursor);
  const char *at = cursor->at;
  const char *name = hlo_name(cursor, sign, "an alias");
  (void)hlo_expect(cursor, "=");
  if (!alias || hlo_failed(cursor)) return;
  if (hlo_sees(cursor, "loc")) {
    (void)hlo_location(cursor);
    return;
  }
  alias->name = hlo_take_text(cursor, at, strlen(name) + 1);
  if (sign == '!')
    alias->attr = (hlo_attr_t){.kind = HLO_ATTR_TYPE, .at = at, .type = hlo_parse_type(cursor)};
  else
    hlo_parse_attr(cursor, &alias->attr);
  alias->next = cursor->aliases;
  cursor->aliases = alias;
}

/* functions */

/* Reads the results of a function and keeps the names that the attribute jax.result_info states. */
static void parse_result_list(hlo_cursor_t *cursor, hlo_function_t *function) {
  hlo_list_t names = {0};
  bool is_bracket = hlo_accept(cursor, "(");
  while (!hlo_failed(cursor) && !(is_bracket && hlo_peek(cursor) == ')')) {
    hlo_attr_t dict = {0};
    (void)hlo_parse_type(cursor);
    if (hlo_peek(cursor) == '{' && is_bracket) hlo_parse_dict(cursor, &dict);
    const hlo_attr_t *info = hlo_attr_find(&dict, "jax.result_info");
    const char **name = hlo_list_add(cursor, &names, sizeof *name);
    if (name) *name = info ? info->text : NULL;
    if (!hlo_accept(cursor, ",")) break;
  }
  if (is_bracket) (void)hlo_expect(cursor, ")");
  function->result_names = names.items;
  function->result_count = names.count;
}

static void add_function(hlo_cursor_t *cursor, hlo_function_t *function) {
  hlo_function_t **link = &cursor->module->functions;
  const hlo_op_t *last = function->body.last;
  if (hlo_failed(cursor)) return;
  if (!last || strcmp(last->name, "func.return") != 0)
    hlo_fail_at(cursor, function->at,
                "the function @%.60s does not end with a return: the file is "
                "damaged",
                function->name);
  for (; *link; link = &(*link)->next)
    if (strcmp((*link)->name, function->name) == 0) {
      hlo_fail_at(cursor, function->at, "the function @%.60s is defined twice", function->name);
      return;
    }
  *link = function;
}

static void parse_function(hlo_cursor_t *cursor) {
  hlo_function_t *function = hlo_take(cursor, 1, sizeof *function);
  hlo_attr_t dict = {0};
  if (!function) return;
  function->at = cursor->at;
  function->is_public = !hlo_accept(cursor, "private");
  if (function->is_public) (void)hlo_accept(cursor, "public");
  function->name = hlo_name(cursor, '@', "the name of a function, such as @main");
  hlo_scope_begin(cursor, true);
  function->body.depth = hlo_scope_depth(cursor);
  hlo_parse_arguments(cursor, &function->body, &function->arg_names);
  if (hlo_accept(cursor, "->")) parse_result_list(cursor, function);
  if (hlo_accept(cursor, "attributes")) hlo_parse_dict(cursor, &dict);
  (void)hlo_expect(cursor, "{");
  hlo_parse_operations(cursor, &function->body);
  (void)hlo_expect(cursor, "}");
  function->value_count = hlo_scope_count(cursor);
  hlo_scope_end(cursor);
  (void)hlo_location(cursor);
  add_function(cursor, function);
}

/* Skips a symbol of another kind, such as a mesh: everything up to the next line that begins with a
 * word and is not inside a bracket. */
static void skip_symbol(hlo_cursor_t *cursor) {
  (void)hlo_word(cursor, "a function");
  while (!hlo_failed(cursor)) {
    char c = hlo_peek(cursor);
    if (!c || c == '}' || hlo_sees(cursor, "func.func") || hlo_sees(cursor, "sdy.mesh")) return;
    if (strchr("([{<", c))
      hlo_skip_bracket(cursor);
    else if (c == '"')
      (void)hlo_text(cursor, NULL);
    else
      cursor->at++;
  }
}

/* Reads functions up to a closing bracket or the end. */
static void parse_symbols(hlo_cursor_t *cursor) {
  char c;
  while ((c = hlo_peek(cursor)) && c != '}' && c != '{') {
    if (hlo_accept(cursor, "func.func"))
      parse_function(cursor);
    else if (c == '#' || c == '!')
      parse_alias(cursor, c);
    else if (hlo_sees(cursor, "sdy.mesh"))
      skip_symbol(cursor);
    else if (hlo_sees(cursor, "module") || hlo_sees(cursor, "builtin.module"))
      return;
    else if (c == '"')
      hlo_fail_at(cursor, cursor->at,
                  "functions in the generic form are not supported: print the module without "
                  "print_generic_op_form");
    else
      hlo_expected(cursor, "a function that begins with func.func");
  }
}

static void parse_file(hlo_cursor_t *cursor) {
  hlo_attr_t dict = {0};
  parse_symbols(cursor);
  bool is_module = hlo_accept(cursor, "module") || hlo_accept(cursor, "builtin.module");
  if (is_module) {
    if (hlo_peek(cursor) == '@') cursor->module->name = hlo_name(cursor, '@', "a name");
    if (hlo_accept(cursor, "attributes")) hlo_parse_dict(cursor, &dict);
    (void)hlo_expect(cursor, "{");
    parse_symbols(cursor);
    (void)hlo_expect(cursor, "}");
    (void)hlo_location(cursor);
  }
  while (hlo_peek(cursor) == '#' || hlo_peek(cursor) == '!')
    parse_alias(cursor, hlo_peek(cursor));
  if (hlo_peek(cursor) && cursor->at != cursor->resources)
    hlo_expected(cursor, is_module ? "the end of the file" : "a module that begins with module");
  if (!hlo_failed(cursor) && !cursor->module->functions)
    hlo_expected(cursor, "a module with a function @main");
}

tenon_status_t hlo_parse_module(const char *text, size_t size, tn_arena_t *arena,
                                hlo_module_t *out_module) {
  hlo_cursor_t cursor = {.begin = text,
                         .at = text,
                         .end = text + size,
                         .arena = arena,
                         .module = out_module,
                         .resources = find_resources(text, size)};
  *out_module = (hlo_module_t){.name = ""};
  if (memchr(text, 0, size))
    return tn_fail(TENON_INVALID,
                   "the file is not text: write the program as text, not as bytecode");
  parse_file(&cursor);
  return cursor.status;
}

void hlo_module_release(hlo_module_t *module) {
  for (hlo_tensors_t *entry = module->tensors; entry; entry = entry->next)
    tenon_tensor_release(entry->tensor);
  module->tensors = NULL;
}
