/* Functions and the module around them; sections of aliases, locations and resources. Called by
 * model.c. Invariant: the module has a function, each function has a name of its own, and its body
 * ends with a return. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "parse/parse.h"

enum { FUNCTIONS_MAX = 1 << 13 }; /* Each name is compared with all before it. */

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

const char *hlo_module_add(hlo_module_t *module, hlo_function_t *function) {
  hlo_function_t **link = &module->functions;
  const hlo_op_t *last = function->body.last;
  if (!last || strcmp(last->name, "func.return") != 0)
    return "does not end with a return: the file is damaged";
  for (int count = 0; *link; link = &(*link)->next) {
    if (strcmp((*link)->name, function->name) == 0) return "is defined twice";
    if (++count == FUNCTIONS_MAX) return "comes after 8192 others: so many are not supported";
  }
  *link = function;
  return NULL;
}

static void add_function(hlo_cursor_t *cursor, hlo_function_t *function) {
  if (hlo_failed(cursor)) return;
  const char *problem = hlo_module_add(cursor->module, function);
  if (problem) hlo_fail_at(cursor, function->at, "the function @%.60s %s", function->name, problem);
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
  hlo_parse_region(cursor, &function->body, &function->arg_names);
  function->value_count = hlo_scope_count(cursor);
  hlo_scope_end(cursor);
  (void)hlo_location(cursor);
  add_function(cursor, function);
}

/* the generic form */

/* Keeps the names of results from the attribute res_attrs, a list of dictionaries. */
static void read_result_names(hlo_cursor_t *cursor, const hlo_attr_t *attrs,
                              hlo_function_t *function) {
  const hlo_attr_t *list = hlo_attr_find(attrs, "res_attrs");
  if (!list || list->kind != HLO_ATTR_LIST) return;
  function->result_names = hlo_take(cursor, (size_t)list->count, sizeof *function->result_names);
  if (!function->result_names) return;
  function->result_count = list->count;
  for (int32_t i = 0; i < list->count; i++) {
    const hlo_attr_t *info = hlo_attr_find(&list->items[i], "jax.result_info");
    function->result_names[i] = info ? info->text : NULL;
  }
}

/* Reads what comes before the region: () <{...}> (. */
static void parse_generic_head(hlo_cursor_t *cursor, hlo_attr_t *attrs) {
  *attrs = (hlo_attr_t){.kind = HLO_ATTR_DICT, .at = cursor->at};
  (void)hlo_expect(cursor, "(");
  (void)hlo_expect(cursor, ")");
  if (hlo_accept(cursor, "<")) {
    hlo_parse_dict(cursor, attrs);
    (void)hlo_expect(cursor, ">");
  }
  (void)hlo_expect(cursor, "(");
}

/* Reads what comes after the region: ) {...} : () -> (). */
static void parse_generic_tail(hlo_cursor_t *cursor, hlo_attr_t *attrs) {
  hlo_list_t operands = {0};
  hlo_list_t results = {0};
  bool has_arrow;
  (void)hlo_expect(cursor, ")");
  if (hlo_peek(cursor) == '{') hlo_parse_dict(cursor, attrs);
  (void)hlo_expect(cursor, ":");
  hlo_parse_signature(cursor, &operands, &results, &has_arrow);
  (void)hlo_location(cursor);
}

