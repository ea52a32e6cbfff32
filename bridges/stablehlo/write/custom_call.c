/* Writes operators of libraries as custom calls. Called by table.c. The reader assigns operands to
 * the inputs in order and attributes by name, so what it could not assign is refused. */
#include "write/custom_call.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

static bool print_value(FILE *out, const tenon_argument_t *about, const tenon_value_t *value) {
  switch (value->kind) {
  case TENON_KIND_BOOL:
    fprintf(out, value->as.i ? "true" : "false");
    return true;
  case TENON_KIND_INT:
    fprintf(out, "%lld : i64", (long long)value->as.i);
    return true;
  case TENON_KIND_FLOAT:
    fprintf(out, "%.17e : f64", value->as.f);
    return value->as.f - value->as.f >= 0; /* a finite number */
  case TENON_KIND_STR:
    hlo_print_text(out, value->as.s, value->count);
    return true;
  case TENON_KIND_CHOICE:
    hlo_print_text(out, about->choices[value->as.i], strlen(about->choices[value->as.i]));
    return true;
  case TENON_KIND_INTS:
    hlo_print_array(out, value->as.ints, (int32_t)value->count);
    return true;
  default:
    return false;
  }
}

/* Prints the attributes that are given, in brackets. */
static const char *config_text(hlo_write_t *w) {
  char *text = NULL;
  size_t size = 0;
  tenon_argument_t about = {.size = sizeof about};
  int32_t printed = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) {
    (void)hlo_write_failed(w, tn_no_memory("a program", 0));
    return "";
  }
  for (int32_t i = 0; i < w->op.attr_count; i++) {
    if (w->node.attrs[i].kind == TENON_KIND_NONE) continue;
    (void)tenon_op_argument(w->node.op, TENON_ARGUMENT_ATTR, i, &about);
    fprintf(out, "%s%s = ", printed++ ? ", " : "", about.name);
    if (!print_value(out, &about, &w->node.attrs[i]))
      hlo_write_missing(w, "attribute %.60s is of a kind that a custom call cannot hold",
                        about.name);
  }
  fclose(out);
  const char *kept = hlo_format(w, "%s", text ? text : "");
  free(text);
  return kept;
}

/* Collects the operands. Refuses those that the reader could not assign. */
static int32_t collect(hlo_write_t *w, hlo_val_t *operands, int32_t most) {
  int32_t count = 0;
  int32_t lists = 0;
  bool is_ended = false;
  tenon_argument_t about = {.size = sizeof about};
  for (int32_t i = 0; i < w->op.input_count; i++) {
    (void)tenon_op_argument(w->node.op, TENON_ARGUMENT_INPUT, i, &about);
    int32_t items = hlo_operand_count(w, i);
    lists += about.kind == TENON_KIND_TENSORS;
    if (about.is_written) hlo_write_missing(w, "it writes to its input %.60s", about.name);
    if (items && is_ended) hlo_write_missing(w, "an absent input before %.60s", about.name);
    is_ended = is_ended || (!items && about.kind != TENON_KIND_TENSORS);
    if (lists && is_ended) hlo_write_missing(w, "an absent input beside a list of inputs");
    for (int32_t k = 0; k < items && !hlo_write_stopped(w); k++) {
      if (count == most) hlo_write_missing(w, "more than %d inputs", (int)most);
      if (!hlo_write_stopped(w)) operands[count++] = hlo_item(w, i, k);
    }
  }
  if (lists > 1) hlo_write_missing(w, "several lists of inputs");
  return count;
}

static void print_call(hlo_write_t *w, const char *config, const hlo_val_t *operands, int32_t count,
                       const hlo_val_t *results) {
  const int32_t result_count = w->node.output_count;
  const char *colons = strstr(w->op.name, "::");
  fprintf(w->out, "    %%v%d:%d = \"stablehlo.custom_call\"(", (int)results[0].id,
          (int)result_count);
  for (int32_t i = 0; i < count; i++)
    fprintf(w->out, "%s%s", i ? ", " : "", hlo_val_text(w, &operands[i]));
  fprintf(w->out,
          ") <{api_version = 4 : i32, backend_config = {%s}, call_target_name = \"%.*s.%s\", "
          "has_side_effect = false}> : ",
          config, (int)(colons - w->op.name), w->op.name, colons + 2);
  hlo_print_types(w->out, operands, count);
  fprintf(w->out, " -> ");
  hlo_print_types(w->out, results, result_count);
  fprintf(w->out, "\n");
}

void hlo_write_custom_call(hlo_write_t *w) {
  enum { OPERANDS_MOST = 256 };
  hlo_val_t *operands = tn_arena_array(w->arena, OPERANDS_MOST, sizeof *operands);
  hlo_val_t *results = tn_arena_array(w->arena, (size_t)w->node.output_count + 1, sizeof *results);
  if (!operands || !results) {
    (void)hlo_write_failed(w, tn_no_memory("a custom call", 0));
    return;
  }
  if (w->op.traits & TENON_RANDOM) hlo_write_missing(w, "it draws random numbers");
  if (!w->node.output_count) hlo_write_missing(w, "it has no results");
  int32_t count = collect(w, operands, OPERANDS_MOST);
  const char *config = config_text(w);
  for (int32_t i = 0; i < w->node.output_count; i++) {
    results[i] = hlo_result(w, i);
    results[i].id = w->next;
    results[i].part = i;
    results[i].is_part = true;
  }
  if (hlo_write_stopped(w)) return;
  w->next++;
  print_call(w, config, operands, count, results);
  for (int32_t i = 0; i < w->node.output_count; i++)
    hlo_give_val(w, i, results[i]);
}
