/* Finds the row that a node fits: reads the core side of a row, compares it with the node, and
 * notes which names its ONNX side gives to inputs and attributes. Called by export.c for all nodes
 * of a graph. Invariant: what a row does not mention has its default in the node, so that nothing
 * is lost. */
#include <string.h>

#include "base/status.h"
#include "core/value.h"
#include "import/onnx/standard.h"
#include "import/onnx/standard_table.h"

typedef struct reading_t {
  const tn_node_t *node;
  const char *at;
  tn_arena_t arena;
  tn_standard_match_t *match;
  uint64_t mentioned; /* attributes of the schema */
  tn_text_t why;
  bool fits;
} reading_t;

static void refuse_row(reading_t *reading, const char *format, ...) TENON_FORMAT(2, 3);

/* Keeps the first reason. */
static void refuse_row(reading_t *reading, const char *format, ...) {
  va_list arguments;
  if (!reading->fits) return;
  reading->fits = false;
  if (reading->why.size) tn_text_add(&reading->why, "; ");
  va_start(arguments, format);
  tn_text_list(&reading->why, format, arguments);
  va_end(arguments);
}

static bool skip_mark(reading_t *reading, char c) {
  while (*reading->at == ' ')
    reading->at++;
  if (*reading->at != c) return false;
  reading->at++;
  return true;
}

/* Reads up to one of the characters, which follows the word. */
static tn_words_t take_until(reading_t *reading, const char *ends) {
  while (*reading->at == ' ')
    reading->at++;
  tn_words_t word = {reading->at, strcspn(reading->at, ends)};
  reading->at += word.size;
  return word;
}

/* Reads a literal: a word, 'text', or a list. */
static tn_words_t take_literal(reading_t *reading) {
  if (skip_mark(reading, '\'')) {
    tn_words_t word = take_until(reading, "'");
    (void)skip_mark(reading, '\'');
    return word;
  }
  if (*reading->at != '[') return take_until(reading, ",)}{");
  tn_words_t word = take_until(reading, "]");
  if (skip_mark(reading, ']')) word.size++;
  return word;
}

/* Whether the node's attribute has the value that a literal states. */
static bool has_value(reading_t *reading, uint32_t index, tn_words_t literal) {
  const tn_schema_t *schema = &reading->node->op->schema;
  const char *text = tn_arena_text(&reading->arena, literal.text, literal.size);
  tenon_value_t value;
  if (!text ||
      tn_value_parse(schema, &schema->attrs[index], text, &reading->arena, &value) != TENON_OK)
    return false;
  const tenon_value_t *own = &reading->node->attrs[index];
  /* ONNX states numbers with 32 bits. */
  if (own->kind == TENON_KIND_FLOAT && value.kind == TENON_KIND_FLOAT)
    return !((float)own->as.f < (float)value.as.f) && !((float)own->as.f > (float)value.as.f);
  return tn_value_equal(own, &value);
}

/* Reads "{NOTSET: explicit, ...}" and sets the ONNX value for the node's value; a value that is not
 * listed has the same name in ONNX. */
static void read_choices(reading_t *reading, tn_standard_attr_t *attr) {
  while (!skip_mark(reading, '}') && *reading->at) {
    tn_words_t from = take_until(reading, ":");
    (void)skip_mark(reading, ':');
    (void)skip_mark(reading, ' ');
    tn_words_t to = take_literal(reading);
    (void)skip_mark(reading, ',');
    if (has_value(reading, attr->index, to)) attr->choice = from;
  }
}

/* Reads the source of an attribute, after "name=". */
static void read_source(reading_t *reading, uint32_t index) {
  tn_standard_match_t *match = reading->match;
  const tn_argument_t *argument = &reading->node->op->schema.attrs[index];
  tn_standard_attr_t attr = {.index = index};
  const char c = *reading->at;
  reading->mentioned |= (uint64_t)1 << index;
  if (skip_mark(reading, '#')) return;
  if (c == ':') {
    refuse_row(reading, "attribute %s has no counterpart", argument->name);
    return;
  }
  bool is_literal = strchr("'[-.0123456789", c) || strncmp(reading->at, "True", 4) == 0 ||
                    strncmp(reading->at, "False", 5) == 0;
  if (is_literal) {
    tn_words_t literal = take_literal(reading);
    if (!has_value(reading, index, literal))
      refuse_row(reading, "attribute %s is not %.*s", argument->name, (int)literal.size,
                 literal.text);
    return;
  }
  attr.name = take_until(reading, "?,){");
  bool is_default = tn_value_equal(&reading->node->attrs[index], &argument->value) &&
                    (argument->has_default || argument->is_optional);
  if (skip_mark(reading, '?')) {
    tn_words_t literal = take_literal(reading);
    is_default = *literal.text != ':' && has_value(reading, index, literal);
  }
  if (skip_mark(reading, '{')) read_choices(reading, &attr);
  if (is_default || match->attr_count == TN_STANDARD_ITEMS) return;
  if (reading->node->attrs[index].kind == TENON_KIND_NONE) return;
  match->attrs[match->attr_count++] = attr;
}

