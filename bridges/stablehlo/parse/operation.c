/* Operations, in the generic form "dialect.name"(%a) <{...}> ({...}) {...} : (type) -> type and in
 * the short forms that printers use. All short forms are read in one way: operands, words, lists
 * and `name = value` in any order up to the colon. Called by function.c. Invariant: what is read
 * has a value for each operand and a type for each result. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "parse/parse.h"

typedef struct reading_t { /* An operation that is being read. */
  hlo_cursor_t *cursor;
  hlo_op_t *op;
  hlo_list_t operands;       /* hlo_value_t * */
  hlo_list_t inits;          /* hlo_value_t *: the operands after `init:`. */
  hlo_list_t names;          /* const char *: names of region arguments, as in (%a = %b). */
  hlo_list_t regions;        /* hlo_region_t */
  const hlo_type_t *literal; /* The type of a constant in the short form. */
  int32_t word_count;
} reading_t;

/* operands */

static void add_pointer(hlo_cursor_t *cursor, hlo_list_t *list, const void *pointer) {
  const void **item = hlo_list_add(cursor, list, sizeof *item);
  if (item) *item = pointer;
}

/* Reads %name or %name#1. *out_name may be the name of a region argument that is not defined. */
static void parse_operand(hlo_cursor_t *cursor, hlo_list_t *operands, hlo_list_t *names) {
  int64_t number = 0;
  const char *at = cursor->at;
  const char *name = hlo_name(cursor, '%', "an operand such as %0");
  if (names && hlo_accept(cursor, "=")) {
    add_pointer(cursor, names, name);
    (void)hlo_peek(cursor);
    parse_operand(cursor, operands, NULL);
    return;
  }
  if (*cursor->at == '#') {
    cursor->at++;
    (void)hlo_integer(cursor, &number);
  }
  add_pointer(cursor, operands, hlo_scope_use(cursor, at, name, number));
}

/* Reads (%a, %b), (%a init: %b), (%name = %a) or (%a, k = 3). */
static void parse_group(reading_t *reading) {
  hlo_cursor_t *cursor = reading->cursor;
  (void)hlo_expect(cursor, "(");
  while (!hlo_failed(cursor) && hlo_peek(cursor) != ')') {
    if (hlo_peek(cursor) == '%') {
      parse_operand(cursor, &reading->operands, &reading->names);
    } else if (hlo_accept(cursor, "init")) {
      (void)hlo_expect(cursor, ":");
      (void)hlo_peek(cursor);
      parse_operand(cursor, &reading->inits, NULL);
    } else {
      hlo_attr_t attr = {0};
      const char *name = hlo_word(cursor, "an operand such as %0");
      (void)hlo_expect(cursor, "=");
      hlo_parse_attr(cursor, &attr);
      hlo_dict_add(cursor, &reading->op->attrs, name, &attr);
    }
    (void)hlo_accept(cursor, ",");
  }
  (void)hlo_expect(cursor, ")");
}

/* regions */

void hlo_parse_arguments(hlo_cursor_t *cursor, hlo_region_t *region, const char ***out_names) {
  hlo_list_t args = {0};
  hlo_list_t names = {0};
  (void)hlo_expect(cursor, "(");
  while (!hlo_failed(cursor) && hlo_peek(cursor) != ')') {
    hlo_attr_t dict = {0};
    const char *name = hlo_name(cursor, '%', "an argument such as %arg0");
    (void)hlo_expect(cursor, ":");
    const hlo_type_t *type = hlo_parse_type(cursor);
    add_pointer(cursor, &args, hlo_scope_define(cursor, name, 0, type, NULL, args.count));
    if (hlo_peek(cursor) == '{') hlo_parse_dict(cursor, &dict);
    add_pointer(cursor, &names, hlo_location(cursor));
    if (!hlo_accept(cursor, ",")) break;
  }
  (void)hlo_expect(cursor, ")");
  region->args = args.items;
  region->arg_count = args.count;
  if (out_names) *out_names = names.items;
}