static void parse_generic_function(hlo_cursor_t *cursor) {
  hlo_function_t *function = hlo_take(cursor, 1, sizeof *function);
  hlo_attr_t attrs;
  if (!function) return;
  function->at = cursor->at;
  parse_generic_head(cursor, &attrs);
  hlo_scope_begin(cursor, true);
  function->body.depth = hlo_scope_depth(cursor);
  hlo_parse_region(cursor, &function->body, &function->arg_names);
  function->value_count = hlo_scope_count(cursor);
  hlo_scope_end(cursor);
  parse_generic_tail(cursor, &attrs);
  const hlo_attr_t *name = hlo_attr_find(&attrs, "sym_name");
  const hlo_attr_t *visibility = hlo_attr_find(&attrs, "sym_visibility");
  function->name = name && name->text ? name->text : "";
  function->is_public =
      !visibility || !visibility->text || strcmp(visibility->text, "private") != 0;
  read_result_names(cursor, &attrs, function);
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
    else if (hlo_accept(cursor, "\"func.func\""))
      parse_generic_function(cursor);
    else if (hlo_sees(cursor, "\"builtin.module\""))
      return;
    else
      hlo_expected(cursor, "a function that begins with func.func");
  }
}

static void parse_generic_module(hlo_cursor_t *cursor) {
  hlo_attr_t attrs;
  parse_generic_head(cursor, &attrs);
  (void)hlo_expect(cursor, "{");
  parse_symbols(cursor);
  (void)hlo_expect(cursor, "}");
  parse_generic_tail(cursor, &attrs);
  const hlo_attr_t *name = hlo_attr_find(&attrs, "sym_name");
  if (name && name->text) cursor->module->name = name->text;
}

static void parse_short_module(hlo_cursor_t *cursor) {
  hlo_attr_t dict = {0};
  if (hlo_peek(cursor) == '@') cursor->module->name = hlo_name(cursor, '@', "a name");
  if (hlo_accept(cursor, "attributes")) hlo_parse_dict(cursor, &dict);
  (void)hlo_expect(cursor, "{");
  parse_symbols(cursor);
  (void)hlo_expect(cursor, "}");
  (void)hlo_location(cursor);
}

static void parse_file(hlo_cursor_t *cursor) {
  const char *next = "a module that begins with module";
  parse_symbols(cursor);
  if (hlo_accept(cursor, "\"builtin.module\"")) {
    parse_generic_module(cursor);
    next = "the end of the file";
  } else if (hlo_accept(cursor, "module") || hlo_accept(cursor, "builtin.module")) {
    parse_short_module(cursor);
    next = "the end of the file";
  }
  while (hlo_peek(cursor) == '#' || hlo_peek(cursor) == '!')
    parse_alias(cursor, hlo_peek(cursor));
  if (hlo_peek(cursor) && cursor->at != cursor->resources) hlo_expected(cursor, "%s", next);
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
  *out_module = (hlo_module_t){.name = "", .begin = text};
  if (memchr(text, 0, size))
    return tn_fail(TENON_INVALID,
                   "the file is neither text nor MLIR bytecode, which begins with ML\\xEFR: write "
                   "the program again, as one of both");
  parse_file(&cursor);
  return cursor.status;
}

tenon_status_t hlo_module_tensor(hlo_module_t *module, tn_arena_t *arena, tenon_dtype_t dtype,
                                 int32_t ndim, const int64_t *dims, tenon_tensor_t **out_tensor) {
  hlo_tensors_t *entry = tn_arena_array(arena, 1, sizeof *entry);
  if (!entry) return tn_no_memory("a program", sizeof *entry);
  TENON_TRY(tenon_tensor_create(dtype, ndim, dims, &entry->tensor));
  entry->next = module->tensors;
  module->tensors = entry;
  *out_tensor = entry->tensor;
  return TENON_OK;
}

void hlo_module_place(const hlo_module_t *module, const char *at, char *out, size_t room) {
  int line, column;
  if (module->is_bytecode) {
    snprintf(out, room, "byte %zu of the operation section", (size_t)(at - module->begin));
    return;
  }
  hlo_place(module->begin, at, &line, &column);
  snprintf(out, room, "line %d, column %d", line, column);
}

void hlo_module_release(hlo_module_t *module) {
  for (hlo_tensors_t *entry = module->tensors; entry; entry = entry->next)
    tenon_tensor_release(entry->tensor);
  module->tensors = NULL;
}
