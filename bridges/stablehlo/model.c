/* Reads a file, parses it, and lowers its main function. Called by bridge.c. */
#include "model.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/status.h"
#include "bytecode/bytecode.h"
#include "lower/narrow.h"
#include "lower/region.h"
#include "parse/cursor.h"
#include "parse/parse.h"

/* The limit for a file, in MiB: the text of a constant has up to 20 characters for each element. */
enum { MIB_MOST = 16 * 1024 };

typedef struct model_t {
  tn_arena_t arena;
  const char *bytes; /* Text ends with a 0. */
  size_t size;
  hlo_module_t module;
  hlo_lower_t lower;
} model_t;

static tenon_status_t read_program(const char *path, char **out_text, size_t *out_size) {
  struct stat about;
  tenon_status_t status = TENON_OK;
  FILE *file = fopen(path, "rb");
  if (!file) return tn_fail(TENON_NOT_FOUND, "%s: %s", path, strerror(errno));
  if (fstat(fileno(file), &about) != 0 || !S_ISREG(about.st_mode))
    status = tn_fail(TENON_INVALID, "%s: expected a file, found a folder or a device", path);
  else if (about.st_size > (off_t)MIB_MOST << 20)
    status =
        tn_fail(TENON_INVALID, "%s: files of more than %d MiB are not supported", path, MIB_MOST);
  else if (!(*out_text = malloc((size_t)about.st_size + 1)))
    status = tn_no_memory("the text of a program", (size_t)about.st_size);
  else
    *out_size = fread(*out_text, 1, (size_t)about.st_size, file);
  if (*out_text) (*out_text)[*out_size] = 0;
  fclose(file);
  return status;
}

/* inputs */

/* Names an input or output; `number` makes the name one that no other has. */
static const char *port_name(const char *stated, const char *otherwise, int32_t number, char *room,
                             size_t size) {
  snprintf(room, size, "%s%d", otherwise, (int)number);
  return stated && *stated ? stated : room;
}

static tenon_status_t add_input(model_t *model, const char *name, const char *other,
                                const hlo_type_t *type, tenon_edge_t *out_edge) {
  tenon_axis_t axes[TENON_RANK_MAX] = {{0, NULL}};
  for (int32_t i = 0; i < type->ndim; i++)
    axes[i].extent = type->dims[i];
  tenon_status_t status =
      tenon_builder_input(model->lower.builder, name, type->dtype, type->ndim, axes, out_edge);
  if (status == TENON_OK || strcmp(name, other) == 0) return status;
  return tenon_builder_input(model->lower.builder, other, type->dtype, type->ndim, axes, out_edge);
}

/* Returns the name that the program states for an argument; NULL: none. A main function that only
 * calls another one, as jax.export writes it, leaves the names to this function. */
static const char *stated_argument_name(const model_t *model, const hlo_function_t *function,
                                        int32_t index) {
  const char *own = function->arg_names ? function->arg_names[index] : NULL;
  if (own) return own;
  for (const hlo_op_t *op = function->body.first; op; op = op->next) {
    const hlo_attr_t *callee = hlo_attr_find(&op->attrs, "callee");
    if (strcmp(op->name, "func.call") != 0 || !callee || !callee->text) continue;
    const hlo_function_t *called = hlo_function_find(&model->module, callee->text);
    for (int32_t i = 0; called && called->arg_names && i < op->operand_count; i++)
      if (op->operands[i] == function->body.args[index] && i < called->body.arg_count &&
          called->arg_names[i])
        return called->arg_names[i];
  }
  return NULL;
}

static tenon_status_t add_inputs(model_t *model, const hlo_function_t *function,
                                 hlo_bound_t *args) {
  char room[40];
  for (int32_t i = 0; i < function->body.arg_count; i++) {
    const hlo_type_t *type = function->body.args[i]->type;
    const char *stated = stated_argument_name(model, function, i);
    const char *name = port_name(stated, "arg", i, room, sizeof room);
    args[i] = (hlo_bound_t){
        .edge = EDGE_NONE, .imaginary = EDGE_NONE, .narrow = EDGE_NONE, .is_set = true};
    if (type->kind == HLO_TOKEN) continue;
    if (type->kind != HLO_TENSOR || hlo_is_complex(type)) {
      char text[160] = "";
      hlo_type_text(type, text, sizeof text);
      return tn_fail(
          TENON_UNIMPLEMENTED,
          "input %d is a %s: pass real and imaginary parts, or items, as inputs of their "
          "own",
          (int)i, text);
    }
    TENON_TRY(add_input(model, name, room, type, &args[i].edge));
    args[i].edge = hlo_narrow(&model->lower, args[i].edge, type->bits, type->dtype.code == 0);
    TENON_TRY(model->lower.status);
  }
  return TENON_OK;
}