void hlo_parse_region(hlo_cursor_t *cursor, hlo_region_t *region, const char ***out_names) {
  (void)hlo_expect(cursor, "{");
  if (hlo_peek(cursor) == '^') {
    (void)hlo_name(cursor, '^', "a block");
    if (hlo_peek(cursor) == '(') hlo_parse_arguments(cursor, region, out_names);
    (void)hlo_expect(cursor, ":");
  }
  hlo_parse_operations(cursor, region);
  (void)hlo_expect(cursor, "}");
}

static void add_region(reading_t *reading, const hlo_region_t *region) {
  hlo_region_t *item = hlo_list_add(reading->cursor, &reading->regions, sizeof *item);
  if (item) *item = *region;
}

static void parse_single_region(reading_t *reading) {
  hlo_cursor_t *cursor = reading->cursor;
  hlo_region_t region = {0};
  hlo_scope_begin(cursor, false);
  region.depth = hlo_scope_depth(cursor);
  hlo_parse_region(cursor, &region, NULL);
  hlo_scope_end(cursor);
  add_region(reading, &region);
}

/* Reads ({...}, {...}). */
static void parse_regions(reading_t *reading) {
  hlo_cursor_t *cursor = reading->cursor;
  (void)hlo_expect(cursor, "(");
  do {
    parse_single_region(reading);
  } while (!hlo_failed(cursor) && hlo_accept(cursor, ","));
  (void)hlo_expect(cursor, ")");
}

/* Reads the bodies of a while: cond {...} do {...}. The arguments have the names of the operands
 * and the types of the results. */
static void parse_loop_regions(reading_t *reading) {
  static const char *const words[] = {"cond", "do"};
  hlo_cursor_t *cursor = reading->cursor;
  const char *const *names = reading->names.items;
  if (hlo_accept(cursor, "attributes")) hlo_parse_dict(cursor, &reading->op->attrs);
  for (int i = 0; i < 2 && !hlo_failed(cursor); i++) {
    hlo_region_t region = {0};
    hlo_list_t args = {0};
    (void)hlo_expect(cursor, words[i]);
    hlo_scope_begin(cursor, false);
    region.depth = hlo_scope_depth(cursor);
    for (int32_t k = 0; k < reading->names.count && !hlo_failed(cursor); k++) {
      const hlo_value_t *operand = ((hlo_value_t **)reading->operands.items)[k];
      add_pointer(cursor, &args, hlo_scope_define(cursor, names[k], 0, operand->type, NULL, k));
    }
    region.args = args.items;
    region.arg_count = args.count;
    hlo_parse_region(cursor, &region, NULL);
    hlo_scope_end(cursor);
    add_region(reading, &region);
  }
}

/* Reads the body of a reduce: reducer(%a: type, %b: type) (%c: type, %d: type) {...}. Each bracket
 * has both arguments of one operand; the region takes all first ones, then all second ones. */
static void parse_reducer(reading_t *reading) {
  hlo_cursor_t *cursor = reading->cursor;
  hlo_region_t region = {0};
  hlo_list_t first = {0};
  hlo_list_t second = {0};
  hlo_scope_begin(cursor, false);
  region.depth = hlo_scope_depth(cursor);
  while (hlo_peek(cursor) == '(') {
    hlo_region_t pair = {0};
    const char *at = cursor->at;
    hlo_parse_arguments(cursor, &pair, NULL);
    if (pair.arg_count != 2)
      hlo_fail_at(cursor, at, "expected two arguments for each operand of a reduction, found %d",
                  (int)pair.arg_count);
    if (hlo_failed(cursor)) return;
    add_pointer(cursor, &first, pair.args[0]);
    add_pointer(cursor, &second, pair.args[1]);
  }
  for (int32_t i = 0; i < second.count && !hlo_failed(cursor); i++)
    add_pointer(cursor, &first, ((hlo_value_t **)second.items)[i]);
  for (int32_t i = 0; i < first.count && !hlo_failed(cursor); i++)
    ((hlo_value_t **)first.items)[i]->result = i;
  region.args = first.items;
  region.arg_count = first.count;
  hlo_parse_region(cursor, &region, NULL);
  hlo_scope_end(cursor);
  add_region(reading, &region);
}