/* Whether the ONNX side marks an input as optional: "bias?". */
static bool is_optional_in(const char *left, tn_words_t word) {
  const char *end = strstr(left, ") = ");
  for (const char *at = left + 1; at < end; at++)
    if (strncmp(at, word.text, word.size) == 0 && at[word.size] == '?' && strchr("( ", at[-1]))
      return true;
  return false;
}

/* Reads one argument of the core operator: "name=source" or an operand. */
static void read_argument(reading_t *reading) {
  const tn_schema_t *schema = &reading->node->op->schema;
  tn_standard_match_t *match = reading->match;
  tn_words_t word = take_until(reading, "=,)");
  if (skip_mark(reading, '=')) {
    int32_t index = tn_schema_attr(schema, word.text, word.size);
    if (index < 0 || index > 63)
      refuse_row(reading, "bug in the export: %.*s is no attribute", (int)word.size, word.text);
    else
      read_source(reading, (uint32_t)index);
    return;
  }
  bool is_absent = word.size == 1 && *word.text == '_';
  for (size_t i = 0; i < word.size; i++)
    if (strchr("@:[]", word.text[i])) refuse_row(reading, "its row makes constants of attributes");
  if (match->input_count == schema->input_count || match->input_count == TN_STANDARD_ITEMS) {
    refuse_row(reading, "bug in the export: a row has too many operands");
    return;
  }
  const tn_argument_t *input = &schema->inputs[match->input_count];
  bool is_given = reading->node->operands[match->input_count].count > 0;
  if (is_absent && is_given) refuse_row(reading, "input %s has no counterpart", input->name);
  if (!is_given && !is_absent && input->kind != TENON_KIND_TENSORS &&
      !is_optional_in(match->left, word))
    refuse_row(reading, "ONNX's operator needs the input %s", input->name);
  match->inputs[match->input_count++] = word;
}

static void check_rest(reading_t *reading) {
  const tn_node_t *node = reading->node;
  const tn_schema_t *schema = &node->op->schema;
  for (uint32_t i = reading->match->input_count; i < schema->input_count; i++)
    if (node->operands[i].count)
      refuse_row(reading, "ONNX's operator has no input %s", schema->inputs[i].name);
  for (uint32_t i = 0; i < schema->attr_count && i < 64; i++)
    if (!(reading->mentioned >> i & 1) &&
        !tn_value_equal(&node->attrs[i], &schema->attrs[i].value)) {
      tn_text_t value = {0};
      tn_value_print(&schema->attrs[i], &node->attrs[i], &value);
      refuse_row(reading, "ONNX's operator has no attribute for %s=%s", schema->attrs[i].name,
                 tn_text_get(&value));
      tn_text_clear(&value);
    }
}

/* Reads the core side of a row. Returns true if the node fits. */
static bool see_row(void *context, const tn_lowering_t *row) {
  reading_t *reading = context;
  *reading->match = (tn_standard_match_t){.left = row->text, .since = row->since};
  reading->mentioned = 0;
  reading->fits = true;
  reading->at = strchr(strstr(row->text, ") = ") + 4, '(') + 1;
  while (reading->fits && *reading->at && !skip_mark(reading, ')')) {
    read_argument(reading);
    (void)skip_mark(reading, ',');
  }
  check_rest(reading);
  return reading->fits;
}

bool tn_standard_match(const tn_node_t *node, tn_standard_match_t *out_match, tn_text_t *why) {
  reading_t reading = {.node = node, .match = out_match};
  bool fits = tn_standard_rows_of(node->op->schema.name, see_row, &reading);
  if (!fits)
    tn_text_add(why, "%s", reading.why.size ? tn_text_get(&reading.why) : "no ONNX operator");
  tn_text_clear(&reading.why);
  tn_arena_clear(&reading.arena);
  return fits;
}
