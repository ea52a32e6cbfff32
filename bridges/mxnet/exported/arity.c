/* Determines how many arrays each argument of a node has. MXNet passes arrays without names or
 * gaps, and asks for their number before it passes them. Where the schema leaves the number open
 * (optional tensors, lists), attributes of the call state it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"
#include "node.h"

enum {
  UNSTATED = -1,
  COUNT_MOST = 1 << 16,
};

/* Reads a number and advances the text behind it. Returns false if there is no number or if it is
 * too large. */
static bool number_read(const char **text, int32_t *out) {
  char *end;
  long value = strtol(*text, &end, 10);
  if (end == *text || value < 0 || value > COUNT_MOST) return false;
  *text = end;
  *out = (int32_t)value;
  return true;
}

static bool read_whole_number(const node_t *node, const char *name, const char *text,
                              int32_t *out) {
  const char *at = text;
  if (number_read(&at, out) && !*at) return true;
  return message_set("%s: attribute '%s': expected a number of arrays, 0 to %d, found '%s'",
                     node->self->full, name, COUNT_MOST, text);
}

/* Reads "[1, 0, 2]", the number of arrays for each tensor argument. */
static bool counts_read(const node_t *node, const char *text, int32_t *counts) {
  const operator_t *self = node->self;
  const char *at = text + strspn(text, "[( ");
  for (int32_t i = 0; i < self->input_count; i++, at += strspn(at, ", "))
    if (!number_read(&at, &counts[i]))
      return message_set(
          "%s: operand_counts: expected %d numbers, one for each tensor argument, found '%s'",
          self->full, self->input_count, text);
  if (!at[strspn(at, ")] ")]) return true;
  return message_set(
      "%s: operand_counts: expected %d numbers, one for each tensor argument, found '%s'",
      self->full, self->input_count, text);
}

/* Returns the number of arrays that schema and attributes state for an argument; UNSTATED: any
 * number. */
static int32_t stated(const node_t *node, const tenon_argument_t *argument) {
  if (argument->kind != TENON_KIND_TENSORS) return 1;
  if (argument->count_attr < 0) return argument->count >= 0 ? argument->count : UNSTATED;
  int64_t count = node->values[argument->count_attr].as.i;
  if (count < 0) return 0;
  return count > COUNT_MOST ? COUNT_MOST : (int32_t)count;
}

/* Assigns the arrays that num_args leaves after the arguments whose number is stated: to the only
 * list of any length or, without such a list, to the optional tensors from left to right. */
static bool distribute(const node_t *node, int32_t left, int32_t *counts) {
  const operator_t *self = node->self;
  int32_t list = -1;
  for (int32_t i = 0; i < self->input_count; i++) {
    counts[i] = self->inputs[i].is_optional ? 0 : stated(node, &self->inputs[i]);
    if (counts[i] != UNSTATED) {
      left -= counts[i];
      continue;
    }
    if (list >= 0)
      return message_set("%s: lists '%s' and '%s' can both have any length: pass operand_counts, "
                         "the number of arrays for each tensor argument",
                         self->full, self->inputs[list].name, self->inputs[i].name);
    list = i;
    counts[i] = 0;
  }
  for (int32_t i = 0; i < self->input_count && list < 0 && left > 0; i++)
    if (self->inputs[i].is_optional && stated(node, &self->inputs[i]) == 1) {
      counts[i] = 1;
      left--;
    }
  if (list >= 0 && left >= 0) {
    counts[list] = left;
    return true;
  }
  if (left == 0) return true;
  return message_set("%s: num_args: %d arrays too %s for its tensor arguments", self->full,
                     abs(left), left < 0 ? "few" : "many");
}

static bool counts_set(const node_t *node, const arity_t *arity, int32_t *counts) {
  const operator_t *self = node->self;
  int32_t given;
  if (arity->operand_counts) return counts_read(node, arity->operand_counts, counts);
  if (arity->num_args)
    return read_whole_number(node, "num_args", arity->num_args, &given) &&
           distribute(node, given, counts);
  for (int32_t i = 0; i < self->input_count; i++) {
    counts[i] = self->inputs[i].is_optional ? 0 : stated(node, &self->inputs[i]);
    if (counts[i] == UNSTATED)
      return message_set("%s: list '%s' can have any length, which MXNet does not report: pass "
                         "num_args, the number of all arrays",
                         self->full, self->inputs[i].name);
  }
  return true;
}

static bool inputs_set(node_t *node, const arity_t *arity) {
  const operator_t *self = node->self;
  int32_t counts[OPERATOR_MOST];
  if (!counts_set(node, arity, counts)) return false;
  for (int32_t i = 0; i < self->input_count; i++) {
    const tenon_argument_t *argument = &self->inputs[i];
    int32_t expected = stated(node, argument);
    bool is_absent = argument->is_optional && counts[i] == 0;
    if (!is_absent && expected != UNSTATED && counts[i] != expected)
      return message_set("%s: operand_counts: argument '%s' takes %d arrays, found %d", self->full,
                         argument->name, expected, counts[i]);
    node->inputs[i] =
        (span_t){node->input_count, counts[i], argument->kind == TENON_KIND_TENSORS, is_absent};
    node->input_count += counts[i];
  }
  return true;
}

static bool outputs_set(node_t *node, const arity_t *arity) {
  const operator_t *self = node->self;
  int32_t total = 0;
  int32_t open = -1;
  for (int32_t o = 0; o < self->output_count; o++) {
    int32_t count = stated(node, &self->outputs[o]);
    if (count == UNSTATED && open >= 0)
      return message_set(
          "%s: results '%s' and '%s' are both lists of any length, which MXNet does not support",
          self->full, self->outputs[open].name, self->outputs[o].name);
    if (count == UNSTATED) {
      open = o;
      count = 0;
    }
    node->outputs[o] = (span_t){0, count, self->outputs[o].kind == TENON_KIND_TENSORS, false};
    total += count;
  }
  if (open >= 0 && !arity->num_outputs)
    return message_set("%s: result '%s' is a list of any length, and MXNet needs its length before "
                       "the call: pass num_outputs, the number of all results",
                       self->full, self->outputs[open].name);
  int32_t given = total;
  if (arity->num_outputs && !read_whole_number(node, "num_outputs", arity->num_outputs, &given))
    return false;
  if (given < total || (open < 0 && given != total))
    return message_set("%s: num_outputs: expected %s%d, found %d", self->full,
                       open < 0 ? "" : "at least ", total, given);
  if (open >= 0) node->outputs[open].count = given - total;
  for (int32_t o = 0; o < self->output_count; o++) {
    node->outputs[o].first = node->output_count;
    node->output_count += node->outputs[o].count;
  }
  return node->output_count > 0 ||
         message_set("%s has no result: MXNet supports only operators with results", self->full);
}

bool node_arity_set(node_t *node, const arity_t *arity) {
  return inputs_set(node, arity) && outputs_set(node, arity);
}