/* Makes the region that `applies stablehlo.maximum` stands for. */
static void make_applied_region(reading_t *reading, const char *name) {
  hlo_cursor_t *cursor = reading->cursor;
  hlo_op_t *op = hlo_take(cursor, 2, sizeof *op);
  hlo_region_t region = {0};
  hlo_list_t args = {0};
  hlo_list_t result = {0};
  hlo_type_t *type = hlo_take(cursor, 1, sizeof *type);
  if (!op || !type) return;
  if (reading->operands.count != 1) {
    hlo_fail_at(cursor, reading->op->at, "`applies` is for a reduction with one operand");
    return;
  }
  *type = *((hlo_value_t **)reading->operands.items)[0]->type;
  type->ndim = 0;
  hlo_scope_begin(cursor, false);
  region.depth = hlo_scope_depth(cursor);
  add_pointer(cursor, &args, hlo_scope_define(cursor, "", 0, type, NULL, 0));
  add_pointer(cursor, &args, hlo_scope_define(cursor, "", 0, type, NULL, 1));
  add_pointer(cursor, &result, hlo_scope_define(cursor, "", 0, type, op, 0));
  hlo_scope_end(cursor);
  op[0] = (hlo_op_t){.next = op + 1,
                     .name = name,
                     .at = reading->op->at,
                     .operands = args.items,
                     .operand_count = 2,
                     .results = result.items,
                     .result_count = 1};
  op[1] = (hlo_op_t){.name = "stablehlo.return",
                     .at = reading->op->at,
                     .operands = result.items,
                     .operand_count = 1};
  region.args = args.items;
  region.arg_count = 2;
  region.first = op;
  region.last = op + 1;
  add_region(reading, &region);
}

/* short forms */

/* Reads [0:2, 1:4:2] as a list of lists of integers. */
static void parse_ranges(reading_t *reading) {
  hlo_cursor_t *cursor = reading->cursor;
  hlo_list_t ranges = {0};
  const char *at = cursor->at;
  (void)hlo_expect(cursor, "[");
  while (!hlo_failed(cursor) && hlo_peek(cursor) != ']') {
    hlo_list_t parts = {0};
    do {
      int64_t number = 0;
      (void)hlo_integer(cursor, &number);
      hlo_attr_t *part = hlo_list_add(cursor, &parts, sizeof *part);
      if (part) *part = (hlo_attr_t){.kind = HLO_ATTR_INT, .at = at, .integer = number};
    } while (!hlo_failed(cursor) && hlo_accept(cursor, ":"));
    hlo_attr_t *range = hlo_list_add(cursor, &ranges, sizeof *range);
    if (range) *range = hlo_attr_of_list(at, &parts);
    if (!hlo_accept(cursor, ",")) break;
  }
  (void)hlo_expect(cursor, "]");
  hlo_attr_t list = hlo_attr_of_list(at, &ranges);
  hlo_dict_add(cursor, &reading->op->attrs, "ranges", &list);
}

static void add_count(hlo_cursor_t *cursor, hlo_list_t *list, int32_t count) {
  hlo_attr_t *item = hlo_list_add(cursor, list, sizeof *item);
  if (item) *item = (hlo_attr_t){.kind = HLO_ATTR_INT, .at = cursor->at, .integer = count};
}

/* Reads the rest of chlo.scan(%inputs) inits(%carries) dimension=0 attributes {...} {...}. The
 * numbers of inputs and carries become an attribute, as in the generic form. */
