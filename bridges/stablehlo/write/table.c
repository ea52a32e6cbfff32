/* Finds the writer of an operator and runs it. Called by program.c. Invariant: an operator has one
 * row. */
#include "write/table.h"

#include <string.h>

#include "write/custom_call.h"
#include "write/formula.h"

extern const hlo_write_rows_t hlo_write_rows_pointwise, hlo_write_rows_shape, hlo_write_rows_matrix,
    hlo_write_rows_reduce, hlo_write_rows_window, hlo_write_rows_index, hlo_write_rows_control;

static const hlo_write_rows_t *const families[] = {
    &hlo_write_rows_pointwise, &hlo_write_rows_shape,  &hlo_write_rows_matrix,
    &hlo_write_rows_reduce,    &hlo_write_rows_window, &hlo_write_rows_index,
    &hlo_write_rows_control};

static const hlo_write_row_t *find_row(const char *name) {
  for (size_t i = 0; i < sizeof families / sizeof *families; i++)
    for (size_t k = 0; k < families[i]->count; k++)
      if (strcmp(families[i]->items[k].name, name) == 0) return &families[i]->items[k];
  return NULL;
}

/* Runs the formula of a row. Its numbers have the dtype of the first input. */
static void run_formula(hlo_write_t *w) {
  hlo_val_t values[4];
  hlo_val_t like = hlo_result(w, 0);
  int32_t count = w->op.input_count < 4 ? w->op.input_count : 4;
  for (int32_t i = 0; i < count; i++)
    values[i] = hlo_in(w, i);
  if (hlo_write_stopped(w)) return;
  like.dtype = values[0].dtype;
  hlo_give_val(w, 0, hlo_formula(w, w->row->text, values, count, &like));
}

void hlo_write_node(hlo_write_t *w) {
  if (strncmp(w->op.name, "core::", 6) != 0) {
    hlo_write_custom_call(w);
    return;
  }
  w->row = find_row(w->op.name + 6);
  if (!w->row)
    hlo_write_missing(w, "StableHLO is not written for this operator");
  else if (w->row->text)
    run_formula(w);
  else
    w->row->write(w);
}
