/* Reads TENON_TYPES; see types.h. Libraries are checked when they are loaded, so the text follows
 * its grammar. */
#include "types.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"

typedef struct rule_t {
  char *names; /* "a, b" */
  char *value; /* the set, or the source */
  bool is_set;
} rule_t;

enum { RULES_MOST = 3 * OPERATOR_MOST };

typedef struct rules_t {
  char *text; /* a copy, which the rules point into */
  rule_t items[RULES_MOST];
  size_t count;
} rules_t;

static char *trim(char *text) {
  while (isspace((unsigned char)*text))
    text++;
  size_t size = strlen(text);
  while (size && isspace((unsigned char)text[size - 1]))
    text[--size] = 0;
  return text;
}

static bool split_rules(rules_t *rules, const char *types) {
  char *rest = NULL;
  rules->count = 0;
  rules->text = strdup(types ? types : "");
  if (!rules->text) return false;
  for (char *rule = strtok_r(rules->text, ";", &rest); rule; rule = strtok_r(NULL, ";", &rest)) {
    char *sign = strpbrk(rule, ":=");
    if (!sign || rules->count == RULES_MOST) continue;
    rule_t *made = &rules->items[rules->count++];
    made->is_set = *sign == ':';
    *sign = 0;
    made->names = trim(rule);
    made->value = trim(sign + 1);
  }
  return true;
}

/* Returns whether a list with commas has a name. */
static bool has_name(const char *names, const char *name) {
  const size_t size = strlen(name);
  for (const char *at = names; *at;) {
    at += strspn(at, ", \t\n");
    const size_t word = strcspn(at, ", \t\n");
    if (word == size && strncmp(at, name, size) == 0) return true;
    at += word;
  }
  return false;
}

static const rule_t *find_rule(const rules_t *rules, const char *name) {
  for (size_t i = 0; i < rules->count; i++)
    if (has_name(rules->items[i].names, name)) return &rules->items[i];
  return NULL;
}

/* ---- sets of dtypes ---- */

static const char *const families[][2] = {
    {"float", "half|bfloat16|float|double"},
    {"int", "int8|int16|int32|int64"},
    {"uint", "uint8|uint16|uint32|uint64"},
    {"complex", "complex64|complex128"},
    {"number", "half|bfloat16|float|double|int8|int16|int32|int64|uint8|uint16|uint32|uint64"},
};

static bool append_types(char *set, size_t capacity, const char *words) {
  const size_t used = strlen(set);
  const size_t left = capacity - used;
  int size = snprintf(set + used, left, "%s%s", used > 1 ? ", " : "", words);
  for (char *c = set + used; *c; c++)
    if (*c == '|') *c = ',';
  return size >= 0 && (size_t)size < left;
}

static bool append_member(char *set, size_t capacity, const char *word) {
  tenon_dtype_t dtype;
  for (size_t i = 0; i < sizeof families / sizeof *families; i++)
    if (strcmp(word, families[i][0]) == 0) return append_types(set, capacity, families[i][1]);
  const char *found =
      tenon_dtype_parse(word, &dtype) == TENON_OK ? dtype_word(tf_dtype_to(dtype)) : NULL;
  return !found || append_types(set, capacity, found);
}

/* Writes "{float, double}", or "" for all dtypes. TensorFlow has no word for dtypes of 8 bits in a
 * set, so a set with one of them is not checked before the call. Returns NULL, or a reason. */
static const char *write_set(const char *value, char *set, size_t capacity) {
  char *rest = NULL;
  char *copy = strdup(value);
  bool fits = copy != NULL;
  snprintf(set, capacity, "{");
  for (char *word = copy ? strtok_r(copy, "|", &rest) : NULL; word && fits;
       word = strtok_r(NULL, "|", &rest)) {
    word = trim(word);
    if (strcmp(word, "any") == 0) {
      *set = 0;
      break;
    }
    fits = append_member(set, capacity - 2, word);
  }
  free(copy);
  if (!fits) return "its set of dtypes is too long";
  if (strcmp(set, "{") == 0) return "it takes dtypes that TensorFlow does not have";
  if (strstr(set, "float8")) *set = 0;
  if (*set) strcat(set, "}");
  return NULL;
}

/* ---- arguments ---- */

static side_t *find_side(operator_t *self, const char *name) {
  for (uint32_t i = 0; i < self->input_count; i++)
    if (strcmp(self->inputs[i].of.name, name) == 0) return &self->inputs[i];
  for (uint32_t o = 0; o < self->output_count; o++)
    if (strcmp(self->outputs[o].of.name, name) == 0) return &self->outputs[o];
  return NULL;
}

