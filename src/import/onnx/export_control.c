/* Writes core::if, core::loop, core::scan and core::list_map as If, Loop, Scan and SequenceMap;
 * lower_control.c reads them back. Captured values are inputs of core's bodies, but ONNX's refer to
 * them by their names outside. Called by export.c. Invariant: as everywhere here, the last field is
 * written first. */
#include "import/onnx/export_control.h"

#include <string.h>

#include "base/status.h"
#include "import/onnx/import.h"

typedef struct control_row_t {
  const char *op;
  const char *type;
  const char *bodies[2]; /* attributes of ONNX, in the order of the schema's; NULL: one body */
  uint32_t captured;     /* the operand of captured values */
} control_row_t;

static const control_row_t rows[] = {{"core::if", "If", {"then_branch", "else_branch"}, 1},
                                     {"core::loop", "Loop", {"body", NULL}, 1},
                                     {"core::scan", "Scan", {"body", NULL}, 2},
                                     {"core::list_map", "SequenceMap", {"body", NULL}, 1}};
enum { LOOP_STATES, LOOP_CAPTURED, LOOP_TRIPS, LOOP_CONDITION };
enum { SCAN_STATES, SCAN_SCANS };

static const control_row_t *find_row(const tenon_op_t *op) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(op->name, rows[i].op) == 0) return &rows[i];
  return NULL;
}

bool tn_control_is(const tenon_op_t *op) { return find_row(op) != NULL; }

bool tn_control_fits(const tn_node_t *node, tn_text_t *why) {
  const control_row_t *row = find_row(node->op);
  for (int i = 0; i < 2 && row->bodies[i]; i++)
    if (node->attrs[i].as.graph->input_count < (size_t)node->operands[row->captured].count) {
      tn_text_add(why, "its body has fewer inputs than it captures values");
      return false;
    }
  if (strcmp(row->type, "Scan") == 0 && !node->operands[SCAN_SCANS].count) {
    tn_text_add(why, "ONNX's Scan needs an input that it scans; use core::loop");
    return false;
  }
  return true;
}

/* Names of the operands of an input. */
static const char *const *names_of(const tn_standard_t *site, uint32_t input) {
  const char *const *names = site->inputs;
  for (uint32_t i = 0; i < input; i++)
    names += site->node->operands[i].count;
  return names;
}

static void end_attribute(tn_writer_t *w, const char *name, int64_t type, size_t before) {
  tn_write_int(w, 20, type);
  tn_write_text(w, 1, name);
  tn_write_message(w, 5, before);
}

static tenon_status_t write_body(const tn_standard_t *site, const control_row_t *row, int which) {
  tn_writer_t *w = &site->export->writer;
  const size_t before = w->size;
  TN_TRY(tn_export_body(site->export, 6, row->bodies[which], site->node->attrs[which].as.graph,
                        names_of(site, row->captured),
                        (size_t)site->node->operands[row->captured].count));
  end_attribute(w, row->bodies[which], TN_ATTRIBUTE_GRAPH, before);
  return w->status;
}

/* Writes a list of the schema as an attribute, unless it is empty. */
static void write_list(const tn_standard_t *site, const char *argument, const char *name) {
  tn_writer_t *w = &site->export->writer;
  const size_t before = w->size;
  const int32_t attr = tn_schema_attr(&site->node->op->schema, argument, strlen(argument));
  const tenon_value_t *value = attr < 0 ? NULL : &site->node->attrs[attr];
  if (!value || value->kind != TENON_KIND_INTS || !value->count) return;
  for (uint32_t i = value->count; i-- > 0;)
    tn_write_int(w, 8, value->as.ints[i]);
  end_attribute(w, name, TN_ATTRIBUTE_INTS, before);
}

static void write_scan_attributes(const tn_standard_t *site) {
  tn_writer_t *w = &site->export->writer;
  write_list(site, "output_reverse", "scan_output_directions");
  write_list(site, "output_axes", "scan_output_axes");
  write_list(site, "input_reverse", "scan_input_directions");
  write_list(site, "input_axes", "scan_input_axes");
  const size_t before = w->size;
  tn_write_int(w, 3, site->node->operands[SCAN_SCANS].count);
  end_attribute(w, "num_scan_inputs", TN_ATTRIBUTE_INT, before);
}

static void write_names(const tn_standard_t *site, uint32_t input) {
  const char *const *names = names_of(site, input);
  for (int32_t i = site->node->operands[input].count; i-- > 0;)
    tn_write_text(&site->export->writer, 1, names[i]);
}

/* Writes an optional input. `name`: of another value in its place; NULL: none. */
static void write_optional(const tn_standard_t *site, uint32_t input, const char *name) {
  if (name || !site->node->operands[input].count)
    tn_write_text(&site->export->writer, 1, name ? name : "");
  else
    write_names(site, input);
}

/* Writes a node that casts the number of iterations to i64. */
static void write_trips_cast(const tn_standard_t *site, const char *name) {
  tn_writer_t *w = &site->export->writer;
  const size_t before = w->size;
  tn_write_int(w, 3, tn_onnx_number(tenon_dtype(TENON_I64)));
  end_attribute(w, "to", TN_ATTRIBUTE_INT, before);
  tn_write_text(w, 4, "Cast");
  tn_write_text(w, 2, name);
  write_names(site, LOOP_TRIPS);
  tn_write_message(w, 1, before);
}

static void write_inputs(const tn_standard_t *site, const control_row_t *row, const char *trips) {
  if (strcmp(row->type, "If") == 0 || strcmp(row->type, "SequenceMap") == 0) {
    write_names(site, 0);
  } else if (strcmp(row->type, "Loop") == 0) {
    write_names(site, LOOP_STATES);
    write_optional(site, LOOP_CONDITION, NULL);
    write_optional(site, LOOP_TRIPS, trips);
  } else {
    write_names(site, SCAN_SCANS);
    write_names(site, SCAN_STATES);
  }
}

/* Whether the number of iterations is another integer than i64. */
static bool has_short_trips(const tn_standard_t *site, const control_row_t *row) {
  const tenon_operand_t *trips = &site->node->operands[LOOP_TRIPS];
  if (strcmp(row->type, "Loop") != 0 || !trips->count) return false;
  return tenon_dtype_id(site->graph->edges[trips->edges[0]].dtype) != TENON_I64;
}

tenon_status_t tn_control_write(const tn_standard_t *site) {
  const control_row_t *row = find_row(site->node->op);
  tn_writer_t *w = &site->export->writer;
  const size_t before = w->size;
  char *trips = NULL;
  if (has_short_trips(site, row)) TN_TRY(tn_export_name(site->export, site->name, &trips));
  if (strcmp(row->type, "Scan") == 0) write_scan_attributes(site);
  for (int i = 2; i-- > 0;)
    if (row->bodies[i]) TN_TRY(write_body(site, row, i));
  tn_write_text(w, 4, row->type);
  tn_write_text(w, 3, site->name);
  for (int32_t o = site->node->output_count; o-- > 0;)
    tn_write_text(w, 2, site->outputs[o]);
  write_inputs(site, row, trips);
  tn_write_message(w, 1, before);
  if (trips) write_trips_cast(site, trips);
  return w->status;
}