/* outputs */

static tenon_status_t add_output(model_t *model, const char *name, const char *other,
                                 tenon_edge_t edge) {
  tenon_status_t status = tenon_builder_output(model->lower.builder, name, edge);
  if (status == TENON_OK || strcmp(name, other) == 0) return status;
  return tenon_builder_output(model->lower.builder, other, edge);
}

static tenon_status_t add_program_outputs(model_t *model, const hlo_function_t *function,
                                          const hlo_bound_t *results) {
  char room[40];
  const hlo_op_t *last = function->body.last;
  for (int32_t i = 0; i < last->operand_count; i++) {
    const char *stated = i < function->result_count ? function->result_names[i] : NULL;
    const char *name = port_name(stated, "result", i, room, sizeof room);
    if (last->operands[i]->type->kind == HLO_TOKEN) continue;
    if (results[i].imaginary != EDGE_NONE || results[i].edge == EDGE_NONE)
      return tn_fail(
          TENON_UNIMPLEMENTED,
          "output %d is complex or a tuple: return real and imaginary parts, or items, as "
          "outputs of their own",
          (int)i);
    TENON_TRY(add_output(model, name, room, results[i].edge));
  }
  return TENON_OK;
}

/* the whole program */

static tenon_status_t say_missing(const model_t *model) {
  tenon_status_t status = TENON_UNIMPLEMENTED;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return tn_no_memory("a message", 0);
  fprintf(out, "operations that are not supported:");
  for (const hlo_missing_t *m = model->lower.missing; m; m = m->next) {
    char place[80];
    hlo_module_place(&model->module, m->at, place, sizeof place);
    fprintf(out, "\n  %.80s: %s (%.*s", m->name, m->reason, (int)strcspn(place, ","), place);
    if (m->count > 1) fprintf(out, " and %d more", m->count - 1);
    fprintf(out, ")");
  }
  if (model->lower.missing_count == HLO_MISSING_MAX) fprintf(out, "\n  and possibly more");
  fprintf(out,
          "\nload the libraries that define operators for them (tenon_library_load in C, --ops "
          "LIB for the command), or write the program without them");
  if (fclose(out) == 0) status = tn_fail(status, "%s", text);
  free(text);
  return status;
}

/* Returns @main, or the first public function. */
static const hlo_function_t *main_function(const hlo_module_t *module) {
  const hlo_function_t *function = hlo_function_find(module, "main");
  for (const hlo_function_t *f = module->functions; f && !function; f = f->next)
    if (f->is_public) function = f;
  return function ? function : module->functions;
}

static tenon_status_t lower_main(model_t *model, tenon_graph_t **out_graph) {
  hlo_lower_t *lower = &model->lower;
  const hlo_function_t *function = main_function(&model->module);
  int32_t count = function->body.last->operand_count;
  hlo_bound_t *args = hlo_lower_take(lower, (size_t)function->body.arg_count, sizeof *args);
  hlo_bound_t *results = hlo_lower_take(lower, (size_t)count, sizeof *results);
  if (!args || !results) return lower->status;
  TENON_TRY(tenon_builder_create(&lower->builder));
  tenon_builder_check(lower->builder, 1);
  if (*model->module.name) TENON_TRY(tenon_builder_name(lower->builder, model->module.name));
  TENON_TRY(add_inputs(model, function, args));
  (void)hlo_inline_body(lower, function, args, function->body.arg_count, results, count);
  TENON_TRY(lower->status);
  if (lower->missing) return say_missing(model);
  TENON_TRY(add_program_outputs(model, function, results));
  return tenon_builder_finish(lower->builder, out_graph);
}

static tenon_status_t build_program(model_t *model, tenon_graph_t **out_graph) {
  if (bc_is_bytecode(model->bytes, model->size))
    TENON_TRY(bc_read_module(model->bytes, model->size, &model->arena, &model->module));
  else
    TENON_TRY(hlo_parse_module(model->bytes, model->size, &model->arena, &model->module));
  model->lower = (hlo_lower_t){.arena = &model->arena, .module = &model->module, .part = -1};
  return lower_main(model, out_graph);
}