static void parse_scan(reading_t *reading) {
  hlo_cursor_t *cursor = reading->cursor;
  hlo_list_t counts = {0};
  hlo_attr_t axis = {.kind = HLO_ATTR_INT, .at = cursor->at};
  parse_group(reading);
  const int32_t inputs = reading->operands.count;
  (void)hlo_expect(cursor, "inits");
  parse_group(reading);
  add_count(cursor, &counts, inputs);
  add_count(cursor, &counts, reading->operands.count - inputs);
  const hlo_attr_t sizes = hlo_attr_of_list(axis.at, &counts);
  hlo_dict_add(cursor, &reading->op->attrs, "operandSegmentSizes", &sizes);
  (void)hlo_expect(cursor, "dimension");
  (void)hlo_expect(cursor, "=");
  (void)hlo_integer(cursor, &axis.integer);
  hlo_dict_add(cursor, &reading->op->attrs, "dimension", &axis);
  if (hlo_accept(cursor, "attributes")) hlo_parse_dict(cursor, &reading->op->attrs);
  parse_single_region(reading);
}

/* Reads `name = value`, a constant, or a word, which becomes an attribute word0, word1, ... */
static void parse_word_item(reading_t *reading) {
  static const char *const names[] = {"word0", "word1", "word2", "word3"};
  hlo_cursor_t *cursor = reading->cursor;
  hlo_attr_t attr = {0};
  if (hlo_sees(cursor, "dense") || hlo_sees(cursor, "dense_resource")) {
    hlo_parse_dense(cursor, &attr);
    reading->literal = attr.type;
    hlo_dict_add(cursor, &reading->op->attrs, "value", &attr);
    return;
  }
  attr = (hlo_attr_t){.kind = HLO_ATTR_WORD, .at = cursor->at};
  attr.text = hlo_word(cursor, "an operand or an attribute");
  if (hlo_accept(cursor, "=")) {
    const char *name = attr.text;
    char c = hlo_peek(cursor);
    /* What follows after the colon are the types of the operation, not the type of the number. */
    if (isdigit((unsigned char)c) || c == '-') {
      attr.kind = HLO_ATTR_INT;
      (void)hlo_integer(cursor, &attr.integer);
    } else {
      hlo_parse_attr(cursor, &attr);
    }
    hlo_dict_add(cursor, &reading->op->attrs, name, &attr);
  } else if (reading->word_count < 4) {
    hlo_dict_add(cursor, &reading->op->attrs, names[reading->word_count++], &attr);
  } else {
    hlo_expected(cursor, "the types of %.60s after ':'", reading->op->name);
  }
}

static void parse_short_item(reading_t *reading, char c) {
  hlo_cursor_t *cursor = reading->cursor;
  hlo_attr_t attr = {0};
  if (c == '%') {
    parse_operand(cursor, &reading->operands, NULL);
  } else if (c == '(') {
    parse_group(reading);
  } else if (c == '[') {
    parse_ranges(reading);
  } else if (c == '{') {
    hlo_parse_dict(cursor, &reading->op->attrs);
  } else if (c == '@' || c == '"') {
    hlo_parse_attr(cursor, &attr);
    hlo_dict_add(cursor, &reading->op->attrs, "callee", &attr);
  } else if (c == '#') {
    hlo_parse_attr(cursor, &attr);
  } else if (c == '<' && strncmp(reading->op->name, "sdy.", 4) == 0) {
    hlo_skip_bracket(cursor);
  } else {
    parse_word_item(reading);
  }
}

static void parse_short_form(reading_t *reading) {
  hlo_cursor_t *cursor = reading->cursor;
  char c = hlo_peek(cursor);
  while (c && c != ':' && c != '}' && !hlo_sees(cursor, "loc")) {
    parse_short_item(reading, c);
    if (reading->literal) break;
    bool is_separated = hlo_accept(cursor, ",");
    c = hlo_peek(cursor);
    /* The next line begins with the names of its results. */
    if (c == '%' && !is_separated && reading->operands.count) break;
  }
}

