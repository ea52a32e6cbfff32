/* The parser of plans; see plan.h. */
#include "plan.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATEMENTS_MOST = 16 };

typedef struct parser_t {
  const char *at;
  plan_t *plan;
  char names[STATEMENTS_MOST][PLAN_NAME_SIZE]; /* of statements */
  int32_t nodes[STATEMENTS_MOST];
  int32_t statement_count;
  tenon_status_t status;
} parser_t;

/* ---- reading --------------------------------------------------------------------------------- */

static int32_t fail_parser(parser_t *p, const char *why) {
  char text[400];
  if (p->status != TENON_OK) return -1;
  snprintf(text, sizeof text, "the row of TensorFlow's operator %s is not valid: %s, at \"%.40s\"",
           p->plan->row->op, why, p->at);
  p->status = tenon_error_set(TENON_INVALID, text);
  return -1;
}

static void skip_blanks(parser_t *p) {
  while (isspace((unsigned char)*p->at))
    p->at++;
}

static bool accept(parser_t *p, const char *sign) {
  skip_blanks(p);
  const size_t size = strlen(sign);
  if (strncmp(p->at, sign, size) != 0) return false;
  p->at += size;
  return true;
}

static void expect(parser_t *p, const char *sign) {
  char text[40];
  if (accept(p, sign)) return;
  snprintf(text, sizeof text, "'%s' is expected", sign);
  fail_parser(p, text);
}

static bool is_name(int c) { return isalnum(c) || c == '_' || c == ':' || c == '.'; }

/* Reads a name such as core::add. Writes "" if there is none. */
static void read_name(parser_t *p, char *out) {
  size_t size = 0;
  skip_blanks(p);
  while (is_name((unsigned char)p->at[size]))
    size++;
  if (size >= PLAN_NAME_SIZE) {
    fail_parser(p, "the name is too long");
    size = 0;
  }
  memcpy(out, p->at, size);
  out[size] = 0;
  p->at += size;
}

static int32_t add_node(parser_t *p, node_kind_t kind, node_t **out) {
  static node_t none;
  *out = &none;
  if (p->plan->node_count == PLAN_NODES_MOST) return fail_parser(p, "the formula is too long");
  *out = &p->plan->nodes[p->plan->node_count];
  **out = (node_t){.kind = kind};
  memset((*out)->operands, -1, sizeof(*out)->operands);
  return p->plan->node_count++;
}

/* ---- expressions ----------------------------------------------------------------------------- */

static int32_t parse_expression(parser_t *p);

static int32_t parse_number(parser_t *p) {
  node_t *node;
  char *end = NULL;
  const double real = strtod(p->at, &end);
  const bool is_real = strcspn(p->at, ".einf") < (size_t)(end - p->at);
  const int32_t index = add_node(p, is_real ? NODE_REAL : NODE_NUMBER, &node);
  node->real = real;
  node->number = is_real ? 0 : strtoll(p->at, NULL, 10);
  p->at = end;
  return index;
}

static int32_t parse_text(parser_t *p) {
  node_t *node;
  const size_t size = strcspn(p->at, "'");
  const int32_t index = add_node(p, NODE_TEXT, &node);
  if (size >= PLAN_NAME_SIZE || !p->at[size]) return fail_parser(p, "the text is too long");
  memcpy(node->text, p->at, size);
  node->text[size] = 0;
  p->at += size + 1;
  return index;
}

/* Parses operands up to `end`; keys are not allowed. */
static void parse_operands(parser_t *p, int32_t node, const char *end) {
  while (p->status == TENON_OK && !accept(p, end)) {
    if (p->plan->nodes[node].operand_count == PLAN_OPERANDS_MOST) {
      fail_parser(p, "there are too many operands");
      return;
    }
    const int32_t operand = parse_expression(p);
    node_t *to = &p->plan->nodes[node];
    to->operands[to->operand_count++] = (int8_t)operand;
    if (!accept(p, ",") && strncmp(p->at, end, 1) != 0) expect(p, end);
  }
}

/* Describes the parameters of the operator of a call. */
static void read_parameters(parser_t *p, node_t *node) {
  plan_t *plan = p->plan;
  tenon_op_info_t info = {.size = sizeof info};
  tenon_op_info(node->op, &info);
  node->operand_count = info.input_count + info.attr_count;
  if (node->operand_count > PLAN_OPERANDS_MOST ||
      node->operand_count > PLAN_PARAMETERS_MOST - plan->parameter_count) {
    fail_parser(p, "the operators have too many arguments");
    return;
  }
  tenon_argument_t *out = &plan->parameters[plan->parameter_count];
  node->parameters = out;
  plan->parameter_count += node->operand_count;
  for (int32_t i = 0; i < node->operand_count && p->status == TENON_OK; i++) {
    const bool is_input = i < info.input_count;
    const uint32_t role = is_input ? TENON_ARGUMENT_INPUT : TENON_ARGUMENT_ATTR;
    out[i].size = sizeof *out;
    p->status = tenon_op_argument(node->op, role, is_input ? i : i - info.input_count, &out[i]);
  }
}

/* Finds the parameter of an operator by its name. */
static int32_t find_parameter(const node_t *node, const char *name) {
  for (int32_t i = 0; i < node->operand_count; i++)
    if (!strcmp(node->parameters[i].name, name)) return i;
  return -1;
}

/* Reads "key=" if it stands here. */
static bool read_key(parser_t *p, char *out) {
  const char *before = p->at;
  read_name(p, out);
  if (*out && accept(p, "=")) return true;
  p->at = before;
  return false;
}