static bool is_given_up(const hlo_attr_t *attrs) {
  const hlo_attr_t *donor = hlo_attr_find(attrs, "jax.buffer_donor");
  return hlo_attr_find(attrs, "tf.aliasing_output") || (donor && donor->integer);
}

static bool has_own_elements(const hlo_type_t *type) { return type->bits || type->quant; }

/* Refuses inputs and outputs whose elements are others in a graph than in the program. */
static tenon_status_t check_buffers(const model_t *model) {
  const hlo_function_t *function = main_function(&model->module);
  const hlo_op_t *last = function->body.last;
  bool has_own = false;
  for (int32_t i = 0; i < function->body.arg_count; i++)
    has_own |= has_own_elements(function->body.args[i]->type);
  for (int32_t i = 0; i < last->operand_count; i++)
    has_own |= has_own_elements(last->operands[i]->type);
  return has_own ? tn_fail(TENON_UNIMPLEMENTED,
                           "an input or output has elements of fewer than 8 bits or of a quantised "
                           "type, which a buffer "
                           "cannot have: convert it to an integer of 8 bits in the program")
                 : TENON_OK;
}

/* Tells which inputs of the graph the caller gives up. */
static tenon_status_t mark_donated(const model_t *model, bool **out_donated) {
  const hlo_function_t *function = main_function(&model->module);
  const hlo_attr_t *attrs = function->arg_attrs;
  int32_t input = 0;
  *out_donated = NULL;
  if (!attrs || attrs->kind != HLO_ATTR_LIST || attrs->count != function->body.arg_count)
    return TENON_OK;
  bool *donated = calloc((size_t)attrs->count + 1, sizeof *donated);
  if (!donated) return tn_no_memory("the inputs of a program", (size_t)attrs->count);
  for (int32_t i = 0; i < attrs->count; i++)
    if (function->body.args[i]->type->kind != HLO_TOKEN)
      donated[input++] = is_given_up(&attrs->items[i]);
  *out_donated = donated;
  return TENON_OK;
}

/* Reads a program that a 0 follows, which `size` does not count. `out_donated`: NULL: not asked. */
static tenon_status_t read_terminated(const char *bytes, size_t size, const char *name,
                                      bool **out_donated, tenon_graph_t **out_graph) {
  model_t model = {.bytes = bytes, .size = size};
  /* Numbers have decimal points. */
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!plain) return tn_no_memory("a locale", 0);
  locale_t before = uselocale(plain);
  tenon_status_t status = build_program(&model, out_graph);
  if (status == TENON_OK && out_donated) {
    status = check_buffers(&model);
    if (status == TENON_OK) status = mark_donated(&model, out_donated);
    if (status != TENON_OK) {
      tenon_graph_release(*out_graph);
      *out_graph = NULL;
    }
  }
  if (status != TENON_OK) status = tn_prefix(status, "%s: ", name);
  (void)uselocale(before);
  freelocale(plain);
  tenon_builder_release(model.lower.builder);
  hlo_module_release(&model.module);
  tn_arena_clear(&model.arena);
  return status;
}

tenon_status_t hlo_model_read(const char *path, tenon_graph_t **out_graph) {
  char *text = NULL;
  size_t size = 0;
  TENON_TRY(read_program(path, &text, &size));
  const tenon_status_t status = read_terminated(text, size, path, NULL, out_graph);
  free(text);
  return status;
}

tenon_status_t hlo_program_read_donated(const char *bytes, size_t size, const char *name,
                                        bool **out_donated, tenon_graph_t **out_graph) {
  if (bc_is_bytecode(bytes, size))
    return read_terminated(bytes, size, name, out_donated, out_graph);
  char *text = malloc(size + 1);
  if (!text) return tn_no_memory("the text of a program", size);
  if (size) memcpy(text, bytes, size);
  text[size] = 0;
  const tenon_status_t status = read_terminated(text, size, name, out_donated, out_graph);
  free(text);
  return status;
}

tenon_status_t hlo_program_read(const char *bytes, size_t size, const char *name,
                                tenon_graph_t **out_graph) {
  return hlo_program_read_donated(bytes, size, name, NULL, out_graph);
}