static void parse_generic_form(reading_t *reading) {
  hlo_cursor_t *cursor = reading->cursor;
  hlo_attr_t *attrs = &reading->op->attrs;
  parse_group(reading);
  if (hlo_peek(cursor) == '[')
    hlo_fail_at(cursor, cursor->at, "an operation with successors is not supported");
  if (hlo_accept(cursor, "<")) {
    hlo_parse_dict(cursor, attrs);
    (void)hlo_expect(cursor, ">");
  }
  if (hlo_peek(cursor) == '(') parse_regions(reading);
  if (hlo_peek(cursor) == '{') hlo_parse_dict(cursor, attrs);
  if (!hlo_sees(cursor, ":")) hlo_expected(cursor, "':' and the types of %.60s", reading->op->name);
}

/* types */

static void check_operand_types(reading_t *reading, const hlo_list_t *types) {
  const hlo_op_t *op = reading->op;
  hlo_cursor_t *cursor = reading->cursor;
  const hlo_type_t *const *stated = types->items;
  if (types->count != op->operand_count)
    hlo_fail_at(cursor, op->at, "%.60s has %d operands, but states %d types of operands", op->name,
                (int)op->operand_count, (int)types->count);
  for (int32_t i = 0; i < types->count && !hlo_failed(cursor); i++) {
    char expected[160] = "", found[160] = "";
    if (hlo_type_equal(stated[i], op->operands[i]->type)) continue;
    hlo_type_text(op->operands[i]->type, expected, sizeof expected);
    hlo_type_text(stated[i], found, sizeof found);
    hlo_fail_at(cursor, op->at,
                "%.60s: operand %%%.60s is a %s, but the operation states %s: the file is damaged",
                op->name, op->operands[i]->name, expected, found);
  }
}

/* Reads the types and returns those of the results. */
static hlo_list_t parse_result_types(reading_t *reading, int32_t result_count) {
  hlo_cursor_t *cursor = reading->cursor;
  hlo_list_t operands = {0};
  hlo_list_t results = {0};
  bool has_arrow = false;
  if (reading->literal) add_pointer(cursor, &results, reading->literal);
  if (reading->literal || !hlo_accept(cursor, ":")) return results;
  hlo_parse_signature(cursor, &operands, &results, &has_arrow);
  if (hlo_failed(cursor)) return results;
  if (has_arrow) {
    check_operand_types(reading, &operands);
    return results;
  }
  if (operands.count == result_count) return operands;
  /* One type for all, or, as for a select, the type of the result as the last one. */
  if (result_count == 1 && operands.count)
    add_pointer(cursor, &results, ((const hlo_type_t **)operands.items)[operands.count - 1]);
  return results;
}

/* results */

typedef struct result_name_t {
  const char *name;
  int64_t number;
} result_name_t;

/* Reads %a, %b:2 = and lists each name with each number. */
static void parse_result_names(hlo_cursor_t *cursor, hlo_list_t *names) {
  while (hlo_peek(cursor) == '%') {
    int64_t count = 1;
    const char *at = cursor->at;
    const char *name = hlo_name(cursor, '%', "a result");
    if (hlo_accept(cursor, ":")) (void)hlo_integer(cursor, &count);
    if (count < 1 || count > HLO_LIST_MAX)
      hlo_fail_at(cursor, at, "%lld results are not supported", (long long)count);
    for (int64_t i = 0; i < count && !hlo_failed(cursor); i++) {
      result_name_t *item = hlo_list_add(cursor, names, sizeof *item);
      if (item) *item = (result_name_t){name, i};
    }
    if (!hlo_accept(cursor, ",")) break;
  }
  if (names->count) (void)hlo_expect(cursor, "=");
}