static const attribute_t *find_type_attribute(const operator_t *self, const char *name) {
  for (uint32_t i = 0; i < self->attr_count; i++)
    if (strcmp(self->attrs[i].of.name, name) == 0 && self->attrs[i].encoding == ENCODING_TYPE)
      return &self->attrs[i];
  return NULL;
}

/* Gives a side an attribute of its own: "T" if nothing has it yet, otherwise "T_NAME". */
static void own_type(side_t *side, const char *name, bool is_first) {
  if (is_first)
    snprintf(side->type, sizeof side->type, "T");
  else
    snprintf(side->type, sizeof side->type, "T_%.*s", NAME_MOST - 3, name);
  side->defines_type = true;
}

typedef struct reader_t {
  operator_t *self;
  rules_t rules;
  bool has_first; /* an attribute "T" exists */
} reader_t;

/* Takes the type of another side over. Items of a list with dtypes of their own are no source. */
static bool copy_type(side_t *side, const side_t *from) {
  if (from->is_types || (!*from->type && !from->dtype)) return false;
  memcpy(side->type, from->type, sizeof side->type);
  side->dtype = from->dtype;
  return true;
}

static const char *read_set(reader_t *r, side_t *side, const rule_t *rule) {
  for (uint32_t i = 0; i < r->self->input_count; i++) {
    const side_t *other = &r->self->inputs[i];
    if (other != side && has_name(rule->names, other->of.name) && copy_type(side, other))
      return NULL;
  }
  const char *why = write_set(rule->value, side->set, sizeof side->set);
  own_type(side, side->name, !r->has_first);
  r->has_first = true;
  return why;
}

static const char *read_variable(reader_t *r, side_t *side, const char *name) {
  const rule_t *rule = find_rule(&r->rules, name);
  char attr[NAME_MOST];
  snprintf(attr, sizeof attr, "T_%.*s", NAME_MOST - 3, name);
  memcpy(side->type, attr, sizeof attr);
  for (uint32_t i = 0; i < r->self->input_count; i++)
    if (&r->self->inputs[i] != side && strcmp(r->self->inputs[i].type, attr) == 0) return NULL;
  side->defines_type = true;
  return write_set(rule->value, side->set, sizeof side->set);
}

/* An argument of any dtype, or a result whose dtype inference states. */
static void read_unknown(side_t *side) {
  own_type(side, side->name, false);
  side->is_types = side->of.kind == TENON_KIND_TENSORS;
  if (side->is_types) *side->count = 0;
}

static const char *read_side(reader_t *r, side_t *side, int depth);

static const char *read_source(reader_t *r, side_t *side, const char *source, int depth) {
  tenon_dtype_t dtype;
  side_t *from = find_side(r->self, source);
  const rule_t *variable = from ? NULL : find_rule(&r->rules, source);
  if (from && depth < RULES_MOST) {
    const char *why = !*from->type && !from->dtype ? read_side(r, from, depth + 1) : NULL;
    if (why) return why;
    if (!copy_type(side, from)) read_unknown(side);
    return NULL;
  }
  if (variable && variable->is_set) return read_variable(r, side, source);
  const attribute_t *attribute = find_type_attribute(r->self, source);
  if (attribute) {
    memcpy(side->type, attribute->name, sizeof side->type);
    return NULL;
  }
  if (strcmp(source, "?") != 0 && tenon_dtype_parse(source, &dtype) == TENON_OK) {
    side->dtype = tf_dtype_to(dtype);
    return side->dtype ? NULL : "it has a dtype that TensorFlow does not have";
  }
  read_unknown(side);
  return NULL;
}

static const char *read_side(reader_t *r, side_t *side, int depth) {
  const rule_t *rule = find_rule(&r->rules, side->of.name);
  if (*side->type || side->dtype) return NULL;
  if (rule && rule->is_set) return read_set(r, side, rule);
  return read_source(r, side, rule ? rule->value : "?", depth);
}

const char *types_read(operator_t *self, const char *types) {
  reader_t r = {.self = self};
  const char *why = split_rules(&r.rules, types) ? NULL : "out of memory";
  for (uint32_t i = 0; i < self->input_count && !why; i++)
    why = read_side(&r, &self->inputs[i], 0);
  for (uint32_t o = 0; o < self->output_count && !why; o++)
    why = read_side(&r, &self->outputs[o], 0);
  free(r.rules.text);
  return why;
}