static void parse_arguments(parser_t *p, int32_t node) {
  char key[PLAN_NAME_SIZE];
  for (int32_t next = 0; p->status == TENON_OK && !accept(p, ")"); next++) {
    int32_t to = next;
    if (read_key(p, key)) to = find_parameter(&p->plan->nodes[node], key);
    if (to < 0 || to >= p->plan->nodes[node].operand_count) {
      fail_parser(p, "the operator has no such argument");
      return;
    }
    p->plan->nodes[node].operands[to] = (int8_t)parse_expression(p);
    if (!accept(p, ",") && *p->at != ')') expect(p, ")");
  }
}

static int32_t parse_op_call(parser_t *p, const char *name) {
  node_t *node;
  const int32_t index = add_node(p, NODE_CALL, &node);
  const tenon_status_t status = tenon_op_find(name, &node->op);
  if (status != TENON_OK) {
    if (p->status == TENON_OK) p->status = status;
    return -1;
  }
  read_parameters(p, node);
  parse_arguments(p, index);
  if (accept(p, "[")) {
    p->plan->nodes[index].index = atoi(p->at);
    p->at += strspn(p->at, "0123456789");
    expect(p, "]");
  }
  return index;
}

static int32_t parse_function(parser_t *p, const char *name) {
  node_t *node;
  const int32_t index = add_node(p, NODE_FUNCTION, &node);
  node->function = function_find(name);
  if (!node->function) return fail_parser(p, "there is no such function");
  parse_operands(p, index, ")");
  return index;
}

static int32_t parse_reference(parser_t *p, const char *name) {
  node_t *node;
  for (int32_t i = 0; i < p->statement_count; i++)
    if (!strcmp(p->names[i], name)) return p->nodes[i];
  for (int32_t i = 0; i < p->plan->input_count; i++)
    if (!strcmp(p->plan->inputs[i].name, name)) {
      const int32_t index = add_node(p, NODE_INPUT, &node);
      node->index = i;
      return index;
    }
  for (int32_t i = 0; i < p->plan->attribute_count; i++)
    if (!strcmp(p->plan->attributes[i].name, name)) {
      const int32_t index = add_node(p, NODE_ATTRIBUTE, &node);
      node->index = i;
      return index;
    }
  return fail_parser(p, "the name before is no input, attribute or statement");
}

static int32_t parse_constant(parser_t *p, int64_t number) {
  node_t *node;
  const int32_t index = add_node(p, NODE_NUMBER, &node);
  node->number = number;
  return index;
}

static int32_t parse_expression(parser_t *p) {
  char name[PLAN_NAME_SIZE];
  node_t *node;
  skip_blanks(p);
  if (p->status != TENON_OK) return -1;
  if (isdigit((unsigned char)*p->at) || *p->at == '-') return parse_number(p);
  if (accept(p, "'")) return parse_text(p);
  if (accept(p, "[")) {
    const int32_t index = add_node(p, NODE_LIST, &node);
    parse_operands(p, index, "]");
    return index;
  }
  read_name(p, name);
  if (!*name) return fail_parser(p, "an expression is expected");
  if (!strcmp(name, "true") || !strcmp(name, "false")) return parse_constant(p, *name == 't');
  if (!accept(p, "(")) return parse_reference(p, name);
  return strstr(name, "::") ? parse_op_call(p, name) : parse_function(p, name);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void parse_signature(parser_t *p) {
  plan_t *plan = p->plan;
  char name[PLAN_NAME_SIZE];
  while (p->status == TENON_OK && *p->at && !accept(p, "|")) {
    plan_input_t *input = &plan->inputs[plan->input_count];
    if (plan->input_count++ == PLAN_INPUTS_MOST) {
      fail_parser(p, "there are too many inputs");
      return;
    }
    input->is_host = accept(p, "@");
    input->is_variable = accept(p, "^");
    read_name(p, input->name);
    input->is_list = accept(p, "*");
    if (!*input->name) fail_parser(p, "the name of an input is expected");
    skip_blanks(p);
  }
  for (skip_blanks(p); p->status == TENON_OK && *p->at; skip_blanks(p)) {
    plan_attribute_t *attribute = &plan->attributes[plan->attribute_count];
    read_name(p, name);
    char *colon = strrchr(name, ':');
    if (!colon || plan->attribute_count++ == PLAN_ATTRIBUTES_MOST) {
      fail_parser(p, "an attribute with its kind is expected, such as alpha:f");
      return;
    }
    *colon = 0;
    attribute->kind = colon[1];
    memcpy(attribute->name, name, sizeof name);
  }
}

static void parse_formula(parser_t *p) {
  char name[PLAN_NAME_SIZE];
  while (p->status == TENON_OK && read_key(p, name)) {
    if (p->statement_count == STATEMENTS_MOST) {
      fail_parser(p, "there are too many statements");
      return;
    }
    const int32_t node = parse_expression(p);
    memcpy(p->names[p->statement_count], name, sizeof name);
    p->nodes[p->statement_count++] = node;
    expect(p, ";");
  }
  do {
    if (p->plan->result_count == PLAN_RESULTS_MOST) {
      fail_parser(p, "there are too many results");
      return;
    }
    p->plan->results[p->plan->result_count++] = (int8_t)parse_expression(p);
  } while (accept(p, ","));
  skip_blanks(p);
  if (*p->at) fail_parser(p, "the formula has ended");
}

tenon_status_t plan_parse(const row_t *row, plan_t **out_plan) {
  plan_t *plan = calloc(1, sizeof *plan);
  *out_plan = NULL;
  if (!plan) return tenon_error_set(TENON_MEMORY, "out of memory: a plan");
  plan->row = row;
  parser_t parser = {.at = row->signature, .plan = plan};
  parse_signature(&parser);
  parser.at = row->formula;
  parse_formula(&parser);
  if (parser.status != TENON_OK) {
    free(plan);
    return parser.status;
  }
  *out_plan = plan;
  return TENON_OK;
}