static void define_results(reading_t *reading, const hlo_list_t *names, const hlo_list_t *types) {
  hlo_cursor_t *cursor = reading->cursor;
  hlo_op_t *op = reading->op;
  const result_name_t *items = names->items;
  op->results = hlo_take(cursor, (size_t)types->count, sizeof *op->results);
  op->result_count = types->count;
  if (names->count && names->count != types->count)
    hlo_fail_at(cursor, op->at, "%.60s defines %d names, but has %d results", op->name,
                (int)names->count, (int)types->count);
  for (int32_t i = 0; i < types->count && !hlo_failed(cursor); i++) {
    const result_name_t name = names->count ? items[i] : (result_name_t){"", 0};
    const hlo_type_t *type = ((const hlo_type_t **)types->items)[i];
    op->results[i] = hlo_scope_define(cursor, name.name, name.number, type, op, i);
  }
}

/* operations */

/* Returns the full name of an operation that has a short one. */
static const char *full_name(const char *name) {
  if (strcmp(name, "return") == 0) return "func.return";
  return strcmp(name, "call") == 0 ? "func.call" : name;
}

static void read_forms(reading_t *reading, bool is_generic) {
  hlo_cursor_t *cursor = reading->cursor;
  hlo_op_t *op = reading->op;
  if (is_generic)
    parse_generic_form(reading);
  else if (strcmp(op->name, "chlo.scan") == 0)
    parse_scan(reading);
  else
    parse_short_form(reading);
  for (int32_t i = 0; i < reading->inits.count && !hlo_failed(cursor); i++)
    add_pointer(cursor, &reading->operands, ((hlo_value_t **)reading->inits.items)[i]);
  op->operands = reading->operands.items;
  op->operand_count = reading->operands.count;
}

static void read_trailing_regions(reading_t *reading) {
  hlo_cursor_t *cursor = reading->cursor;
  const hlo_attr_t *word = hlo_attr_find(&reading->op->attrs, "word0");
  const hlo_attr_t *applied = hlo_attr_find(&reading->op->attrs, "word1");
  reading->operands.count -= reading->inits.count;
  if (strcmp(reading->op->name, "stablehlo.while") == 0 && !reading->regions.count)
    parse_loop_regions(reading);
  else if (hlo_accept(cursor, "reducer"))
    parse_reducer(reading);
  else if (word && applied && strcmp(word->text, "applies") == 0)
    make_applied_region(reading, applied->text);
}

static hlo_op_t *parse_operation(hlo_cursor_t *cursor) {
  hlo_op_t *op = hlo_take(cursor, 1, sizeof *op);
  reading_t reading = {.cursor = cursor, .op = op};
  hlo_list_t names = {0};
  if (!op) return NULL;
  (void)hlo_peek(cursor);
  op->at = cursor->at;
  op->attrs = (hlo_attr_t){.kind = HLO_ATTR_DICT, .at = op->at};
  parse_result_names(cursor, &names);
  bool is_generic = hlo_peek(cursor) == '"';
  op->name = full_name(is_generic ? hlo_text(cursor, NULL)
                                  : hlo_word(cursor, "an operation such as stablehlo.add"));
  if (hlo_failed(cursor)) return NULL;
  read_forms(&reading, is_generic);
  hlo_list_t types = parse_result_types(&reading, names.count);
  if (!hlo_failed(cursor)) read_trailing_regions(&reading);
  op->regions = reading.regions.items;
  op->region_count = reading.regions.count;
  (void)hlo_location(cursor);
  define_results(&reading, &names, &types);
  return hlo_failed(cursor) ? NULL : op;
}

void hlo_parse_operations(hlo_cursor_t *cursor, hlo_region_t *region) {
  if (hlo_enter(cursor))
    while (hlo_peek(cursor) && hlo_peek(cursor) != '}') {
      hlo_op_t *op;
      if (hlo_peek(cursor) == '^')
        hlo_fail_at(cursor, cursor->at, "a region with several blocks is not supported");
      op = parse_operation(cursor);
      if (!op) break;
      if (region->last)
        region->last->next = op;
      else
        region->first = op;
      region->last = op;
    }
  hlo_leave(cursor);
}
